"""Queries that run on: start, stop, resume, silence, replay."""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming import StreamingQueryListener

import lowwater as lw
from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.entry import Opening
from lowwater.errors import ResultOverflowError, places
from tests.spark.streams import cut, disordered
from tests.wait import wait_until


@pytest.fixture
def pieces():
    return cut(disordered(1_200, seconds=60, late_by=2).select(["ts", "key"]), 6)


def test_a_query_resumes_where_it_was_stopped(spark, tmp_path, pieces):
    folder = tmp_path / "stream"
    folder.mkdir()
    for i in range(3):
        pq.write_table(pieces[i], folder / f"{i}.parquet")

    def start():
        stream = lw.stream(lw.files(folder), time="ts", watermark=lw.slack("3 seconds"))
        query = stream.window(range="5 seconds").group_by("key").agg(n=lw.count())
        return query.start(sink=lw.to_parquet(tmp_path / "out"), checkpoint=str(tmp_path / "c"))

    run = start()
    wait_until(lambda: run.status().counts.get("in") == 600)
    run.stop()
    assert run.wait(10)
    for i in range(3, 6):
        pq.write_table(pieces[i], folder / f"{i}.parquet")
    run = start()
    wait_until(lambda: run.status().counts.get("in") == 1_200)
    wait_until(lambda: run.status().counts["results"] >= 10 * 8)
    run.stop()
    status = run.status()
    assert status.balanced
    assert status["late"] == 0
    assert sum(pq.read_table(tmp_path / "out").column("n").to_pylist()) <= 1_200


def test_the_last_windows_close_when_the_stream_goes_quiet(spark, tmp_path, pieces):
    folder = tmp_path / "stream"
    folder.mkdir()
    pq.write_table(pieces[0], folder / "0.parquet")
    progress = lw.slack("2 seconds", idle_timeout="3 seconds")
    stream = lw.stream(lw.files(folder), time="ts", watermark=progress)
    query = stream.window(range="2 seconds").agg(n=lw.count())
    results = lw.to_memory()
    run = query.start(sink=results, checkpoint=str(tmp_path / "c"))
    try:
        wait_until(lambda: run.status().counts.get("in") == 200)
        wait_until(lambda: sum(results.table(query.schema).column("n").to_pylist()) == 200)
    finally:
        run.stop()


def test_a_recording_is_replayed_by_arrival_time(spark, tmp_path):
    arrival = [10.0, 10.1, 10.2, 14.0, 14.1, 20.0]
    event = [1, 0, 2, 9, 8, 30]
    table = pa.table(
        {
            "at": pa.array([int(a * 1_000_000) for a in arrival], pa.timestamp("us")),
            "ts": pa.array([e * 1_000_000 for e in event], pa.timestamp("us")),
        }
    ).take([5, 0, 3, 1, 2, 4])
    pq.write_table(table, tmp_path / "r.parquet")
    recording = lw.replay(tmp_path / "r.parquet", arrival="at", speed=10)
    query = lw.stream(recording, time="ts", watermark=lw.slack("2 seconds"))
    began = time.monotonic()
    counting = query.window(range="5 seconds").agg(n=lw.count())
    outcome = counting.run()
    assert time.monotonic() - began >= 0.9
    assert {r["wid"]: r["n"] for r in outcome.results.to_pylist()} == {0: 3, 1: 2, 6: 1}
    assert outcome.status["in"] == 6
    started = counting.start(sink=lw.to_memory(), checkpoint=str(tmp_path / "c"))
    assert started.wait(60), "a recording ends by itself"
    assert started.status().counts == outcome.status.counts


def test_a_failing_sink_ends_the_query_with_an_error(spark, tmp_path, pieces):
    feed = lw.feed("ts timestamp, key bigint")
    query = lw.stream(feed, time="ts", watermark=lw.ordered()).window(range="1 second")

    def fail(epoch, table):
        raise RuntimeError("disk full")

    with pytest.raises(lw.HostError, match="disk full"):
        query.agg(n=lw.count()).run(
            epochs={feed: pieces[:2]}, host="spark", sink=lw.to_callback(fail)
        )


def test_an_exact_sum_that_overflows_is_null_or_ends_the_query(spark):
    feed = lw.feed("ts timestamp, x bigint")
    query = lw.stream(feed, time="ts", watermark=lw.ordered()).window(range="1 second")
    table = pa.table({"ts": pa.array([0, 1], pa.timestamp("us", "UTC")), "x": [2**62, 2**62]})
    outcome = query.agg(s=lw.sum("x")).run(epochs={feed: [table]}, host="spark")
    assert outcome.results["s"].to_pylist() == [None]
    assert outcome.status.overflows == 1
    with pytest.raises(ResultOverflowError, match=r"epoch \d failed in operator .* does not fit"):
        query.agg(s=lw.sum("x", overflow="fail")).run(epochs={feed: [table]}, host="spark")


def test_errors_of_spark_are_told_in_one_line(spark, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.parquet").write_bytes(b"junk")
    frame = spark.readStream.schema("t bigint").parquet(str(tmp_path / "in"))
    (tmp_path / "good").mkdir()
    pq.write_table(pa.table({"t": [1, 2]}), tmp_path / "good" / "0.parquet")
    good = spark.readStream.schema("t bigint").parquet(str(tmp_path / "good"))
    started = {
        "FAILED_READ_FILE.*0.parquet": frame,
        "Sorting": good.orderBy("t"),
        "CAST_INVALID_INPUT.*try_cast": good.selectExpr("cast(concat('x', t) as bigint) t"),
    }
    for number, (text, source) in enumerate(started.items()):
        stream = lw.stream(source, time="t", watermark=lw.ordered()).window(range=5)
        runs = []
        with pytest.raises(lw.HostError, match=text) as failed:
            wait_for_end(stream.agg(n=lw.count()), str(tmp_path / f"c{number}"), runs)
        assert all(run.status().failed for run in runs)
        line = str(failed.value)
        assert "\n" not in line
        for word in ("Py4J", "FOREACH_BATCH", "SQLSTATE", "--set-aside", "An error occurred"):
            assert word not in line


def wait_for_end(query, checkpoint, runs):
    runs.append(query.start(sink=lw.to_memory(), checkpoint=checkpoint))
    runs[0].wait(60)


def test_a_sink_may_stop_its_own_query(spark, tmp_path, pieces):
    folder = tmp_path / "stream"
    folder.mkdir()
    for i, piece in enumerate(pieces):
        pq.write_table(piece, folder / f"{i}.parquet")
    stream = lw.stream(
        lw.files(folder, files_per_epoch=1), time="ts", watermark=lw.slack("2 seconds")
    )
    running = []

    def stop_at_the_first_result(epoch, table):
        wait_until(lambda: running)
        running[0].stop()

    query = stream.window(range="2 seconds").agg(n=lw.count())
    running.append(
        query.start(sink=lw.to_callback(stop_at_the_first_result), checkpoint=str(tmp_path / "c"))
    )
    assert running[0].wait(60)
    assert 0 < running[0].status()["in"] < 1_200


def test_an_epoch_without_rows_that_had_begun_is_repeated_without_rows(spark, tmp_path, pieces):
    # The epoch after the last file had begun, for the lull, when the process died; then more
    # files came, and the lull is no longer asked for.
    folder = tmp_path / "stream"
    folder.mkdir()
    pq.write_table(pieces[0], folder / "0.parquet")

    def start():
        stream = lw.stream(lw.files(folder), time="ts", watermark=lw.slack("3 seconds"))
        query = stream.window(range="5 seconds").agg(n=lw.count())
        return query.start(sink=lw.to_parquet(tmp_path / "out"), checkpoint=str(tmp_path / "c"))

    run = start()
    wait_until(lambda: run.status().counts.get("in") == 200)
    wait_until(lambda: run.epochs.newest.quiet)
    run.stop()
    newest = run.epochs.newest
    run.epochs.log.open(Opening(newest.epoch + 1, newest.positions))
    pq.write_table(pieces[1], folder / "1.parquet")
    run = start()
    wait_until(lambda: run.status().counts.get("in") == 400)
    run.stop()
    log = run.epochs.log
    assert log.read(newest.epoch + 1).accounts.inputs == (200,)
    assert log.read(newest.epoch + 2).accounts.inputs == (400,)


def test_a_retuned_query_goes_on_with_what_was_decided_also_after_a_crash(spark, tmp_path, pieces):
    folder, control = tmp_path / "stream", tmp_path / "c" / "control"
    folder.mkdir()
    pq.write_table(pieces[0], folder / "0.parquet")

    def log():
        folder = Checkpoint.at(str(tmp_path / "c"))
        return folder.log(folder.stored().id)

    def start(quality=0.9):
        progress = lw.quality(quality)
        stream = lw.stream(lw.files(folder), time="ts", watermark=progress)
        query = stream.window(range="1 second").agg(n=lw.count())
        return query.start(
            sink=lw.to_memory(),
            checkpoint=str(tmp_path / "c"),
            early=lw.early_before(0.25),
            shed=lw.shed(share=0.2, max_gap=5),
        )

    run = start()
    wait_until(lambda: run.status().counts.get("in") == 200)
    run.retune(quality=0.99, aggressiveness=0.5, max_gap="3 seconds")
    retuned = {"quality": 0.99, "aggressiveness": 0.5, "max_gap": "3 seconds", "share": 0.2}
    wait_until(lambda: run.settings == retuned)
    decided_at = log().newest().overrides["quality"].epoch
    pq.write_table(pieces[1], folder / "1.parquet")
    wait_until(lambda: run.status().counts.get("in") == 400)
    run.stop()
    newest = log().newest()
    assert {t.epoch for t in newest.overrides.values()} == {decided_at}

    # The last epoch had not ended when the machine went down: it is decided as it was.
    before = log().newest()
    while log().newest() == before:
        max(control.glob("*.record")).unlink()
    run = start()
    wait_until(lambda: run.status().epoch >= before.epoch)
    assert run.settings == retuned
    run.stop()
    again = log().read(before.epoch)
    # Only what depends on the wall clock, when early results come, may differ.
    assert (again.overrides, again.adapting) == (before.overrides, before.adapting)
    assert again.standing.inputs == before.standing.inputs
    assert again.standing.dropped == before.standing.dropped

    # Who writes another target means it.
    run = start(quality=0.95)
    assert run.settings == {**retuned, "quality": 0.95}
    run.stop()


def test_listeners_of_the_session_hear_of_every_epoch(spark, tmp_path, pieces):
    folder = tmp_path / "stream"
    folder.mkdir()
    for i, piece in enumerate(pieces[:3]):
        pq.write_table(piece, folder / f"{i}.parquet")
    heard = []

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event):  # noqa: N802
            pass

        def onQueryProgress(self, event):  # noqa: N802
            heard.append(event.progress)

        def onQueryIdle(self, event):  # noqa: N802
            pass

        def onQueryTerminated(self, event):  # noqa: N802
            pass

    listener = Listener()
    spark.streams.addListener(listener)
    try:
        source = lw.files(folder, files_per_epoch=1)
        stream = lw.stream(source, time="ts", watermark=lw.slack("1 second"))
        query = stream.window(range="5 seconds").group_by("key").agg(n=lw.count())
        run = query.start(sink=lw.to_memory(), checkpoint=str(tmp_path / "c"))
        wait_until(lambda: run.status().counts.get("in") == 600 and run.epochs.newest.quiet)
        status = run.status()
        wait_until(lambda: any(p.batchId == status.epoch and p.observedMetrics for p in heard))
        run.stop()
    finally:
        spark.streams.removeListener(listener)
    told = [p for p in heard if "lowwater" in p.observedMetrics]
    rows = [p.observedMetrics["lowwater"] for p in told]
    assert [row["epoch"] for row in rows] == list(range(status.epoch + 1))
    for name in ("in", "admitted", "late", "results"):
        assert sum(row[name] for row in rows) == status[name]
    assert [p.numInputRows for p in told] == [row["in"] for row in rows]
    assert {str(p.runId) for p in told} == {run.query.runId}
    assert told[-1].stateOperators[0].numRowsTotal == status.cells
    assert told[-1].eventTime["watermark"] == f"{status.watermark:%Y-%m-%dT%H:%M:%S.000Z}"


def test_an_error_on_spark_names_operator_or_sink_and_epoch(spark):
    feed = lw.feed("t bigint, x int")

    def query(lift):
        own = lw.aggregate("x", lift=lift, combine=max, lower=int, returns="int")
        return lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10).agg(best=own)

    def fail(epoch, table):
        raise OSError("disk full")

    epochs = {feed: [[(1, 1)], [(12, 0)], [(25, 1)]]}
    with pytest.raises(lw.HostError, match="ZeroDivisionError") as caught:
        query(lambda v: 1 // v).run(epochs=epochs, host="spark")
    assert places(caught.value)[-1] == "epoch 1"
    with pytest.raises(lw.HostError, match="disk full") as caught:
        query(int).run(epochs=epochs, host="spark", sink=lw.to_callback(fail))
    assert places(caught.value)[0] == "the sink of results"
    assert places(caught.value)[-1].startswith("epoch ")


def test_state_may_contain_a_class_that_executors_cannot_import(spark):
    class Values:
        def __init__(self):
            self.values = []

        def add(self, value):
            self.values.append(value)
            return self

    feed = lw.feed("t bigint, x int")
    make, add = Values, (lambda s, v: s.add(v))

    def results(host, **options):
        total = lw.aggregate("x", incr=add, final=lambda s: sum(s.values), returns="int", **options)
        stream = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10)
        epochs = {feed: [[(1, 1)], [(2, 5)], [(12, 7)]]}
        return stream.agg(total=total).run(epochs=epochs, host=host).results["total"].to_pylist()

    assert results("spark", init=make) == results("local", init=make) == [6, 7]
    with pytest.raises(lw.SpecError, match="state=Values"):
        results("spark", init=lambda: make())  # noqa: PLW0108
