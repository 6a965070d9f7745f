"""The Spark sides: `window()` in append mode, and the chained plan of an expert.

Append mode gives a window when the watermark has passed its end, and the stream
ends without a last watermark, so the windows that are open then never appear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (the name that Spark's own guides use)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from bench.cases import Case

SCHEMA = "ts timestamp, key bigint, value double"


def arrivals(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the stream, one file per epoch in the order of arrival."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(spark: SparkSession, case: Case, folder: Path, out: Path, checkpoint: Path) -> None:
    """Run the query of `case` over all files in `folder`."""
    (
        _results(spark, case, folder)
        .writeStream.format("parquet")
        .outputMode("append")
        .option("path", str(out))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def _results(spark: SparkSession, case: Case, folder: Path) -> DataFrame:
    if case.asks == "join":
        return _joined(spark, folder)
    rows = arrivals(spark, folder).withWatermark("ts", "10 seconds")
    return _paned(rows, case) if case.paned else _direct(rows, case)


def _joined(spark: SparkSession, folder: Path) -> DataFrame:
    """Pairs of equal keys, at most 2 s apart: Spark's own join of two streams."""
    mine, other = (
        arrivals(spark, folder / stream).withWatermark("ts", "10 seconds").alias(name)
        for stream, name in (("0", "mine"), ("1", "other"))
    )
    near = F.expr(
        "other.ts >= mine.ts - INTERVAL 2 SECONDS AND other.ts <= mine.ts + INTERVAL 2 SECONDS"
    )
    pairs = mine.join(other, (F.col("mine.key") == F.col("other.key")) & near)
    return pairs.select(
        "mine.ts",
        "mine.key",
        "mine.value",
        F.col("other.ts").alias("ts_other"),
        F.col("other.value").alias("value_other"),
    )


def _direct(rows: DataFrame, case: Case) -> DataFrame:
    """Each row is copied into RANGE/SLIDE windows, then aggregated by window."""
    window = F.window("ts", case.range, case.slide)
    if not case.keyed:
        return rows.groupBy(window).agg(*_measures())
    return rows.groupBy(window, "key").agg(*_measures(), F.max("value").alias("top"))


def _paned(rows: DataFrame, case: Case) -> DataFrame:
    """Panes of one slide first: the copies are made of pane results, not of rows."""
    panes = rows.groupBy(F.window("ts", case.slide).alias("pane"), "key").agg(
        *_measures(), F.max("value").alias("top")
    )
    window = F.window(F.window_time("pane"), case.range, case.slide)
    return panes.groupBy(window, "key").agg(
        F.sum("n").alias("n"), F.sum("total").alias("total"), F.max("top").alias("top")
    )


def _measures() -> tuple[Column, Column]:
    return F.count("*").alias("n"), F.sum("value").alias("total")
