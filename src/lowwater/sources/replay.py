"""A source that replays a recorded file, by recorded arrival times or as fast as possible.

A position is a row number with the checksum of the file, so a restart notices another file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from xxhash import xxh3_128_hexdigest

from lowwater.errors import HostError, SpecError, StateError, unknown_name
from lowwater.sources.arrival_clock import ArrivalClock, ArrivalEpochs, Ticks
from lowwater.sources.bad_file import BadFileError
from lowwater.sources.formats import Format, declared_schema, read_rows, row_texts
from lowwater.sources.lines import REASON, TEXT
from lowwater.sources.source import BlockSource, SourceBlock
from lowwater.sources.unix_time import to_timestamps


@dataclass(frozen=True)
class Replay(BlockSource):
    """A source of recorded rows in arrival order, `speed` times as fast as they were recorded.

    Without `arrival`, rows keep the order of the file. Without `speed`, all rows are ready at once,
    or those of the next of `epochs`, which are cut on the arrival clock `clock`.
    """

    path: str
    arrival: str | None
    schema: pa.Schema
    speed: float | None
    max_rows_per_epoch: int | None = None
    format: Format = "parquet"
    multiline: bool = False
    recorded: tuple[str, Format] | None = None
    """The file that the rows of a prepared replay came from, and its format."""
    content: str = ""
    """The checksum of that file."""
    stored: pa.Schema | None = None
    """The columns of the file, if numbers of it become timestamps, by `units`."""
    units: tuple[tuple[str, str], ...] = ()
    clock: ArrivalClock | None = None
    epochs: ArrivalEpochs | None = field(default=None, compare=False, repr=False)
    row_ends: Ticks | None = field(default=None, compare=False, repr=False)
    """The number of rows up to the end of each epoch, in a prepared replay."""

    def __getstate__(self) -> dict[str, Any]:
        # Executors read rows, but never choose them.
        return {**vars(self), "epochs": None, "row_ends": None}

    @property
    def paced(self) -> bool:
        """Whether rows become available over time, by their arrival times."""
        return self.speed is not None

    def prepare(self, folder: str) -> Replay:  # noqa: D102
        content = xxh3_128_hexdigest(Path(self.path).read_bytes())
        table = self.recording()
        if self.arrival is not None:
            table = table.take(pa.array(ArrivalClock(self.arrival).order(table)))
        # The name is that of the rows: the run that owns the checkpoint may be reading them.
        read_as = f"{self.format} {self.multiline} {self.schema} {self.units}"
        identity = f"{content} {self.arrival} {read_as}"
        name = f"recording-{xxh3_128_hexdigest(identity.encode())}.arrow"
        target = Path(folder, name).absolute()
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=65_536)
        aside.replace(target)
        came = self.path, self.format
        ends = None
        if self.epochs is not None and self.clock is not None:
            ends = self.epochs.rows(self.clock.read(table))
        read = replace(self, path=str(target), format="arrow", recorded=came)
        return replace(read, content=content, row_ends=ends)

    def recording(self) -> pa.Table:
        """Return all rows in the order of the file, with hidden columns for texts and faults."""
        stored = self.stored or self.schema
        try:
            table = read_rows(Path(self.path), self.format, stored, multiline=self.multiline)
        except BadFileError as problem:
            raise HostError(f"{problem}; name another file") from problem
        if self.format in _TEXT:
            table = table.append_column(_LINE, pa.array(np.arange(len(table))))
        return to_timestamps(table, dict(self.units))

    def rows(self) -> int | None:  # noqa: D102
        return len(_recording(self.path)) if self.format == "arrow" else None

    def begin(self) -> list[Any]:  # noqa: D102
        return [0, self.content] if self.epochs is None else [0, self.content, 0, *self._cut]

    @property
    def _cut(self) -> tuple[int, ...]:
        """How the recording is cut into epochs: their length and their number."""
        return () if self.epochs is None else (self.epochs.length, len(self.epochs.cuts))

    def _row(self, position: Sequence[Any]) -> int:
        """Return the row number of a position; raise StateError if it is of another file."""
        row, content, *epoch = position
        if content != self.content:
            raise StateError(
                f"{self.recorded[0] if self.recorded else self.path}: the recording has changed "
                f"since {row:,} of its rows were read; put the old file back, or start with a new "
                f"checkpoint"
            )
        if tuple(epoch[1:]) != self._cut:
            raise StateError(
                f"{self.recorded[0] if self.recorded else self.path}: the recording was cut into "
                f"other epochs when {row:,} of its rows were read; give the same arrival, epoch "
                f"and epoch rows as then, or start with a new checkpoint"
            )
        return int(row)

    def available(self, start: Sequence[Any]) -> list[Any]:  # noqa: D102
        row = self._row(start)
        if self.row_ends is not None:
            epoch = min(start[2] + 1, len(self.row_ends))
            rows = int(self.row_ends[epoch - 1]) if epoch else 0
            return [rows, self.content, epoch, *self._cut]
        clocked = self.speed is not None
        end = _Clock.of(self, row).row_now() if clocked else len(_recording(self.path))
        if self.max_rows_per_epoch is not None:
            end = min(end, row + self.max_rows_per_epoch)
        return [max(row, end), self.content]

    def waiting(self, start: Sequence[Any]) -> int:  # noqa: D102
        row = self._row(start)
        if self.epochs is not None:
            return 0  # an epoch takes all rows that have arrived
        return max(0, _Clock.of(self, row).row_now() - row)

    def blocks(self, start: Sequence[Any], end: Sequence[Any]) -> Sequence[SourceBlock]:  # noqa: D102
        rows = [self._row(start), self._row(end)]
        if self.row_ends is not None and list(start) != list(end):
            # The stream ends with its last epoch, which has no rows.
            last = end[2] == len(self.row_ends)
            return [SourceBlock(rows, last=last)] if last or rows[0] < rows[1] else []
        if rows[0] == rows[1]:
            return []
        return [SourceBlock(rows, last=rows[1] == len(_recording(self.path)))]

    def read(self, block: SourceBlock) -> pa.Table:  # noqa: D102
        start, end = block.what
        rows = _recording(self.path)[start:end]
        table = rows.select(self.schema.names).cast(self.schema)
        if REASON not in rows.column_names or rows.column(REASON).null_count == len(rows):
            return table
        return table.append_column(TEXT, rows.column(TEXT)).append_column(
            REASON, rows.column(REASON)
        )

    def texts(self, block: SourceBlock, rows: np.ndarray) -> pa.Array | None:  # noqa: D102
        if self.recorded is None or self.recorded[1] not in _TEXT:
            return None
        lines = _recording(self.path).column(_LINE).to_numpy()[block.what[0] + rows]
        path, form = self.recorded
        if not Path(path).is_file():
            return None
        return row_texts(Path(path), form, lines, multiline=self.multiline)


def replay(
    path: str | Path,
    *,
    arrival: str | None = None,
    speed: float | None = 1.0,
    max_rows_per_epoch: int | None = None,
    format: Format = "parquet",
    schema: str | pa.Schema | None = None,
    multiline: bool = False,
) -> Replay:
    r"""Return a source that replays a file, `speed` times as fast as its rows were recorded.

    `arrival` names the column of arrival times: timestamps, or seconds as integers. Rows are in the
    order of `arrival`, or of the file if `arrival` is None. With `speed=None`, all rows are
    ready at once. csv and json need a `schema`; `multiline` and malformed rows are as in
    `lw.files`. A restarted query continues from its checkpoint.

    >>> import lowwater as lw, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "cars.jsonl")
    >>> _ = path.write_text('{"t": 1, "speed": 60}\n{"t": 2, "speed"\n')
    >>> source = lw.replay(path, speed=None, format="json", schema="t bigint, speed double")
    >>> cars = lw.stream(source, time="t", watermark=lw.ordered())
    >>> cars.window(range=10).agg(n=lw.count()).run(host="local").malformed["text"].to_pylist()
    ['{"t": 2, "speed"']
    """
    file = Path(path)
    if not file.is_file():
        raise SpecError(
            f"path={str(path)!r} is not a file; lw.replay reads one file, lw.files a folder"
        )
    if speed is not None and not speed > 0:
        raise SpecError(
            f"speed={speed!r} must be greater than zero; write speed=None for no pauses"
        )
    if max_rows_per_epoch is not None and max_rows_per_epoch < 1:
        raise SpecError(f"max_rows_per_epoch={max_rows_per_epoch} must be at least 1")
    if schema is None and format == "parquet":
        schema = _parquet_schema(file)
    columns = declared_schema(format, schema, multiline=multiline)
    if arrival is None and speed is not None:
        raise SpecError(
            f"speed={speed!r} needs times of arrival: name their column with arrival=, or write "
            f"speed=None to read rows as fast as possible"
        )
    if arrival is not None and arrival not in columns.names:
        raise unknown_name("column", arrival, columns.names)
    return Replay(
        str(file.absolute()), arrival, columns, speed, max_rows_per_epoch, format, multiline
    )


def _parquet_schema(file: Path) -> pa.Schema:
    try:
        return pq.read_schema(file)
    except (pa.ArrowInvalid, OSError) as problem:
        raise SpecError(
            f"path={str(file)!r} is not a Parquet file that can be read: {problem}; name another "
            f"file, or give format='csv' or format='json' with a schema"
        ) from problem


_TEXT: tuple[Format, ...] = ("csv", "json")
_LINE = "__line"
"""The column of a recording with the number of the row in its csv or json file."""
_CACHED = 4
"""Largest number of recordings that a process keeps in memory."""
_CLOCKS: dict[Replay, _Clock] = {}


@lru_cache(maxsize=_CACHED)
def _recording(path: str) -> pa.Table:
    """Return a recording as a table, mapped into memory once per process."""
    return pa.ipc.open_file(pa.memory_map(path)).read_all()


class _Clock:
    """The clock of a replay, started on creation; `row_now` returns how many rows have arrived."""

    def __init__(self, source: Replay, start: int) -> None:
        assert source.arrival is not None  # noqa: S101
        self.arrivals = ArrivalClock(source.arrival).read(_recording(source.path))
        self.speed = source.speed or 1.0
        self.began = time.time()
        rows = len(self.arrivals)
        self.from_tick = self.arrivals[min(start, rows - 1)] if rows else 0

    @classmethod
    def of(cls, source: Replay, start: int) -> _Clock:
        if source not in _CLOCKS:
            while len(_CLOCKS) >= _CACHED:
                del _CLOCKS[next(iter(_CLOCKS))]
            _CLOCKS[source] = cls(source, start)
        return _CLOCKS[source]

    def row_now(self) -> int:
        tick = self.from_tick + (time.time() - self.began) * 1_000_000 * self.speed
        return int(np.searchsorted(self.arrivals, tick, "right"))
