"""Any streaming DataFrame: the same windows and results as Spark's own `window()`."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

import lowwater as lw
from tests.spark.streams import cut, disordered


@pytest.fixture
def folder(tmp_path):
    target = tmp_path / "stream"
    target.mkdir()
    for i, piece in enumerate(cut(disordered(3_000, seconds=60, late_by=3), 6)):
        path = target / f"{i:04d}.parquet"
        pq.write_table(piece, path)
        os.utime(path, (i, i))  # Spark reads files in the order of their times
    return target


def streaming(spark, folder):
    schema = spark.read.parquet(str(folder)).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 2)
    return reader.parquet(str(folder))


def windowed(source, size, slide):
    stream = lw.stream(source, time="ts", watermark=lw.slack("4 seconds"))
    return stream.window(range=size, slide=slide).group_by("key").agg(
        n=lw.count(), total=lw.sum("value"), top=lw.max("amount"), low=lw.min("name"),
        mean=lw.avg("amount"), spread=lw.variance("value"),
    )  # fmt: skip


def rows_of(table):
    return {
        (r["window"]["start"].timestamp(), r["window"]["end"].timestamp(), r["key"]): r
        for r in table.to_pylist()
    }


@pytest.mark.parametrize(
    ("size", "slide"), [("10 seconds", "10 seconds"), ("10 seconds", "3 seconds")]
)
@pytest.mark.parametrize("plain", [True, False], ids=["files read by ingest", "rows from Spark"])
def test_finals_equal_sparks_own_window_aggregation(spark, folder, size, slide, plain):
    frame = streaming(spark, folder)
    outcome = windowed(frame if plain else frame.where("true"), size, slide).run()
    batch = spark.read.parquet(str(folder))
    expected = rows_of(
        batch.groupBy(F.window("ts", size, slide), "key")
        .agg(
            F.count("*").alias("n"),
            F.sum("value").alias("total"),
            F.max("amount").alias("top"),
            F.min("name").alias("low"),
            F.avg("amount").alias("mean"),
            F.variance("value").alias("spread"),
        )
        .toArrow()
    )
    found = rows_of(outcome.results)
    assert found.keys() == expected.keys()
    for at, row in expected.items():
        for name in ("n", "top", "low", "mean"):
            assert found[at][name] == row[name], (at, name)
        for name in ("total", "spread"):
            if row[name] is None:
                assert found[at][name] is None
            else:
                assert found[at][name] == pytest.approx(row[name], rel=1e-9, abs=1e-12)
    assert outcome.status["in"] == 3_000
    assert outcome.status["late"] == 0


def test_files_give_the_same_rows_as_the_dataframe(spark, folder):
    by_frame = windowed(streaming(spark, folder), "10 seconds", "3 seconds").run()
    files = lw.files(folder, files_per_epoch=2)
    by_files = windowed(files, "10 seconds", "3 seconds").run()
    ours, theirs = rows_of(by_files.results), rows_of(by_frame.results)
    assert ours.keys() == theirs.keys()
    assert all(ours[k]["n"] == theirs[k]["n"] for k in ours)
    assert all(ours[k]["top"] == theirs[k]["top"] for k in ours)
    assert by_files.status["in"] == by_frame.status["in"] == 3_000


def test_consistent_slack_over_files_does_not_depend_on_how_epochs_are_cut(spark, folder):
    def late(files_per_epoch):
        stream = lw.stream(
            lw.files(folder, files_per_epoch=files_per_epoch),
            time="ts",
            watermark=lw.slack("1 second", mode="consistent"),
        )
        outcome = stream.window(range="9 seconds", slide="3 seconds").agg(n=lw.count()).run()
        counts = {r["wid"]: r["n"] for r in outcome.results.to_pylist()}
        return counts, outcome.status["late"]

    one, three = late(1), late(3)
    assert one == three
    assert one[1] > 0


def test_bad_times_are_counted_and_shown(spark, tmp_path):
    target = tmp_path / "json"
    target.mkdir()
    (target / "a.json").write_text(
        '{"ts": "2024-01-01T00:00:01Z", "x": 1}\n{"ts": "yesterday", "x": 2}\n'
        '{"x": 3}\nnot json\n{"ts": "2024-01-01T00:00:09Z", "x": 4}\n'
    )
    frame = spark.readStream.schema("ts timestamp, x int").json(str(target))
    stream = lw.stream(frame, time="ts", watermark=lw.ordered())
    outcome = stream.window(range="5 seconds").agg(n=lw.count()).run()
    assert outcome.results.column("n").to_pylist() == [1, 1]
    assert outcome.status["malformed"] == 3
    assert len(outcome.malformed) == 3
    assert outcome.status.balanced


def test_a_batch_dataframe_is_refused_with_a_hint(spark):
    with pytest.raises(lw.SpecError, match="readStream"):
        lw.stream(spark.range(3), time="id", watermark=lw.ordered())


def test_many_groups_are_spread_over_all_shards(spark, tmp_path):
    target = tmp_path / "many"
    target.mkdir()
    spark.range(20_000).selectExpr(
        "id", "concat('g', id) AS g", "timestamp_micros(id * 1000) AS ts"
    ).coalesce(1).write.parquet(str(target), mode="overwrite")
    frame = spark.readStream.schema("id bigint, g string, ts timestamp").parquet(str(target))
    query = lw.stream(frame, time="ts", watermark=lw.ordered()).window(range="1 hour")
    outcome = query.group_by("g").agg(n=lw.count()).run()
    assert len(outcome.results) == 20_000
    assert 1.0 <= outcome.status.skew < 1.2


def test_a_filter_over_a_dataframe_does_not_hide_progress(spark, tmp_path):
    # Only the first row passes; the rows after it show that its window is complete.
    for n, (second, value) in enumerate([(1, 5), (40, 0), (41, 0)]):
        at = pa.array([second * 1_000_000], pa.timestamp("us", "UTC"))
        table = pa.table({"ts": at, "value": pa.array([value], pa.int64())})
        pq.write_table(table, tmp_path / f"{n}.parquet")
        os.utime(tmp_path / f"{n}.parquet", (n, n))
    reader = spark.readStream.schema("ts timestamp, value bigint")
    frame = reader.option("maxFilesPerTrigger", 1).parquet(str(tmp_path))
    seen = []
    query = (
        lw.stream(frame, time="ts", watermark=lw.ordered())
        .where("value > 0")
        .with_columns(share="10 / value")
        .window(range="10 seconds")
        .agg(n=lw.count(), share=lw.sum("share"))
    )
    outcome = query.run(sink=lw.to_callback(lambda epoch, table: seen.append((epoch, len(table)))))
    assert seen == [(2, 1)]
    assert (outcome.status["in"], outcome.status["admitted"]) == (1, 1)


def test_explain_says_what_spark_computes_before_rows_are_dropped_by_class(spark, folder):
    stream = lw.stream(streaming(spark, folder), time="ts", watermark=lw.slack("4 seconds"))
    windows = stream.where("value > 0").window(range="2 seconds").group_by("key")
    query = windows.agg(n=lw.count("value"))
    by_class = query.explain(shed=lw.shed(share=0.5, fair_by="key"))
    sampled = query.explain(shed=lw.shed(share=0.5, kind="sampled"))
    plain = query.explain(shed=lw.shed(share=0.5))
    assert "Spark computes where value > 0 for all of them before" in by_class
    assert "Spark computes where value > 0 for all of them before" in sampled
    assert "Spark computes" not in plain


def test_nothing_is_computed_for_rows_that_are_shed(spark, folder):
    """A column that fails where it is computed for a window that was left out."""

    def query(source, value):
        stream = lw.stream(source, time="ts", watermark=lw.slack("4 seconds"))
        stream = stream.where("key IS NOT NULL").with_columns(value=value)
        windows = stream.window(range="2 seconds").group_by("key")
        return windows.agg(n=lw.count("value"), top=lw.max("value"))

    how = lw.shed(share=0.5, max_gap=3)
    here = lw.files(folder, files_per_epoch=2)
    expected = query(here, "value").run(host="local", shed=how)
    ids = ", ".join(map(str, sorted(set(expected.dropped["wid"].to_pylist()))))
    computed = f"if(unix_seconds(ts) div 2 IN ({ids}), raise_error('computed'), value)"
    found = query(streaming(spark, folder), computed).run(shed=how)
    assert rows_of(found.results) == rows_of(expected.results)
    assert found.dropped.to_pylist() == expected.dropped.to_pylist()
    assert found.status.counts == expected.status.counts
    assert found.status["shed"] > 300


def test_rows_of_several_dataframes_are_spared_each_by_its_own_steps(spark, folder):
    def query(left, right):
        a, b = (
            lw.stream(source, time="ts", watermark=lw.slack("4 seconds")).with_columns(v=text)
            for source, text in ((left, "value + 1"), (right, "value * 2"))
        )
        pairs = a.where("v > 0").join(b, on="key", band=("-100 ms", "100 ms"))
        return pairs.window(range="5 seconds").agg(n=lw.count(), top=lw.max("v_other"))

    how = lw.shed(share=0.5, max_gap=3)
    here = [lw.files(folder, files_per_epoch=2) for _ in range(2)]
    expected = query(*here).run(host="local", shed=how)
    found = query(*(streaming(spark, folder) for _ in range(2))).run(shed=how)
    assert found.results.to_pylist() == expected.results.to_pylist()
    assert found.status.counts == expected.status.counts
    assert found.status["shed"] > 300
