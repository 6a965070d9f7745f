"""Streams that are nothing but Parquet files are read by ingest, and only those."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.spark.parquet_scan import ParquetScan

SCHEMA = "ts timestamp, key bigint, value double"


def table(start, rows=20, key=None):
    ticks = [(start + i) * 1_000_000 for i in range(rows)]
    return pa.table(
        {
            "ts": pa.array(ticks, pa.timestamp("us", "UTC")),
            "key": pa.array([i % 3 for i in range(rows)], key or pa.int64()),
            "value": pa.array([float(i) for i in range(rows)]),
        }
    )


def stream(spark, folder, schema=SCHEMA):
    return spark.readStream.schema(schema).parquet(str(folder))


def total(frame):
    query = lw.stream(frame, time="ts", watermark=lw.slack("1 minute")).window(range="10 seconds")
    outcome = query.agg(n=lw.count(), keys=lw.count("key"), value=lw.sum("value")).run()
    assert outcome.status.balanced
    columns = ("n", "keys", "value")
    return outcome.status["in"], tuple(sum(outcome.results[c].to_pylist()) for c in columns)


def is_plain(frame):
    return ParquetScan.of(frame, pa.schema([])) is not None


def test_only_a_bare_parquet_stream_is_plain(spark, tmp_path):
    pq.write_table(table(0), tmp_path / "a.parquet")
    bare = stream(spark, tmp_path)
    assert is_plain(bare)
    assert is_plain(
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path))
    )
    assert not is_plain(bare.where("value > 3"))
    assert not is_plain(bare.select("ts", "value"))
    assert not is_plain(bare.union(bare))
    assert not is_plain(spark.readStream.schema(SCHEMA).json(str(tmp_path)))
    assert not is_plain(spark.readStream.format("rate").load())
    merged = spark.readStream.schema(SCHEMA).option("mergeSchema", "true")
    assert not is_plain(merged.parquet(str(tmp_path)))


def test_folders_that_are_columns_are_left_to_spark(spark, tmp_path, ways):
    for key in (1, 2):
        folder = tmp_path / f"key={key}"
        folder.mkdir()
        pq.write_table(table(0).drop_columns(["key"]), folder / "a.parquet")
    assert total(stream(spark, tmp_path)) == (40, (40, 40, 380.0))
    assert ways == ["rows"]


def test_both_ways_give_the_same(spark, tmp_path, ways):
    for i in range(3):
        pq.write_table(table(20 * i), tmp_path / f"{i} of 3.parquet", row_group_size=7)
    frame = stream(spark, tmp_path)
    assert total(frame) == total(frame.where("true")) == (60, (60, 60, 570.0))
    assert ways == ["blocks", "rows"]


@pytest.mark.parametrize(
    ("odd", "counted"),
    [
        (table(20).drop_columns(["key"]), 20),
        (table(20, key=pa.int32()), 40),
        (table(20).rename_columns(["ts", "KEY", "value"]), 40),
    ],
    ids=["a column is missing", "another type", "another case"],
)
def test_files_that_spark_reads_in_its_own_way_are_left_to_it(spark, tmp_path, ways, odd, counted):
    pq.write_table(table(0), tmp_path / "a.parquet")
    pq.write_table(odd, tmp_path / "b.parquet")
    assert total(stream(spark, tmp_path)) == (40, (40, counted, 380.0))
    assert ways == ["rows"]


def test_dates_in_the_old_calendar_are_left_to_spark(spark, tmp_path, ways):
    spark.conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    try:
        old = dt.datetime(1500, 1, 1, tzinfo=dt.UTC)
        frame = spark.createDataFrame([(old, 1, 1.0)], SCHEMA).coalesce(1)
        frame.write.parquet(str(tmp_path / "old"))
    finally:
        spark.conf.unset("spark.sql.parquet.datetimeRebaseModeInWrite")
    frame = stream(spark, tmp_path / "old")
    query = lw.stream(frame, time="ts", watermark=lw.ordered()).window(range="1 day")
    (row,) = query.agg(first=lw.min("ts")).run().results.to_pylist()
    assert row["first"] == old
    assert ways == ["rows"]
