"""The queries of the schedules on Spark, and the streams that they read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import lowwater as lw
from chaos.queries import folder

_DDL = "ts timestamp, key bigint, value bigint"

Folders = Mapping[str, str]
"""The folder of each stream, by the stream's name."""


@cache
def folders() -> Folders:
    """Return new folders with the streams; Spark reads files in the order of their times."""
    streams = {name: folder(name) for name in ("a", "b")}
    for path in streams.values():
        for number, file in enumerate(sorted(path.iterdir())):
            os.utime(file, (number, number))
    return {name: str(path) for name, path in streams.items()}


def _files(path: str) -> lw.Stream:
    """Return a stream of files that Lowwater reads, one file per epoch."""
    source = lw.files(Path(path), files_per_epoch=1)
    return lw.stream(source, time="ts", watermark=lw.slack("2 seconds"))


def _frame(path: str) -> lw.Stream:
    """Return a stream of a DataFrame whose files Spark lists and ingest reads."""
    frame = lw.spark_session().readStream.schema(_DDL).option("maxFilesPerTrigger", 1).parquet(path)
    return lw.stream(frame, time="ts", watermark=lw.slack("2 seconds"))


def _rows(path: str) -> lw.Stream:
    """Return a stream of a DataFrame whose rows Spark reads."""
    frame = lw.spark_session().readStream.schema(_DDL).option("maxFilesPerTrigger", 1).parquet(path)
    return lw.stream(frame.where("value >= 0"), time="ts", watermark=lw.slack("2 seconds"))


def _windows(stream: lw.Stream) -> lw.Stream:
    windows = stream.window(range="6 seconds", slide="2 seconds").group_by("key")
    return windows.agg(n=lw.count(), total=lw.sum("value"), top=lw.max("value"))


def _join(left: lw.Stream, right: lw.Stream) -> lw.Stream:
    return left.join(right, on="key", band=("-1 second", "1 second"))


QUERIES: dict[str, Callable[[Folders], lw.Stream]] = {
    "windows of files": lambda at: _windows(_files(at["a"])),
    "join of files": lambda at: _join(_files(at["a"]), _files(at["b"])),
    "windows of a frame": lambda at: _windows(_frame(at["a"])),
    "windows of rows": lambda at: _windows(_rows(at["a"])),
    "join of frames": lambda at: _join(_rows(at["a"]), _rows(at["b"])),
}
OF_FRAMES = [name for name in QUERIES if "files" not in name]
"""The queries whose input positions are Spark's offsets."""
