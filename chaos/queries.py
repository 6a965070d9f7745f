"""The queries of the schedules, and the streams that they read."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

import lowwater as lw
from chaos.inputs import SCHEMA, START
from lowwater.sources.formats import Format

FILES = 5
ROWS = 24
_SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("key", pa.int64()), ("value", pa.int64())])


@cache
def folder(name: str) -> Path:
    """Return a folder with the files of one stream; every process writes the same rows."""
    chosen, at = random.Random(name), Path(mkdtemp(prefix="lowwater-chaos-"))  # noqa: S311
    for number in range(FILES):
        rows = []
        for _ in range(ROWS):
            late = chosen.choice((0, 0, 0, 1, 2, 12))
            seconds = number * 5 + chosen.uniform(0, 5) - late
            key, value = chosen.randrange(4), chosen.randrange(1_000)
            rows.append((START + timedelta(seconds=seconds), key, value))
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


@dataclass(frozen=True)
class FileQuery:
    """A query over files that arrive while it runs; its answer is computed by the harness.

    A row at the time `far` is not admitted, whether it is the first one or not: it is too far ahead
    of the clock or, with `max_ahead`, of the other rows.
    """

    name: str
    form: Format
    files_per_epoch: int
    max_ahead: str
    far: datetime

    def build(self, at: Path) -> lw.Stream:
        """Return the query over the folder `at`."""
        source = lw.files(at, format=self.form, schema=SCHEMA, files_per_epoch=self.files_per_epoch)
        watermark = lw.slack("2 seconds", max_ahead=self.max_ahead)
        windows = lw.stream(source, time="ts", watermark=watermark).window(range="4 seconds")
        return windows.group_by("key").agg(n=lw.count(), total=lw.sum("value"))


AnyQuery: TypeAlias = ChaosQuery | FileQuery
QUERIES = tuple(
    ChaosQuery(build.__name__.strip("_"), build) for build in (_sliding, _sessions, _join, _nested)
)
_YEAR_3000 = datetime(3000, 1, 1, tzinfo=UTC)
_TOMORROW = START + timedelta(hours=10)
FILE_QUERIES: tuple[FileQuery, ...] = (
    FileQuery("csv", "csv", 1, "clock", _YEAR_3000),
    FileQuery("csv in pairs", "csv", 2, "1 hour", _TOMORROW),
    FileQuery("json", "json", 1, "1 hour", _TOMORROW),
    FileQuery("json in pairs", "json", 2, "clock", _YEAR_3000),
    FileQuery("parquet", "parquet", 2, "clock", _YEAR_3000),
)
