"""The same epochs give the same rows, to the bit, in one process and on Spark."""

from __future__ import annotations

from importlib.util import find_spec

import pyarrow as pa
import pytest

import lowwater as lw
from tests.spark.streams import SCHEMA, cut, disordered, ordered_rows

AGGREGATES = {
    "n": lw.count(),
    "values": lw.count("value"),
    "total": lw.sum("value"),
    "money": lw.sum("amount"),
    "mean": lw.avg("value"),
    "top": lw.max("name"),
    "spread": lw.stddev("value"),
    "opening": lw.first("amount"),
    "closing": lw.last("name"),
}
SKETCHES = find_spec("datasketches") is not None
LONGEST = lw.aggregate("name", lift=len, combine=max, lower=int, returns="int")
JOINED = lw.aggregate("key", init=list, incr=lambda kept, v: [*kept, v], final=len, returns="int")


def query_of(feed, progress, **window):
    return lw.stream(feed, time="ts", watermark=progress).window(**window)


CASES = {
    "sliding, late rows": lambda f: (
        query_of(f, lw.slack("2 seconds"), range="10 seconds", slide="3 seconds")
        .group_by("key")
        .agg(**AGGREGATES)
    ),
    "no group": lambda f: query_of(
        f, lw.slack("1 second"), range="7 seconds", slide="2 seconds"
    ).agg(**AGGREGATES),
    "gaps": lambda f: (
        query_of(f, lw.slack("1 second"), range="2 seconds", slide="5 seconds")
        .group_by("key", "name")
        .agg(n=lw.count())
    ),
    "landmark": lambda f: (
        query_of(f, lw.slack("1 second"), range=lw.unbounded, slide="4 seconds")
        .group_by("key")
        .agg(n=lw.count(), total=lw.sum("value"))
    ),
    "consistent": lambda f: (
        query_of(f, lw.slack("1 second", mode="consistent"), range="6 seconds", slide="2 seconds")
        .group_by("key")
        .agg(n=lw.count())
    ),
    "slack in rows": lambda f: query_of(f, lw.slack(rows=60), range="5 seconds").agg(n=lw.count()),
    "per source": lambda f: (
        query_of(f, lw.per_source("key", lw.slack("1 second")), range="5 seconds")
        .group_by("key")
        .agg(n=lw.count())
    ),
    "quality": lambda f: query_of(f, lw.quality(0.8), range="2 seconds", slide="1 second").agg(
        n=lw.count()
    ),
    "quality of each group": lambda f: (
        query_of(f, lw.quality(error=0.2, share=0.7, by="key"), range="2 seconds")
        .group_by("key")
        .agg(n=lw.count())
    ),
    "punctuated by group": lambda f: (
        query_of(f, lw.punctuated("flag", by="key"), range="5 seconds", slide="1 second")
        .group_by("key")
        .agg(n=lw.count())
    ),
    "over a number": lambda f: (
        lw.stream(f, time="ts", watermark=lw.slack(0.5))
        .window(range=1, slide=0.25, on="value")
        .agg(n=lw.count())
    ),
    "ending at every row, for all groups": lambda f: (
        query_of(f, lw.slack("1 second"), range="3 seconds", slide=lw.rows(1))
        .group_by("key")
        .agg(**AGGREGATES)
    ),
    "ending by rank, in partitions": lambda f: query_of(
        f,
        lw.slack("1 second"),
        range="3 seconds",
        slide=lw.rows(5),
        slide_on=lw.rank("ts"),
        partition_by="key",
    ).agg(n=lw.count(), total=lw.sum("value")),
    "ending at arriving rows": lambda f: (
        query_of(f, lw.slack("1 second"), range="3 seconds", slide=lw.rows(10))
        .group_by("key")
        .agg(n=lw.count())
    ),
    "rows as they arrive": lambda f: (
        query_of(f, lw.slack("1 second"), range=lw.rows(100), slide=lw.rows(10))
        .group_by("key")
        .agg(n=lw.count(), total=lw.sum("value"))
    ),
    "rows of a partition by rank": lambda f: query_of(
        f,
        lw.slack("1 second"),
        range=lw.rows(20),
        slide=lw.rows(3),
        on=lw.rank("ts"),
        partition_by="key",
    ).agg(n=lw.count(), names=JOINED),
    "sessions": lambda f: (
        query_of(f, lw.slack("1 second"), gap="400 milliseconds").group_by("key").agg(**AGGREGATES)
    ),
    "several windows": lambda f: (
        lw.stream(f, time="ts", watermark=lw.slack("1 second"))
        .window(lw.windows(short="2 seconds", long=("12 seconds", "3 seconds")))
        .group_by("key")
        .agg(n=lw.count(), total=lw.sum("value"))
    ),
    "revised": lambda f: (
        query_of(
            f,
            lw.slack("1 second"),
            range="5 seconds",
            slide="2 seconds",
            allowed_lateness="2 seconds",
        )
        .group_by("key")
        .agg(**AGGREGATES)
    ),
    "all values, and sketches": lambda f: (
        query_of(f, lw.slack("2 seconds"), range="6 seconds", slide="2 seconds")
        .group_by("key")
        .agg(
            mid=lw.median("amount"),
            tails=lw.quantile("value", [0.1, 0.9]),
            distinct=lw.count_distinct("name"),
            top=lw.top_k("name", 2),
            most=lw.mode("flag"),
            about_mid=lw.median("value", sketch=SKETCHES),
            about_distinct=lw.count_distinct("name", sketch=SKETCHES),
            about_top=lw.top_k("amount", 2, sketch=SKETCHES),
        )
    ),
    "user-defined": lambda f: (
        query_of(f, lw.slack("2 seconds"), range="6 seconds", slide="2 seconds")
        .group_by("flag")
        .agg(longest=LONGEST, keys=JOINED)
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_local_and_spark_give_identical_rows(spark, case):
    feed = lw.feed(SCHEMA)
    query = CASES[case](feed)
    epochs = {feed: cut(disordered(2_000, seconds=40, late_by=4), 5)}
    epochs[feed].insert(2, epochs[feed][0].slice(0, 0))
    here = query.run(epochs=epochs, host="local")
    there = query.run(epochs=epochs, host="spark")
    assert len(here.results) > 0
    assert ordered_rows(there.results) == ordered_rows(here.results)
    assert ordered_rows(there.late) == ordered_rows(here.late)
    assert ordered_rows(there.malformed) == ordered_rows(here.malformed)
    assert there.status.counts == here.status.counts
    assert there.status.quality == here.status.quality
    assert there.status.balanced


# -- plans -----------------------------------------------------------------------------------------

SECOND = lw.slack("1 second")
BAND = ("-1 second", "2 seconds")


def by_key(stream, size, **words):
    return stream.window(range=size, **words).group_by("key").agg(n=lw.count(), v=lw.sum("value"))


PLANS = {
    "union of three": lambda a, b, c: by_key(a.union(b, c), "5 seconds", slide="2 seconds"),
    "distinct, then windows": lambda a, b, _: by_key(
        a.union(b).distinct("name", within="2 seconds"), "5 seconds"
    ),
    "left join": lambda a, b, _: a.join(b, on=["key", "name"], band=BAND, how="left"),
    "windows over a full join": lambda a, b, _: by_key(
        a.join(b, on=["key", "name"], band=BAND, how="full"), "4 seconds", on="time_max"
    ),
    "pairs with a target": lambda a, b, _: lw.stream(a.node.source, time="ts").join(
        lw.stream(b.node.source, time="ts"), on=["key", "name"], band=BAND, quality=0.7
    ),
    "windows over windows after a filter": lambda a, *_: (
        by_key(a.where("value > -1"), "2 seconds")
        .where("n > 3")
        .with_columns(twice="n * 2")
        .window(range="8 seconds")
        .agg(n=lw.sum("twice"), most=lw.max("v"))
    ),
    "pairs of windows of ordered streams": lambda a, b, _: by_key(
        a.order().join(b, on=["key", "name"], band=BAND), "3 seconds", on=("ts", "ts_other")
    ),
    "smooth windows, and windows over them": lambda a, *_: (
        a.window(range="4 seconds", flush=lw.slow_flush(max_delay="2 windows"))
        .group_by("name")
        .agg(n=lw.count())
        .window(range="12 seconds")
        .agg(n=lw.sum("n"), names=lw.count())
    ),
}


def three():
    """Three feeds of different length, disorder and progress, and their epochs."""
    feeds = [lw.feed(SCHEMA) for _ in range(3)]
    policies = [SECOND, lw.punctuated("flag"), lw.slack("1 second", mode="consistent")]
    streams = [lw.stream(f, time="ts", watermark=p) for f, p in zip(feeds, policies, strict=True)]
    rows = [disordered(600, seconds=30, late_by=s, seed=s) for s in (3, 2, 4)]
    return streams, {f: cut(t, n) for f, t, n in zip(feeds, rows, (4, 2, 3), strict=True)}


def fed(assembly, epochs):
    return {feed: given for feed, given in epochs.items() if feed in assembly.sources}


def assert_identical(here, there):
    assert len(here.results) > 0
    for output in ("results", "late", "malformed"):
        found, expected = (ordered_rows(getattr(o, output)) for o in (there, here))
        assert found == expected
    assert there.status.counts == here.status.counts
    assert there.status.operators == here.status.operators
    assert there.status.quality == here.status.quality


@pytest.mark.parametrize("plan", PLANS)
def test_plans_give_identical_rows_on_both_hosts(spark, plan):
    streams, epochs = three()
    query = PLANS[plan](*streams)
    given = fed(query.assembly, epochs)
    here, there = (query.run(epochs=given, host=host) for host in ("local", "spark"))
    assert_identical(here, there)


def test_pairs_leave_in_the_same_order_on_both_hosts(spark):
    feeds = [lw.feed(SCHEMA) for _ in range(2)]
    a, b = (lw.stream(f, time="ts") for f in feeds)
    query = a.join(b, on="name", band=BAND, order="time", quality=0.7)
    rows = [disordered(600, seconds=30, late_by=s, seed=s) for s in (8, 10)]
    given = {f: cut(t, 9) for f, t in zip(feeds, rows, strict=True)}
    here, there = (query.run(epochs=given, host=host) for host in ("local", "spark"))
    assert_identical(here, there)
    assert there.results.equals(here.results)
    times = here.results.column("time_max").to_pylist()
    assert times == sorted(times)
    assert here.status["late"] + here.status["partly_late"] > 0


def test_queries_together_give_identical_rows_on_both_hosts(spark):
    (a, b, _), epochs = three()
    joined = a.join(b, on=["key", "name"], band=BAND)
    both = lw.together(pairs=joined, counts=by_key(joined, "5 seconds"), raw=a.where("value > 1"))
    given = fed(both.assembly, epochs)
    here, there = (both.run(epochs=given, host=host) for host in ("local", "spark"))
    for name in ("pairs", "counts", "raw"):
        assert_identical(here[name], there[name])


def test_the_same_windows_are_left_out_on_both_hosts(spark):
    (a, b, _), epochs = three()
    low = by_key(a.union(b).where("value > -1"), "2 seconds", slide="1 second")
    both = lw.together(
        low=low, high=low.window(range="4 seconds", slide="2 seconds").agg(n=lw.sum("n"))
    )
    given = {feed: cut(pa.concat_tables(tables), 8) for feed, tables in epochs.items()}
    how = lw.shed(max_gap={"low": 12, "high": 6}, share=0.6)
    runs = [
        both.run(epochs=fed(both.assembly, given), host=h, shed=how) for h in ("local", "spark")
    ]
    for name in ("low", "high"):
        here, there = (found[name] for found in runs)
        assert_identical(here, there)
        assert ordered_rows(there.dropped) == ordered_rows(here.dropped)
        assert there.status.dropped == here.status.dropped
        assert len(here.dropped) > 0
    assert here.status["shed"] > 0


def test_the_same_classes_lose_windows_on_both_hosts(spark):
    (a, b, _), epochs = three()
    query = by_key(a.union(b).where("value > -1"), "2 seconds", slide="1 second")
    given = fed(query.assembly, {f: cut(pa.concat_tables(t), 8) for f, t in epochs.items()})
    how = lw.shed(max_gap=12, share=0.4, fair_by="key")
    here, there = (query.run(epochs=given, host=h, shed=how) for h in ("local", "spark"))
    assert_identical(here, there)
    assert ordered_rows(there.dropped) == ordered_rows(here.dropped)
    assert there.status.dropped == here.status.dropped
    assert len(here.dropped) > 0
    assert here.status["shed"] > 0


def test_the_same_rows_are_sampled_on_both_hosts(spark):
    (a, b, _), epochs = three()
    query = by_key(a.union(b).where("value > -1"), "2 seconds", slide="1 second")
    given = fed(query.assembly, {f: cut(pa.concat_tables(t), 8) for f, t in epochs.items()})
    how = lw.shed(share=0.4, kind="sampled")
    here, there = (query.run(epochs=given, host=h, shed=how) for h in ("local", "spark"))
    assert_identical(here, there)
    assert 0 < here.results.column("sampled").to_numpy().min() < 1
    assert here.status["shed"] == there.status["shed"] > 0


def test_a_need_decides_the_same_on_both_hosts(spark):
    feed = lw.feed(SCHEMA)
    query = by_key(lw.stream(feed, time="ts"), "5 seconds")
    need = lw.need(fresh="5 seconds", right=0.9, exact="20 seconds", gives=("exact", "right"))
    epochs = {feed: cut(disordered(2_000, seconds=40, late_by=4), 20)}
    here, there = (
        query.run(epochs=epochs, host=host, need=need, clock=lw.VirtualClock(per_epoch="2 seconds"))
        for host in ("local", "spark")
    )
    assert_identical(here, there)
    assert "early" in here.results["kind"].to_pylist()
    assert there.status.need == here.status.need
    assert here.status.need.kept["fresh"] is not None
