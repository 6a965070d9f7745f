"""A daemon of Spark whose Python workers write down how long learners take in shards.

Each worker appends lines to a file of its own in the folder `FOLDER`: the system clock, and the
seconds of a call.
"""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import lowwater.spark.tasks  # noqa: F401
from bench.learner_timers import LearnerTimers

FOLDER = "LOWWATER_BENCH_TIMERS"
"""The environment variable with the folder."""


def note(seconds: float) -> None:
    """Write down a call of a learner."""
    with (Path(os.environ[FOLDER]) / str(os.getpid())).open("a") as calls:
        calls.write(f"{time.time()} {seconds}\n")


if __name__ == "__main__":
    with LearnerTimers(note).running():
        gc.collect()
        gc.freeze()
        manager()
