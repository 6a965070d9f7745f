"""The setup of Spark: settings for short epochs, the package on executors, warm workers."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import SparkSession

import lowwater
from lowwater.errors import HostError

ARCHIVE = "lowwater-shipped.zip"
_EXECUTION = "org.apache.spark.sql.execution.streaming"

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"

QUERY_SETTINGS = {
    # The default forks dozens of processes per epoch on a local disk.
    FILE_MANAGER: f"{_EXECUTION}.checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Ingest reduces whole batches; few large batches cost less than many small batches.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
    # The plan of an epoch is simple and always the same: adaptive planning gains nothing.
    "spark.sql.adaptive.enabled": "false",
    # Spark then divides files by size alone, and all cores get equal shares.
    "spark.sql.files.openCostInBytes": "0",
}
"""Settings of every Lowwater query, in any Spark session."""

_RARE_SECOND_COMPILER = (
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=12000 "
    "-XX:Tier4CompileThreshold=300000 -XX:Tier4BackEdgeThreshold=400000"
)

WARM_SETTINGS = {
    # Python processes the rows; the JVM plans and moves bytes. The JVM's second compiler (C2) only
    # helps the loop that turns rows into Arrow, and otherwise takes cores from the first epochs.
    "spark.driver.extraJavaOptions": _RARE_SECOND_COMPILER,
    "spark.python.daemon.module": "lowwater.spark.daemon",
}
"""Settings for a local master. They must be set before the JVM starts.

A cluster cannot use the daemon: its executors receive the package only when a query starts.
"""

_CONNECTION_ERRORS = (Py4JError, Py4JNetworkError, ConnectionRefusedError, ConnectionResetError)
_FAREWELL_SECONDS = 5.0
"""The longest time between the end of a JVM's connections and the end of its process."""
TASK_ATTEMPTS = 4
"""How often Spark runs a task of a local master; plain `local[*]` runs it once."""
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
"""Environment variables that are set if Spark Connect or `spark-submit` chooses the master."""


@contextmanager
def while_jvm_lives() -> Iterator[None]:
    """Raise HostError, in place of errors of the connection, if the JVM ends in the context."""
    try:
        yield
    except Exception as error:
        if not _jvm_has_ended(error):
            raise
        raise HostError(
            "Spark's JVM has ended: it was killed, or had too little memory. Start the program "
            "again, with more spark.driver.memory if needed: the query continues where it was"
        ) from error


def _jvm_has_ended(error: BaseException | None) -> bool:
    """Return whether `error` is of the connection to a JVM of this process, which is gone."""
    while error is not None and type(error) not in _CONNECTION_ERRORS:
        error = error.__cause__ or error.__context__
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001
    with suppress(subprocess.TimeoutExpired):
        return (
            not (error is None or process is None) and process.wait(_FAREWELL_SECONDS) is not None
        )
    return False


@while_jvm_lives()
def spark_session(**settings: str) -> SparkSession:
    """Return the active SparkSession or a new one, with settings for Lowwater and `settings`.

    Write underscores for the dots in a name: `spark_driver_memory="8g"`. `spark_master=`, the
    variable MASTER or `spark-submit` sets the master; the default is all cores of this machine,
    where a task whose worker is lost runs again, as on a cluster.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("lowwater")
    asked = {name.replace("_", "."): value for name, value in settings.items()}
    chosen = {**_SESSION_SETTINGS, **QUERY_SETTINGS}
    master = asked.get("spark.master") or os.environ.get("MASTER")
    if master is None and not any(name in os.environ for name in _CHOSEN_ELSEWHERE):
        master = f"local[*, {TASK_ATTEMPTS}]"
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
    """Set `settings` while a query starts, then restore the session; the query keeps `settings`."""
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


def in_this_process(master: str | None) -> bool:
    """Return whether tasks run on the driver's machine, with the driver's packages."""
    return str(master).startswith("local") and not str(master).startswith("local-cluster")


def ship(spark: SparkSession) -> None:
    """Send the package to the executors of a cluster, once per SparkContext."""
    context = spark.sparkContext
    if in_this_process(context.master) or any(f.endswith(ARCHIVE) for f in context.listFiles):
        return
    folder = Path(tempfile.mkdtemp(prefix="lowwater-"))  # executors fetch it when they need it
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    root = Path(lowwater.__file__).parent
    with zipfile.ZipFile(folder / ARCHIVE, "w", zipfile.ZIP_DEFLATED) as packed:
        for module in sorted(root.rglob("*.py")):
            packed.write(module, Path(root.name, module.relative_to(root)))
    context.addPyFile(str(folder / ARCHIVE))


def warm_up(spark: SparkSession) -> None:
    """Start the Python workers in a thread, while Spark plans the first epoch."""

    def touch() -> None:
        # If this fails, the first epoch starts the workers itself.
        with suppress(Exception):
            spark.sparkContext.parallelize(range(2), 2).mapPartitions(iter).collect()

    threading.Thread(target=touch, daemon=True).start()
