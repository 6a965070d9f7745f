"""The queries of the schedules, and the streams that they read."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
import pyarrow.parquet as pq

import lowwater as lw

FILES = 7
ROWS = 40
_START = datetime(2024, 5, 1, 12, tzinfo=UTC)
_SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("key", pa.int64()), ("value", pa.int64())])


@cache
def folder(name: str) -> Path:
    """Return a folder with the files of one stream; every process writes the same rows."""
    chosen, at = random.Random(name), Path(mkdtemp(prefix="lowwater-chaos-"))  # noqa: S311
    for number in range(FILES):
        rows = []
        for _ in range(ROWS):
            late = chosen.choice((0, 0, 0, 1, 2, 6))
            seconds = number * 5 + chosen.uniform(0, 5) - late
            key, value = chosen.randrange(4), chosen.randrange(1_000)
            rows.append((_START + timedelta(seconds=seconds), key, value))
        columns = [list(column) for column in zip(*rows, strict=True)]
        pq.write_table(pa.table(columns, schema=_SCHEMA), at / f"{number:04d}.parquet")
    return at


def _stream(name: str) -> lw.Stream:
    source = lw.files(folder(name), files_per_epoch=1)
    return lw.stream(source, time="ts", watermark=lw.slack("2 seconds"))


def _sliding() -> lw.Stream:
    windows = _stream("a").window(range="6 seconds", slide="2 seconds").group_by("key")
    return windows.agg(n=lw.count(), total=lw.sum("value"), top=lw.max("value"))


def _sessions() -> lw.Stream:
    windows = _stream("b").window(gap="1 second").group_by("key")
    return windows.agg(n=lw.count(), total=lw.sum("value"))


def _join() -> lw.Stream:
    return _stream("a").join(_stream("b"), on="key", band=("-1 second", "1 second"))


def _nested() -> lw.Stream:
    inner = _stream("a").window(range="2 seconds").group_by("key").agg(n=lw.count())
    return inner.window(range="6 seconds").agg(most=lw.max("n"))


@dataclass(frozen=True)
class ChaosQuery:
    """A query of the schedules, by name."""

    name: str
    build: Callable[[], lw.Stream]


QUERIES = tuple(
    ChaosQuery(build.__name__.strip("_"), build) for build in (_sliding, _sessions, _join, _nested)
)
