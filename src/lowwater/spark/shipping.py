"""The package goes where the tasks are: executors of a cluster need not have it installed."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

import lowwater

ARCHIVE = "lowwater-shipped.zip"


def in_this_process(master: str | None) -> bool:
    """Say whether tasks run beside the driver, and find what it finds."""
    return str(master).startswith("local") and not str(master).startswith("local-cluster")


def ship(spark: SparkSession) -> None:
    """Give the package to the executors of a cluster; once for each session's context."""
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
