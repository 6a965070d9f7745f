"""Spark's part of a checkpoint: each run has its own, made of what the last epoch was read by."""

from __future__ import annotations

import json
import os
import shutil

import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.rewind import rewind
from lowwater.engine.savepoint import read_savepoint, write_savepoint
from lowwater.engine.verify import verify
from tests.spark.streams import cut, disordered
from tests.wait import wait_until

FILES, ROWS = 16, 50
"""Spark compacts the log of a file source at its tenth file."""


class Stream:
    """A query over a DataFrame of files that arrive one after the other."""

    def __init__(self, spark, at):
        rows = disordered(FILES * ROWS, seconds=100, late_by=3).select(["ts", "value"])
        self.pieces, self.at, self.spark, self.written = cut(rows, FILES), at, spark, 0
        (at / "in").mkdir()

    def query(self):
        reader = self.spark.readStream.schema("ts timestamp, value double")
        frame = reader.option("maxFilesPerTrigger", 1).parquet(str(self.at / "in"))
        stream = lw.stream(frame, time="ts", watermark=lw.slack("4 seconds"))
        return stream.window(range="5 seconds").agg(n=lw.count(), total=lw.sum("value"))

    def run(self, files, name="c", **options):
        """Let more files arrive, and run the query until it has read them."""
        for n in range(self.written, files):
            path = self.at / "in" / f"{n:02d}.parquet"
            pq.write_table(self.pieces[n], path)
            os.utime(path, (1_700_000_000 + n,) * 2)
        self.written = max(files, self.written)
        sink = lw.to_parquet(self.at / f"{name}-out")
        run = self.query().start(host="spark", sink=sink, checkpoint=str(self.at / name), **options)
        rows = self.written * ROWS
        wait_until(
            lambda: run.wait(0.05) or (run.status()["in"] == rows and run.epochs.newest.quiet)
        )
        run.stop()
        return run

    def found(self, name="c"):
        """Return {window: (n, total)} of all results, each of which must come once."""
        rows = [
            row
            for path in (self.at / f"{name}-out").glob("*.parquet")
            for row in pq.read_table(path).to_pylist()
        ]
        windows = {row["wid"]: (row["n"], row["total"]) for row in rows}
        assert len(windows) == len(rows)
        return windows

    def folders(self, name="c"):
        return sorted((self.at / name / "spark").iterdir())


@pytest.fixture
def stream(spark, tmp_path):
    return Stream(spark, tmp_path)


@pytest.fixture(scope="module")
def expected(spark, tmp_path_factory):
    calm = Stream(spark, tmp_path_factory.mktemp("calm"))
    calm.run(FILES)
    return calm.found()


def test_a_run_continues_in_a_folder_of_its_own_and_deletes_the_older_ones(stream, expected):
    first = stream.run(7)
    (theirs,) = stream.folders()
    second = stream.run(7)
    (own,) = set(stream.folders()) - {theirs}
    assert {p.name for p in (own / "offsets").glob("[0-9]*")} == {str(n) for n in range(7)}
    assert theirs in stream.folders(), "no epoch of the second run has ended"
    third = stream.run(FILES)
    (last,) = stream.folders()
    assert last not in {theirs, own}
    assert first.query.id == second.query.id == third.query.id
    assert stream.found() == expected
    assert list(verify(str(stream.at / "c"))) == []


def test_what_the_spark_of_a_sleeper_plans_and_deletes_does_not_matter(stream, expected):
    stream.run(5)
    (theirs,) = stream.folders()
    stream.run(9)
    (own,) = stream.folders()
    shutil.copytree(own, theirs)
    (theirs / "offsets" / "9").write_bytes((theirs / "offsets" / "8").read_bytes())
    (theirs / "offsets" / "6").unlink()
    (theirs / "sources" / "0" / "9").write_bytes(b"v1\n")
    stream.run(FILES)
    assert stream.found() == expected


def test_a_savepoint_from_before_sparks_commit_is_continued(stream, tmp_path, expected):
    stream.run(8)
    (own,) = stream.folders()
    (own / "commits" / "7").unlink()
    write_savepoint(str(tmp_path / "c"), tmp_path / "s.zip")
    read_savepoint(tmp_path / "s.zip", str(tmp_path / "d"))
    stream.run(FILES, "d")
    assert stream.found().keys().isdisjoint(stream.found("d"))
    assert stream.found() | stream.found("d") == expected


def test_a_query_is_rewound_past_a_compact_log(stream, tmp_path, expected):
    stream.run(14)
    stream.run(14)
    rewind(str(tmp_path / "c"), 6)
    stream.run(FILES, outputs="truncate")
    assert stream.found() == expected


@pytest.mark.parametrize("log", ["9.compact", "11"])
def test_an_older_log_of_a_file_source_must_be_as_it_was(stream, tmp_path, log):
    stream.run(14)
    (own,) = stream.folders()
    path = own / "sources" / "0" / log
    content = path.read_bytes()
    path.write_bytes(content.replace(b"/03.parquet", b"/93.parquet").replace(b"/11.", b"/91."))
    (path.parent / f".{log}.crc").unlink(missing_ok=True)
    assert path.read_bytes() != content
    assert "a log of a file source" in "".join(verify(str(tmp_path / "c")))
    with pytest.raises(lw.StateError, match="so Spark would read other rows"):
        stream.run(14)


def test_the_id_of_spark_follows_from_the_id_of_the_query(stream, tmp_path):
    run = stream.run(2)
    (own,) = stream.folders()
    assert json.loads((own / "metadata").read_text()) == {"id": run.query.id}
    assert Checkpoint.at(str(tmp_path / "c")).spark_of(own.name) == str(own)


def test_steps_with_state_in_spark_are_refused(spark):
    rate = spark.readStream.format("rate").load()
    timed = rate.withWatermark("timestamp", "1 second")
    other = spark.range(5).withColumnRenamed("id", "value")
    for frame, step in (
        (timed.dropDuplicates(["value", "timestamp"]), "Deduplicate"),
        (timed.dropDuplicatesWithinWatermark(["value"]), "DeduplicateWithinWatermark"),
        (timed.groupBy("timestamp").count(), "Aggregate"),
        (rate.alias("a").join(rate.select("value"), "value"), "Join"),
        (rate.limit(5), "GlobalLimit"),
    ):
        with pytest.raises(lw.SpecError, match=f"state in Spark, {step}, .*distinct, window"):
            lw.stream(frame, time="timestamp", watermark=lw.ordered())
    for frame in (timed, rate.join(other.groupBy("value").count(), "value"), rate.union(rate)):
        lw.stream(frame, time="timestamp", watermark=lw.ordered())
