"""The queries of the schedules on Spark, and the streams that they read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

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


def _frame(path: str, limit: int) -> lw.Stream:
    """Return a stream of a DataFrame whose files Spark lists and ingest reads."""
    return lw.stream(_reader(path, limit), time="ts", watermark=lw.slack("2 seconds"))


def _rows(path: str, limit: int) -> lw.Stream:
    """Return a stream of a DataFrame whose rows Spark reads."""
    frame = _reader(path, limit).where("value >= 0")
    return lw.stream(frame, time="ts", watermark=lw.slack("2 seconds"))


def _reader(path: str, limit: int) -> Any:
    reader = lw.spark_session().readStream.schema(_DDL)
    return reader.option("maxFilesPerTrigger", limit).parquet(path)


def _windows(stream: lw.Stream) -> lw.Stream:
    windows = stream.window(range="6 seconds", slide="2 seconds").group_by("key")
    return windows.agg(n=lw.count(), total=lw.sum("value"), top=lw.max("value"))


def _join(left: lw.Stream, right: lw.Stream) -> lw.Stream:
    return left.join(right, on="key", band=("-1 second", "1 second"))


QUERIES: dict[str, Callable[[Folders, int], lw.Stream]] = {
    "windows of files": lambda at, _: _windows(_files(at["a"])),
    "join of files": lambda at, _: _join(_files(at["a"]), _files(at["b"])),
    "windows of a frame": lambda at, limit: _windows(_frame(at["a"], limit)),
    "windows of rows": lambda at, limit: _windows(_rows(at["a"], limit)),
    "join of frames": lambda at, limit: _join(_rows(at["a"], limit), _rows(at["b"], limit)),
}
"""Functions from the folders, and the number of files that a micro-batch of Spark may hold."""
OF_FRAMES = [name for name in QUERIES if "files" not in name]
"""The queries whose input positions are Spark's offsets."""
