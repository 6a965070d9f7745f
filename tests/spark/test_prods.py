"""Early results on Spark: as in one process, on demand, and after a crash."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lowwater as lw
from tests.spark.streams import SCHEMA, cut, disordered
from tests.wait import wait_until

PLANS = {
    "windows": lambda a, _: (
        a.window(range="10 seconds", slide="4 seconds")
        .group_by("key")
        .agg(n=lw.count(), total=lw.sum("value"), mean=lw.avg("value"), top=lw.max("value"))
    ),
    "three levels": lambda a, b: (
        a.join(b, on="key", band=("-1 second", "1 second"), how="left")
        .window(range="4 seconds")
        .group_by("key")
        .agg(n=lw.count())
        .window(range="8 seconds", on="window")
        .agg(most=lw.max("n"), all=lw.sum("n"))
    ),
}


def timeless(status):
    """The status without its only figure that the wall clock decides."""
    return replace(status, rows_per_second=None)


@pytest.mark.parametrize("name", PLANS)
def test_prods_on_spark_equal_those_in_one_process(spark, name):
    feeds = [lw.feed(SCHEMA) for _ in range(2)]
    asks = lw.feed("ts timestamp, key bigint")
    streams = [lw.stream(f, time="ts", watermark=lw.slack("2 seconds")) for f in feeds]
    query = PLANS[name](*streams)
    given = {f: cut(disordered(600, seconds=40, late_by=3, seed=n), 5) for n, f in enumerate(feeds)}
    given = {f: rows for f, rows in given.items() if f in query.assembly.sources}
    given[asks] = [[(None, None)], [], [(None, 3)], [(None, None)], []]
    prods = [lw.stream(asks, time="ts", watermark=lw.ordered()), lw.early_every("2 seconds")]
    found = [
        query.run(epochs=given, early=prods, host=host, clock=lw.VirtualClock())
        for host in ("local", "spark")
    ]
    local, on_spark = found
    assert "early" in local.results.column("kind").to_pylist()
    assert on_spark.results.equals(local.results)
    assert timeless(on_spark.status) == timeless(local.status)


def test_sidelining_on_spark_equals_that_in_one_process(spark):
    """The clock goes on faster than the stream, which falls behind more and more."""
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="ts", watermark=lw.slack("1 second")).where("value > 0")
    query = (
        stream.window(range="4 seconds", slide="2 seconds")
        .group_by("key")
        .agg(n=lw.count(), total=lw.sum("amount"), top=lw.max("name"))
    )
    words = {
        "epochs": {feed: cut(disordered(1_200, seconds=40, late_by=10), 20)},
        "clock": lw.VirtualClock(per_epoch="2500 milliseconds"),
        "early": lw.early_every("2 seconds"),
    }
    local, on_spark = (
        query.run(**words, sideline=lw.sideline(every=4), host=host) for host in ("local", "spark")
    )
    assert local.status.operators["hold"]["admitted"] > 100
    assert on_spark.results.equals(local.results)
    assert on_spark.late.equals(local.late)
    assert timeless(on_spark.status) == timeless(local.status)
    plain = query.run(**words, host="local")
    finals = [
        Counter(repr(r) for r in found.results.to_pylist() if r["kind"] == "final")
        for found in (local, plain)
    ]
    assert finals[0] == finals[1]
    assert len(local.late) == len(plain.late) > 0


def test_an_open_window_is_estimated_on_demand(spark, tmp_path):
    folder = tmp_path / "stream"
    folder.mkdir()
    rows = disordered(400, seconds=20, late_by=1).select(["ts", "key"])
    pq.write_table(rows, folder / "0.parquet")
    stream = lw.stream(lw.files(folder), time="ts", watermark=lw.slack("1 second"))
    query = stream.window(range="1 hour").group_by("key").agg(n=lw.count())
    found = []
    sink = lw.to_callback(lambda _, table: found.extend(table.to_pylist()))
    run = query.start(
        sink=sink, checkpoint=str(tmp_path / "c"), early=lw.early_on_demand(), estimate="raw"
    )
    try:
        wait_until(lambda: run.status().counts.get("in") == 400)
        before = run.status().epoch
        run.prod()
        wait_until(lambda: found)
        assert run.status().epoch <= before + 2
        assert sum(r["n"] for r in found) == 400
        keys = {r["key"] for r in found}
        found.clear()
        run.prod(key=None)
        wait_until(lambda: found)
        assert {r["key"] for r in found} == {None}
        run.prod(upto="1969-01-01")
        wait_until(lambda: run.status().prods["empty"] == 1)
        assert run.status().prods == {"asked": 3, "answered": 2, "empty": 1, "early": len(keys) + 1}
        with pytest.raises(
            lw.SpecError, match="'speed' is not a group of the query; these are: key"
        ):
            run.prod(speed=3)
    finally:
        run.stop()


def test_in_a_silence_the_clock_requests_early_rows_on_spark(spark, tmp_path):
    """
    rows  |||
    early      *    *    *    one of each window that ends in the silence, and no final
    """
    folder = tmp_path / "stream"
    folder.mkdir()
    now = datetime.now(UTC)
    rows = [{"ts": now - timedelta(seconds=n)} for n in range(3)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "0.parquet")
    frame = spark.readStream.schema("ts timestamp").parquet(str(folder))
    stream = lw.stream(frame, time="ts", watermark=lw.slack("1 hour"))
    query = stream.window(range="1 hour", slide="2 seconds").agg(n=lw.count())
    found = []
    run = query.start(
        sink=lw.to_callback(lambda _, table: found.extend(table.to_pylist())),
        checkpoint=str(tmp_path / "c"),
        trigger="1 second",
        early=lw.early_before(0.5),
    )
    try:
        wait_until(lambda: len(found) >= 5)
    finally:
        run.stop()
    assert run.status().counts["in"] == 3
    assert {row["kind"] for row in found} == {"early"}
    ends = [row["window"]["end"] for row in found]
    assert len(ends) == len(set(ends))
    assert max(ends) > now + timedelta(seconds=4)


def test_a_run_without_prods_says_how_to_have_them(spark, tmp_path):
    (tmp_path / "stream").mkdir()
    source = lw.files(tmp_path / "stream", schema="ts timestamp")
    query = lw.stream(source, time="ts", watermark=lw.ordered()).window(range="1 hour")
    run = query.agg(n=lw.count()).start(sink=lw.to_memory(), checkpoint=str(tmp_path / "c"))
    try:
        with pytest.raises(lw.PlanError, match=r"early=lw\.early_on_demand\(\)"):
            run.prod()
    finally:
        run.stop()
