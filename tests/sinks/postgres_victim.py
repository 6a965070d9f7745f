"""A query into PostgreSQL, in a process of its own that gets a signal at a point of an epoch."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pyarrow.parquet as pq

import lowwater as lw
from lowwater.engine import fault_points
from tests.spark.streams import cut, disordered

EPOCHS = 12


def write_files(folder):
    """Write the stream, one file for each epoch."""
    (folder / "stream").mkdir(parents=True)
    rows = disordered(1_200, seconds=60, late_by=15).select(["ts", "key", "value"])
    for i, piece in enumerate(cut(rows, EPOCHS)):
        pq.write_table(piece, folder / "stream" / f"{i:04d}.parquet")


def query(folder):
    """A query whose late rows revise results: later epochs replace rows of earlier ones."""
    stream = lw.stream(
        lw.files(folder / "stream", files_per_epoch=1), time="ts", watermark=lw.slack("3 seconds")
    )
    window = stream.window(range="9 seconds", slide="3 seconds", allowed_lateness="1 hour")
    return window.group_by("key").agg(n=lw.count(), top=lw.max("value"))


def main(folder, dsn, point, times, number):
    """Run the query; when `point` is reached for the last of `times`, send the signal to itself."""
    left = times

    def hook(reached):
        nonlocal left
        left -= reached == point
        if left == 0 and reached == point:
            os.kill(os.getpid(), number)

    fault_points.hook = hook
    sink = lw.to_postgres(dsn, table="results")
    query(folder).run(host="local", sink=sink, checkpoint=str(folder / "checkpoint"))


if __name__ == "__main__":
    path, address, at, count, sent = sys.argv[1:]
    main(Path(path), address, at, int(count), signal.Signals[sent])
