"""Starting Python's worker processes while Spark still plans: they would be waited for later."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
from pyspark.sql import SparkSession


def warm_up(spark: SparkSession) -> None:
    """Have Spark start its Python workers, beside whatever else is going on."""
    threading.Thread(target=_touch, args=(spark,), daemon=True).start()


def _touch(spark: SparkSession) -> None:
    # A query that does not get its workers early gets them late; nothing else depends on this.
    with suppress(Exception):
        spark.range(2, numPartitions=2).mapInArrow(_same, "id long").collect()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
