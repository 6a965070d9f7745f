"""The process of the query: `python -m bench.soak.query FOLDER`, with a JVM of its own.

The query has windows with early results and revisions, and an interval join. The process stops it
and starts it again from its checkpoint, in the same session, and ends it when all rows are read.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import lowwater as lw
from bench.soak.stream import MAX_DELAY_S, SCHEMA
from lowwater.engine.metrics import metrics
from lowwater.engine.run import Run
from lowwater.spark.session import WARM_SETTINGS

RANGE_S, SLIDE_S, BAND_S = 60, 10, 2
_SLACK = "5 seconds"
_WIDE_SLACK = f"{MAX_DELAY_S + 1:.0f} seconds"
_PATIENCE_S = 120.0
_MEASURES = ("results", "early_results", "open_windows", "state_cells", "state_bytes")


def build(folder: Path) -> Any:
    """Return the query: windows that late rows revise, and pairs of views and clicks."""

    def stream(name: str, slack: str) -> lw.Stream:
        source = lw.files(folder / "in" / name, schema=SCHEMA, max_file_age="5 minutes")
        return lw.stream(source, time="ts", watermark=lw.slack(slack))

    windows = stream("views", _SLACK).window(
        range=f"{RANGE_S} seconds", slide=f"{SLIDE_S} seconds", allowed_lateness="30 seconds"
    )
    views, clicks = stream("views", _WIDE_SLACK), stream("clicks", _WIDE_SLACK)
    return lw.together(
        windows=windows.group_by("key").agg(
            n=lw.count(), total=lw.sum("value"), top=lw.max("value")
        ),
        pairs=views.join(clicks, on="key", band=(f"-{BAND_S} seconds", f"{BAND_S} seconds")),
    )


class Driver:
    """The run of the query, its status in a file, and the durations of its epochs in another."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.starts = folder, 0
        self.epochs = (folder / "epochs.txt").open("a", buffering=1)
        self.run = self._start()

    def _start(self) -> Run:
        self.starts += 1
        run = build(self.folder).start(
            sinks={
                name: lw.to_parquet(self.folder / "out" / name) for name in ("windows", "pairs")
            },
            checkpoint=str(self.folder / "checkpoint"),
            trigger="1 second",
            early=lw.early_every("5 seconds"),
        )
        post = run.epochs.on_epoch

        def note(seconds: float) -> None:
            self.epochs.write(f"{time.time():.3f} {seconds:.4f}\n")
            post(seconds)

        run.epochs.on_epoch = note
        return run

    def restart(self) -> None:
        """Stop the query, and start it again from its checkpoint."""
        self.run.stop()
        self.run = self._start()

    def show(self) -> int:
        """Write the status to its file; return the rows that the query has counted."""
        status = self.run.status()
        known = {m.name: m.value for m in metrics(self.run.flow, status) if m.name in _MEASURES}
        told = {
            "epoch": status.epoch,
            "rows": status["in"],
            "late": status["late"],
            "bad_files": status.bad_files,
            "balanced": status.balanced,
            "starts": self.starts,
            "watermark": None if status.watermark is None else status.watermark.timestamp(),
            **known,
        }
        path = self.folder / "status.json"
        path.with_suffix(".new").write_text(json.dumps(told))
        path.with_suffix(".new").rename(path)
        return status["in"]


def main() -> None:
    """Run the query until the file `end` names the number of rows to wait for."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak.query", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--restart-every", type=float, required=True, help="seconds")
    chosen = parser.parse_args()
    folder: Path = chosen.folder
    compiler = WARM_SETTINGS["spark.driver.extraJavaOptions"]
    spark = lw.spark_session(
        spark_master="local[2, 4]",
        spark_driver_memory="1g",
        spark_driver_extraJavaOptions=f"{compiler} -Xlog:gc:file={folder}/gc.log",
        # Live objects are known after a full collection only.
        spark_cleaner_periodicGC_interval="1min",
        spark_local_dir=str(folder / "local"),
    )
    driver = Driver(folder)
    next_restart = time.monotonic() + chosen.restart_every
    end = folder / "end"
    parent = os.getppid()
    while not end.exists():
        if os.getppid() != parent:
            raise RuntimeError("the process that feeds the query has ended")
        if driver.run.wait(1.0):
            raise RuntimeError("the query ended before the stream")
        driver.show()
        if time.monotonic() >= next_restart:
            next_restart += chosen.restart_every
            driver.restart()
    _drain(driver, int(end.read_text()))
    driver.run.stop()
    spark.stop()


def _drain(driver: Driver, expected: int) -> None:
    """Wait until the query has counted all rows, and five more seconds for their results."""
    give_up = time.monotonic() + _PATIENCE_S
    while driver.show() < expected:
        if time.monotonic() > give_up:
            raise TimeoutError(f"{driver.show()} of {expected} rows were counted when time was up")
        driver.run.wait(0.5)
    driver.run.wait(5.0)
    driver.show()


if __name__ == "__main__":
    main()
