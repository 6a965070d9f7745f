"""One run of one side in this process: `python -m bench.worker` with a JVM of its own.

The clock runs from the construction of the query to its end. The session is up
by then, but nothing has run in it: the first epoch pays for all that is cold.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cases import EVERY, Case
from bench.epochs import Epoch, EpochLog
from bench.session import open_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    Run = Callable[[SparkSession, Case, Path, Path, Path], dict[int, int] | None]


def main() -> None:
    """Run one side of one case and write what was measured to the result file."""
    chosen = _arguments()
    run = _side(chosen.side, EVERY[chosen.case])
    spark = open_session(chosen.store, chosen.work, _settings(chosen.side))
    log = EpochLog()
    spark.streams.addListener(log)
    case = EVERY[chosen.case]
    try:
        with _noted(chosen.side, case) as noted:
            began = time.perf_counter()
            sizes = run(spark, case, chosen.folder, chosen.work / "out", chosen.work / "ckpt")
            seconds = time.perf_counter() - began
        epochs = [asdict(epoch) for epoch in noted or log.finished()]
    finally:
        spark.stop()
    state = sorted((sizes or {}).items())
    chosen.result.write_text(json.dumps({"seconds": seconds, "epochs": epochs, "state": state}))


def _settings(side: str) -> dict[str, str]:
    """Return the settings of `lw.spark_session()` that warm up the JVM and Python's workers.

    Spark's own side does its work in the JVM, and is faster with the JVM's defaults.
    """
    if side == "spark":
        return {}
    from lowwater.spark.session import WARM_SETTINGS

    return WARM_SETTINGS


def _noted(side: str, case: Case) -> AbstractContextManager[list[Epoch] | None]:
    """Note epochs ourselves where Spark does not see each of them."""
    if side == "spark" or not case.fused:
        return nullcontext()
    from bench import ours

    return ours.epochs_noted()


def _side(side: str, case: Case) -> Run:
    """Import one side only, so that Spark's runs without Lowwater in its process."""
    if side == "spark":
        from bench import native

        return native.run
    from bench import ours

    return ours.watch if case.watched else ours.run


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.worker", description=__doc__)
    parser.add_argument("--case", choices=EVERY, required=True)
    parser.add_argument("--side", choices=("lowwater", "spark"), required=True)
    parser.add_argument("--store", choices=("hdfs", "rocksdb"), required=True)
    parser.add_argument("--folder", type=Path, required=True, help="the stream's files")
    parser.add_argument("--work", type=Path, required=True, help="output and checkpoint")
    parser.add_argument("--result", type=Path, required=True, help="written as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
