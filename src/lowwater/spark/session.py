"""Settings that make short epochs short."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from lowwater.spark.shipping import in_this_process

_EXECUTION = "org.apache.spark.sql.execution.streaming"

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"

QUERY_SETTINGS = {
    # The default forks dozens of processes per epoch on a local disk.
    FILE_MANAGER: (f"{_EXECUTION}.checkpointing.FileSystemBasedCheckpointFileManager"),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Ingest reduces whole batches; few large ones cost less than many small ones.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
    # The plan of an epoch is simple and always the same: nothing is learned from its stages.
    "spark.sql.adaptive.enabled": "false",
    # Shares of a file follow its size alone, so that all cores get the same.
    "spark.sql.files.openCostInBytes": "0",
}
"""What every query of Lowwater runs with, whoever made the session."""

_RARE_SECOND_COMPILER = (
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=12000 "
    "-XX:Tier4CompileThreshold=300000 -XX:Tier4BackEdgeThreshold=400000"
)

WARM_SETTINGS = {
    # Rows are worked on in Python; the JVM plans and moves bytes. Its second compiler pays only for
    # the loop that turns rows into Arrow, and otherwise takes the cores from the first epochs.
    "spark.driver.extraJavaOptions": _RARE_SECOND_COMPILER,
    "spark.python.daemon.module": "lowwater.spark.daemon",
}
"""What must be set before the JVM starts, where tasks run beside the driver.

Executors elsewhere get the package when a query starts, too late for the daemon.
"""

_SESSION_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.maxResultSize": "4g",
    "spark.driver.memory": "4g",
    "spark.log.level": "ERROR",
}


_CHOSEN_ELSEWHERE = ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT")
"""Variables that say that a server, or `spark-submit`, knows the master."""


def session(**settings: str) -> SparkSession:
    """Return a SparkSession for Lowwater, or the one there is; dots in names become underscores.

    The master is the one that is asked for, by `spark_master=`, the variable MASTER or
    `spark-submit`; else all cores of this machine.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("lowwater")
    asked = {name.replace("_", "."): value for name, value in settings.items()}
    chosen = {**_SESSION_SETTINGS, **QUERY_SETTINGS}
    master = asked.get("spark.master") or os.environ.get("MASTER")
    if master is None and not any(name in os.environ for name in _CHOSEN_ELSEWHERE):
        master = "local[*]"
    if master is not None:
        chosen["spark.master"] = master
    if in_this_process(master):
        chosen |= WARM_SETTINGS
    chosen |= asked
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@contextmanager
def settings_for_start(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set what a query is started with; Spark copies the settings, so they are put back after."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
