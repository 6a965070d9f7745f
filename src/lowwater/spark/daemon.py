"""Python workers that start warm.

Spark forks a worker for every task that finds none free, and each would import Arrow, pandas and
Lowwater by itself. This daemon imports them once, before it forks. What it has imported is frozen:
the collection of garbage that Spark does after each task need not look at it.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import lowwater.spark.tasks  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
