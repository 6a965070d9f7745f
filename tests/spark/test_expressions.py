"""Expressions before the window: evaluated by Spark over a DataFrame, by DuckDB over files."""

from __future__ import annotations

import os

import pyarrow.parquet as pq
import pytest

import lowwater as lw
from tests.spark.streams import cut, disordered, ordered_rows


@pytest.fixture
def folder(tmp_path):
    target = tmp_path / "stream"
    target.mkdir()
    for i, piece in enumerate(cut(disordered(2_000, seconds=60, late_by=3), 4)):
        path = target / f"{i:04d}.parquet"
        pq.write_table(piece, path)
        os.utime(path, (i, i))  # Spark reads files in the order of their times
    return target


def query(source):
    return (
        lw.stream(source, time="ts", progress=lw.slack("4 seconds"))
        .where("value > -1.5 AND name RLIKE 'n[1-9]'")
        .with_columns(
            third="cast(amount AS int) % 3",
            kind="if(flag, upper(name), concat('k', cast(key AS string)))",
            later="ts + INTERVAL 500 MILLISECONDS",
            half="key / 2",
        )
        .select("later", "ts", "kind", "half", "third", tens="floor(value * 10)")
        .window(range="10 seconds", slide="5 seconds", on="later")
        .group_by("third", "kind")
        .agg(n=lw.count(), halves=lw.sum("half"), least=lw.min("tens"), last=lw.max("ts"))
    )


def streaming(spark, folder):
    schema = spark.read.parquet(str(folder)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 2)
    return reader.parquet(str(folder))


def test_a_dataframe_and_files_give_the_same_rows(spark, folder):
    by_frame = query(streaming(spark, folder)).run()
    by_files = query(lw.files(folder, files_per_epoch=2)).run()
    local = query(lw.files(folder, files_per_epoch=2)).run(host="local")
    assert ordered_rows(by_files.results) == ordered_rows(by_frame.results)
    assert ordered_rows(local.results) == ordered_rows(by_frame.results)
    assert by_files.results.schema == by_frame.results.schema
    assert 0 < by_files.status["in"] == by_frame.status["in"] < 2_000
    assert by_files.status.balanced


def test_what_spark_does_not_know_is_refused_when_the_query_is_built(spark, folder):
    stream = lw.stream(streaming(spark, folder), time="ts", progress=lw.ordered())
    with pytest.raises(lw.SpecError, match="frobnicate"):
        stream.where("frobnicate(value) > 0")
    with pytest.raises(lw.SpecError, match="many rows"):
        stream.with_columns(top="max(value)")
