"""A query on the local host that is killed again and again: a process of its own."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pyarrow.parquet as pq

import lowwater as lw
from lowwater.sinks.files import FileSink, parquet_bytes
from tests.spark.streams import cut, disordered

EPOCHS = 30
"""More than are kept for a way back."""


def write_files(folder, epochs=EPOCHS):
    """Write the stream, one file for each epoch."""
    (folder / "stream").mkdir(parents=True)
    rows = disordered(3_000, seconds=120, late_by=15).select(["ts", "key", "value"])
    for i, piece in enumerate(cut(rows, epochs)):
        pq.write_table(piece, folder / "stream" / f"{i:04d}.parquet")


class Slow(FileSink):
    """A sink that takes its time, so that kills meet it at work."""

    def write_epoch(self, epoch, rows, tag):
        time.sleep(0.01)
        super().write_epoch(epoch, rows, tag)
        time.sleep(0.01)


def query(folder):
    stream = lw.stream(
        lw.files(folder / "stream", files_per_epoch=1), time="ts", watermark=lw.slack("3 seconds")
    )
    window = stream.window(range="9 seconds", slide="2 seconds").group_by("key")
    return window.agg(n=lw.count(), total=lw.sum("value"))


def main(folder):
    run = query(folder).start(
        host="local",
        sink=Slow(str(folder / "results"), "parquet", parquet_bytes),
        late=Slow(str(folder / "late"), "parquet", parquet_bytes),
        checkpoint=str(folder / "checkpoint"),
    )
    print("ready", flush=True)  # noqa: T201
    while run.status()["in"] < 3_000 or not run.newest.quiet:
        assert not run.wait(0.02)
    run.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
