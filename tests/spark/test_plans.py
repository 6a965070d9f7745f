"""Plans over several streaming DataFrames and folders: the same rows as over feeds."""

from __future__ import annotations

import os

import pyarrow.parquet as pq
import pytest

import lowwater as lw
from tests.spark.streams import cut, disordered, ordered_rows

COLUMNS = ["ts", "key", "name", "value"]
SLACK = lw.slack("4 seconds")  # covers the disorder: how rows are cut into epochs does not matter


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two folders of Parquet files, and the rows in them."""
    made = []
    for seed, pieces in ((1, 4), (2, 3)):
        folder = tmp_path_factory.mktemp(f"stream{seed}")
        rows = disordered(500, seconds=25, late_by=3, seed=seed).select(COLUMNS)
        for i, piece in enumerate(cut(rows, pieces)):
            path = folder / f"{i:04d}.parquet"
            pq.write_table(piece, path)
            os.utime(path, (i, i))  # Spark reads files in the order of their times
        made.append((folder, rows))
    return made


def frame_of(spark, folder):
    schema = spark.read.parquet(str(folder)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 2)
    return reader.parquet(str(folder))


SOURCES = {
    "two plain DataFrames": lambda spark, a, b: (frame_of(spark, a), frame_of(spark, b)),
    "DataFrames after a filter": lambda spark, a, b: (
        frame_of(spark, a).where("value IS NOT NULL OR true"),
        frame_of(spark, b),
    ),
    "files and a plain DataFrame": lambda spark, a, b: (
        lw.files(a, files_per_epoch=1),
        frame_of(spark, b),
    ),
    "files and a DataFrame after a filter": lambda spark, a, b: (
        lw.files(a, files_per_epoch=2),
        frame_of(spark, b).where("true OR value > 0"),
    ),
}
WAYS = ["blocks", "rows", "blocks", "rows"]


def queries(a, b):
    left, right = (lw.stream(s, time="ts", watermark=SLACK) for s in (a, b))
    joined = left.join(right, on=["key", "name"], band=("-1 second", "2 seconds"), how="full")
    united = left.union(right)
    counts = {"n": lw.count(), "low": lw.min("name")}
    return {
        "pairs": joined.window(range="5 seconds").group_by("key").agg(**counts),
        "rows": united.window(range="5 seconds", slide="2 seconds").group_by("key").agg(**counts),
        "once": united.distinct("name", "ts").where("value > 0"),
    }


@pytest.mark.parametrize(("sources", "way"), list(zip(SOURCES, WAYS, strict=True)), ids=SOURCES)
def test_streams_of_all_kinds_combine_as_feeds_do(spark, folders, ways, sources, way):
    (a, left), (b, right) = folders
    found = lw.together(**queries(*SOURCES[sources](spark, a, b))).run()
    feeds = [lw.feed(t.schema) for t in (left, right)]
    epochs = {feeds[0]: cut(left, 3), feeds[1]: cut(right, 2)}
    expected = lw.together(**queries(*feeds)).run(epochs=epochs)
    for name, outcome in expected.items():
        assert len(outcome.results) > 10
        assert ordered_rows(found[name].results) == ordered_rows(outcome.results)
        assert len(found[name].late) == len(outcome.late) == 0
        assert found[name].status["in"] == outcome.status["in"]
    assert set(ways) == {way}
