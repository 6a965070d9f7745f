"""A daemon whose Python workers start with all modules imported.

Spark forks a worker if a task finds no idle worker, and each new worker would import Arrow,
pandas and Lowwater. This daemon imports these modules once, before it forks workers. The imported
objects are frozen, so Spark's garbage collection after each task skips them.
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
