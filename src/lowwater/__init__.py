"""Windows that answer on time over streams that do not arrive in order, on Spark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lowwater.aggregates.functions import (
    aggregate,
    avg,
    count,
    count_distinct,
    first,
    frequent_items,
    hll,
    kll,
    last,
    max,
    median,
    min,
    mode,
    quantile,
    stddev,
    sum,
    top_k,
    variance,
)
from lowwater.errors import (
    CqlError,
    HostError,
    LowwaterError,
    PlanError,
    ResultOverflowError,
    ShedWarning,
    SinkError,
    SpecError,
    StateError,
)
from lowwater.prodding import aggressive, every, on_demand, sideline
from lowwater.progress.functions import (
    adaptive,
    ordered,
    pd,
    per_source,
    punctuated,
    quality,
    slack,
)
from lowwater.query import Outcome, Query, Run, Status, Stream, VirtualClock
from lowwater.query.combining import same_window
from lowwater.query.estimates import estimates
from lowwater.query.smoothing import lazy_flush, slow_flush
from lowwater.query.together import Together, together
from lowwater.query.windowing import named_windows
from lowwater.shedding import shed
from lowwater.sinks import callback, console, csv, json, memory, parquet, postgres
from lowwater.sources import feed, files, replay
from lowwater.windows import (
    Landmark,
    Session,
    SlideByRow,
    Sliding,
    arrival,
    extent,
    rank,
    rows,
    unbounded,
    wids,
)
from lowwater.windows import windows as window_ids

if TYPE_CHECKING:
    from lowwater.progress import Progress

__version__ = "0.1.0"


def stream(source: Any, *, time: str, progress: Progress | None = None) -> Stream:
    """Make a stream of a source.

    Parameters
    ----------
    source
        A streaming DataFrame, `lw.files(...)`, `lw.replay(...)` or `lw.feed(...)`.
    time
        The column that says when a row happened: its event time, or any ordered number.
    progress
        How we learn that time has passed: `lw.slack("10 seconds")`, `lw.ordered()`,
        `lw.quality(0.95)`, `lw.adaptive()`, `lw.pd(0.95)`, `lw.punctuated(...)` or
        `lw.per_source(...)`. It is left out where a join says `quality=`.
    """
    if type(source).__module__.startswith("pyspark."):
        source = import_module("lowwater.spark.dataframes").from_dataframe(source)
    if not hasattr(source, "schema"):
        raise SpecError(
            f"source={source!r} is no stream; give a streaming DataFrame, lw.files(...), "
            f"lw.replay(...) or lw.feed(...)"
        )
    return Stream.of(source, time, progress)


def windows(*of: Any, **named: Any) -> Any:
    """Name several windows for one query, or tell which windows hold some positions.

    With names: windows that one query has at once, on common panes. Each is a range, or a pair
    (range, slide).

    >>> windows(hour=("1 hour", "1 minute"), day=("1 day", "1 minute")).named["day"]
    ('1 day', '1 minute')

    With a window and positions: the ids of the windows that hold at least one of them (WID 3.3).

    >>> windows(Sliding(range=10), [3, 25]).tolist()
    [0, 2]
    """
    return named_windows(named) if named and not of else window_ids(*of, **named)


def sql(text: str, /, **streams: Stream) -> Stream:
    """Build a query from text; `streams` are what it may name in FROM.

    It is a `Query` if windows come last, and the stream of rows after them if other steps do.
    The grammar is on one page, docs/cql.md. A mistake raises `CqlError`, which shows where it is.

    >>> import lowwater as lw
    >>> feed = lw.feed("ts timestamp, segment int, speed double")
    >>> query = lw.sql(
    ...     "SELECT segment, max(speed) AS fastest "
    ...     "FROM traffic [RANGE 300 seconds SLIDE 60 seconds WATTR ts] GROUP BY segment",
    ...     traffic=lw.stream(feed, time="ts", progress=lw.ordered()),
    ... )
    >>> query.schema.names
    ['window', 'wid', 'segment', 'fastest', 'kind']
    """
    from lowwater.cql import query_of

    return query_of(text, streams)


def dashboard(run: Run, **options: Any) -> Any:
    """Serve a live page about a running query on this machine; its `url` holds a token.

    `port=` is any that is free unless given; `controls=True` lets the page ask for early results.
    """
    return import_module("lowwater.ui").dashboard(run, **options)


def session(**settings: str) -> Any:
    """Return a SparkSession tuned for short epochs; `settings` are added to its configuration."""
    return import_module("lowwater.spark.session").session(**settings)


__all__ = [
    "CqlError",
    "HostError",
    "Landmark",
    "LowwaterError",
    "Outcome",
    "PlanError",
    "Query",
    "ResultOverflowError",
    "Run",
    "Session",
    "ShedWarning",
    "SinkError",
    "SlideByRow",
    "Sliding",
    "SpecError",
    "StateError",
    "Status",
    "Stream",
    "Together",
    "VirtualClock",
    "adaptive",
    "aggregate",
    "aggressive",
    "arrival",
    "avg",
    "callback",
    "console",
    "count",
    "count_distinct",
    "csv",
    "dashboard",
    "estimates",
    "every",
    "extent",
    "feed",
    "files",
    "first",
    "frequent_items",
    "hll",
    "json",
    "kll",
    "last",
    "lazy_flush",
    "max",
    "median",
    "memory",
    "min",
    "mode",
    "on_demand",
    "ordered",
    "parquet",
    "pd",
    "per_source",
    "postgres",
    "punctuated",
    "quality",
    "quantile",
    "rank",
    "replay",
    "rows",
    "same_window",
    "session",
    "shed",
    "sideline",
    "slack",
    "slow_flush",
    "sql",
    "stddev",
    "stream",
    "sum",
    "together",
    "top_k",
    "unbounded",
    "variance",
    "wids",
    "windows",
]
