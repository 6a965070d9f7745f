"""The daemon of Python workers that inject faults."""

from __future__ import annotations

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import lowwater.spark.tasks  # noqa: F401
from chaos.spark_faults import install

if __name__ == "__main__":
    install(is_worker=True)
    manager()
