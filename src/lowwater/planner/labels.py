"""The labels of the compatibility table: windows, aggregates, operators, features."""

from __future__ import annotations

WINDOWS = {
    "tumbling": "`range=`",
    "sliding": "`range=`, a shorter `slide=`",
    "gaps": "`range=`, a longer `slide=`",
    "named": "`lw.windows(...)`",
    "landmark": "`range=lw.unbounded`",
    "arrival": "`range=lw.rows(n)`",
    "rank": "`on=lw.rank(...)`",
    "row": "`slide=lw.rows(n)`",
    "slide_on": "`slide_on=` a column",
    "session": "`gap=`",
    "both times": "`on=` both times of a join",
}
"""The kinds of windows, as {label: code that the user writes}."""

AGGREGATES = {
    "decomposable": "count, sum, avg, min, max, …",
    "holistic": "exact median, quantile, mode, count_distinct, …",
    "sketch": "hll, kll, frequent_items, …",
    "lift": "`lw.aggregate(lift=, combine=, lower=)`",
    "init": "`lw.aggregate(init=, incr=, final=)`",
}
"""The kinds of aggregates, as {label: code that the user writes, or examples}."""

OPERATORS = {
    "rows": "a stream without windows",
    "distinct": "`distinct()`",
    "distinct within": "`distinct(within=)`",
    "order": "`order()`",
    "join": "`join(how='inner')`",
    "outer join": "`join(how='left')` and other joins that keep rows without a partner",
    "ordered join": "`join(order='time')`",
    "second level": "windows, a join or distinct over the results of windows",
    "order over results": "`order()` over the results of windows",
}
"""The kinds of operators, as {label: code that the user writes, or a description}."""

FEATURES = {
    "allowed_lateness": "`window(allowed_lateness=)`",
    "flush": "`window(flush=)`",
    "partition_by": "`window(partition_by=)`",
    "since": "`lw.punctuated(when, since=)`",
    "by": "`lw.punctuated(when, by=)`",
    "per_source": "`lw.per_source(...)`",
    "consistent": "`lw.slack(mode='consistent')`",
    "quality share": "`lw.quality(0.95)`",
    "quality error": "`lw.quality(error=0.01)`",
    "early_every": "`early=lw.early_every(...)`",
    "early_before": "`early=lw.early_before(...)`",
    "early accuracy": "`early=lw.early_before(accuracy=)`",
    "early_on_demand": "`early=lw.early_on_demand()`",
    "estimate raw": "`estimate='raw'`",
    "need": "`need=lw.need(...)`",
    "sideline": "`sideline=`",
    "shed": "`shed=lw.shed(...)`",
    "shed fill": "`shed=lw.shed(fill='linear')`",
    "fair_by": "`shed=lw.shed(fair_by=)`",
    "sampled": "`shed=lw.shed(kind='sampled')`",
}
"""The features, as {label: code that the user writes}."""
