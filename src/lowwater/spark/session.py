"""Settings that make short epochs short."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

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
"""What must be set before the JVM starts."""

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


def session(**settings: str) -> SparkSession:
    """Return a SparkSession for Lowwater, or the one there is; dots in names become underscores."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("lowwater")
    if "SPARK_REMOTE" not in os.environ and "MASTER" not in os.environ:
        builder = builder.master("local[*]")
    chosen = {**_SESSION_SETTINGS, **WARM_SETTINGS, **QUERY_SETTINGS}
    chosen.update({name.replace("_", "."): value for name, value in settings.items()})
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
