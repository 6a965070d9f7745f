"""The rows of an epoch that stops a query on Spark are set aside, whoever reads the rows."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sql

import lowwater as lw
from lowwater.engine.set_aside import set_aside
from tests.wait import wait_until

FILES, ROWS, BAD = 4, 10, 1


def picky(x):
    if x == 13:
        raise ArithmeticError("thirteen")
    return x


@pytest.fixture
def folder(tmp_path):
    target = tmp_path / "in"
    target.mkdir()
    for file in range(FILES):
        t = range(ROWS * file, ROWS * (file + 1))
        pq.write_table(pa.table({"t": list(t), "x": list(t)}), target / f"{file}.parquet")
        os.utime(target / f"{file}.parquet", (file, file))  # Spark reads them in this order
    return target


def source(spark, folder, kind):
    if kind == "files":
        return lw.files(folder, files_per_epoch=1)
    reader = spark.readStream.schema("t bigint, x bigint").option("maxFilesPerTrigger", 1)
    frame = reader.parquet(str(folder))
    # A column without NULLs, and a step that Spark computes.
    return frame if kind == "scan" else frame.select(sql.coalesce("t", sql.lit(0)).alias("t"), "x")


@pytest.mark.parametrize("kind", ["files", "scan", "rows"])
def test_rows_of_an_interrupted_epoch_are_set_aside(spark, tmp_path, folder, kind):
    adder = lw.aggregate("x", lift=picky, combine=max, lower=int, returns="bigint")
    stream = lw.stream(source(spark, folder, kind), time="t", watermark=lw.ordered())
    if kind != "scan":  # with a filter, Spark reads the rows
        stream = stream.where("x < 1000")
    query = stream.window(range=10).agg(n=lw.count(), s=adder)
    checkpoint = str(tmp_path / "c")
    rule = lw.restart(times=50, pause="1 millisecond")
    failing = query.start(sink=lw.to_memory(), checkpoint=checkpoint, restart=rule)
    with pytest.raises(lw.HostError) as failed:
        failing.wait(120)
    text = str(failed.value)
    assert f"epoch {BAD} failed in a row with x = 13" in text
    assert "ArithmeticError: thirteen" in text
    assert "--set-aside 1" in text
    assert "epoch 1 failed 3 times for the same reason" in text
    assert (f"{BAD}.parquet" in text) == (kind != "rows")
    assert "Py4J" not in text
    assert "FOREACH_BATCH" not in text
    set_aside(checkpoint, BAD)
    results, malformed = lw.to_memory(), lw.to_parquet(tmp_path / "malformed")
    run = query.start(sink=results, malformed=malformed, checkpoint=checkpoint)
    wait_until(lambda: run.wait(0) or (run.status()["in"] == FILES * ROWS and run.newest.quiet))
    status = run.status()
    run.stop()
    assert status.balanced
    assert (status["malformed"], status["admitted"]) == (ROWS, (FILES - 1) * ROWS)
    rows = pq.read_table(tmp_path / "malformed").to_pylist()
    assert [json.loads(row["text"])["x"] for row in rows] == list(range(10, 20))
    assert {row["reason"] for row in rows} == {"set aside on purpose"}
    windows = [r["wid"] for table in results.epochs.values() for r in table.to_pylist()]
    assert windows == [0, 2]
