"""Starting Python's worker processes while Spark still plans: they would be waited for later."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress

from pyspark.sql import SparkSession


def warm_up(spark: SparkSession) -> None:
    """Have Spark start its Python workers, beside whatever else is going on."""
    threading.Thread(target=_touch, args=(spark,), daemon=True).start()


def _touch(spark: SparkSession) -> None:
    # A query that does not get its workers early gets them late; nothing else depends on this.
    with suppress(Exception):
        spark.sparkContext.parallelize(range(2), 2).mapPartitions(_same).collect()


def _same(numbers: Iterable[int]) -> Iterable[int]:
    return numbers
