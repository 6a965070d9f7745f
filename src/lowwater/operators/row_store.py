"""The row store: rows in state, sorted into buckets by time, for operators that need whole rows.

A bucket holds the rows of an interval of time, `[low, high]`. Buckets do not overlap, and all rows
of one time are in one bucket. An epoch appends a *segment* of rows to each bucket with new rows,
and reads only the buckets that it needs. Segments are merged like the digits of a binary counter,
so each row is rewritten a logarithmic number of times, even if late rows are scattered over many
buckets. Rows of equal time are in arrival order.

Each row may have a flag. Flags are stored apart from the rows, so setting a flag rewrites no row.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.operators.batch import TICK
from lowwater.operators.packet import packed, unpacked

TARGET_ROWS = 16_384


@dataclass(frozen=True)
class Segment:
    """Rows of a bucket that were written together, as one entry of the state."""

    name: str
    rows: int
    size: int


@dataclass(frozen=True)
class RowBucket:
    """The description of a bucket: its interval of time, its segments and its counts.

    `flags` is the size of the flags in bytes, and `raised` the number of rows with a flag. In a
    queue, `left` is the number of rows without a flag that were removed already.
    """

    low: int
    high: int
    name: str
    runs: tuple[Segment, ...]
    flags: int = 0
    raised: int = 0
    left: int = 0

    @property
    def rows(self) -> int:
        """The number of rows in the bucket."""
        return sum(r.rows for r in self.runs)

    @property
    def size(self) -> int:
        """The size of the rows and their flags in bytes."""
        return sum(r.size for r in self.runs) + self.flags

    def to_json(self) -> list[Any]:
        """Return the bucket as JSON."""
        runs = [[r.name, r.rows, r.size] for r in self.runs]
        return [self.low, self.high, self.name, runs, self.flags, self.raised, self.left]

    @classmethod
    def from_json(cls, content: list[Any]) -> RowBucket:
        """Return the bucket that `to_json` wrote."""
        low, high, name, runs, *counts = content
        return cls(low, high, name, tuple(Segment(*r) for r in runs), *counts)


@dataclass(frozen=True)
class StoredRows:
    """Rows in state, or about to be stored, with their ticks and flags.

    The table has the ticks as a column, so one write stores both.
    """

    table: pa.Table
    ticks: np.ndarray
    flags: np.ndarray

    @classmethod
    def of(cls, table: pa.Table, flags: np.ndarray | None = None) -> StoredRows:
        """Return the rows of `table`, whose column `TICK` holds the ticks."""
        ticks = table.column(TICK).to_numpy()
        return cls(table, ticks, np.zeros(len(ticks), bool) if flags is None else flags)

    def __len__(self) -> int:
        return len(self.ticks)

    def take(self, index: np.ndarray) -> StoredRows:
        """Return the rows at `index`."""
        return StoredRows(self.table.take(pa.array(index)), self.ticks[index], self.flags[index])

    def where(self, mask: np.ndarray) -> StoredRows:
        """Return the rows in `mask`."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def in_order(self) -> StoredRows:
        """Return the rows sorted by (tick, arrival)."""
        if (self.ticks[:-1] <= self.ticks[1:]).all():
            return self
        return self.take(np.argsort(self.ticks, kind="stable"))

    @classmethod
    def together(cls, parts: list[StoredRows]) -> StoredRows:
        """Return the rows of all `parts`, concatenated."""
        if len(parts) == 1:
            return parts[0]
        table = _concatenated([p.table for p in parts]).combine_chunks()
        ticks = np.concatenate([p.ticks for p in parts])
        return cls(table, ticks, np.concatenate([p.flags for p in parts]))


class RowStore:
    """The store of the rows of one port: it reads from `state` and writes to `changes`."""

    def __init__(
        self,
        port: int,
        state: Mapping[str, bytes],
        changes: MutableMapping[str, bytes | None],
        content: Mapping[str, Any] | None,
    ) -> None:
        self.port, self._state, self._changes = port, state, changes
        self._next: int = content["next"] if content else 0
        self.all = [RowBucket.from_json(b) for b in content["buckets"]] if content else []
        self._open: dict[str, StoredRows] = {}

    def to_json(self) -> dict[str, Any]:
        """Return the index of the buckets as JSON."""
        return {"next": self._next, "buckets": [b.to_json() for b in self.all]}

    @property
    def rows(self) -> int:
        """The number of rows in the store."""
        return sum(b.rows for b in self.all)

    @property
    def open_rows(self) -> int:
        """The number of rows that wait for others, or for a watermark."""
        return self.rows

    @property
    def size(self) -> int:
        """The size of the rows and their flags in bytes."""
        return sum(b.size for b in self.all)

    # -- reading -------------------------------------------------------------------------------

    def read(self, bucket: RowBucket) -> StoredRows:
        """Return the rows of `bucket`; rows of equal time are in arrival order."""
        if bucket.name not in self._open:
            table = _concatenated([unpacked(self._bytes(r.name)) for r in bucket.runs])
            self._open[bucket.name] = StoredRows.of(table, self._flags(bucket))
        return self._open[bucket.name]

    def _flags(self, bucket: RowBucket) -> np.ndarray:
        flags = np.zeros(bucket.rows, bool)
        if bucket.flags:
            bits = np.frombuffer(self._bytes(_flags_of(bucket)), np.uint8)
            # Rows of segments that were added after the flags were written have no flag.
            known = np.unpackbits(bits)[: bucket.rows]
            flags[: len(known)] = known
        return flags

    def _bytes(self, name: str) -> bytes:
        content = self._changes.get(name)
        return self._state[name] if content is None else content

    # -- writing -------------------------------------------------------------------------------

    def add(self, rows: StoredRows) -> None:
        """Add `rows`, which arrived after all rows in the store."""
        if not len(rows):
            return
        order = np.argsort(rows.ticks, kind="stable")
        ticks = rows.ticks[order]
        home = self._homes(ticks)
        beyond = np.searchsorted([b.low for b in self.all], ticks)
        place = np.where(home >= 0, home, len(self.all) + beyond)
        starts = _changes(place)
        known = list(self.all)
        for start, end in pairwise([*starts.tolist(), len(order)]):
            some = rows.take(np.sort(order[start:end]))
            if home[start] >= 0:
                self._append(known[home[start]], some)
            else:
                self._create(some)
        self.all.sort(key=lambda b: b.low)

    def _homes(self, ticks: np.ndarray) -> np.ndarray:
        """Return the index of the bucket for each time; −1 if the time needs a new bucket."""
        if not self.all:
            return np.full(len(ticks), -1)
        before = np.searchsorted([b.low for b in self.all], ticks, "right") - 1
        high = np.array([b.high for b in self.all])
        full = np.array([b.left > 0 or b.rows >= TARGET_ROWS for b in self.all])
        taken = (before >= 0) & ((ticks <= high[before]) | ~full[before])
        return np.where(taken, before, -1)

    def _append(self, bucket: RowBucket, rows: StoredRows) -> None:
        """Add `rows` to `bucket`; a bucket that grows too large is divided into new ones."""
        high = max(bucket.high, int(rows.ticks.max()))
        if bucket.rows + len(rows) > 2 * TARGET_ROWS and bucket.low < high:
            whole = StoredRows.together([self.read(bucket), rows])
            self._delete(bucket)
            self._create(whole)
            return
        flags = np.append(self._flags(bucket), rows.flags) if rows.flags.any() else None
        runs, last = list(bucket.runs), rows.table
        while runs and runs[-1].rows <= 2 * len(last):
            older = runs.pop()
            last = _concatenated([unpacked(self._bytes(older.name)), last])
            self._drop(older.name)
        runs.append(self._write(last))
        self._open.pop(bucket.name, None)
        grown = replace(bucket, high=high, runs=tuple(runs))
        self.all[self.all.index(bucket)] = grown
        if flags is not None:
            self.flag(grown, flags)

    def _create(self, rows: StoredRows) -> None:
        """Divide `rows` into new buckets, and write these."""
        order = np.argsort(rows.ticks, kind="stable")
        ticks = rows.ticks[order]
        for start, end in intervals(ticks):
            chosen = rows.take(np.sort(order[start:end]))
            run = self._write(chosen.table)
            bucket = RowBucket(int(ticks[start]), int(ticks[end - 1]), run.name, (run,))
            self.all.append(bucket)
            self._open[bucket.name] = chosen
            if chosen.flags.any():
                self.flag(bucket, chosen.flags)

    def flag(self, bucket: RowBucket, flags: np.ndarray) -> None:
        """Write the flags of all rows of `bucket`."""
        content = np.packbits(flags).tobytes()
        self._changes[_flags_of(bucket)] = content
        if bucket.name in self._open:
            self._open[bucket.name] = replace(self._open[bucket.name], flags=flags)
        raised = int(np.count_nonzero(flags))
        self.all[self.all.index(bucket)] = replace(bucket, flags=len(content), raised=raised)

    def cut(self, limit: int, *, wanted: bool) -> list[StoredRows]:
        """Remove the rows with times before `limit`, and return them if `wanted` is true."""
        removed = []
        for bucket in [b for b in self.all if b.low < limit]:
            if not wanted and bucket.high < limit:
                self._delete(bucket)
                continue
            rows = self.read(bucket)
            self._delete(bucket)
            stays = rows.ticks >= limit
            if stays.any():
                self._create(rows.where(stays))
            if wanted:
                removed.append(rows.where(~stays))
        self.all.sort(key=lambda b: b.low)
        return removed

    def _write(self, table: pa.Table) -> Segment:
        content = packed(table.combine_chunks())
        name = f"rows/{self.port}/{self._next}"
        self._next += 1
        self._changes[name] = content
        return Segment(name, len(table), len(content))

    def _drop(self, name: str) -> None:
        if name in self._state:
            self._changes[name] = None
        else:
            self._changes.pop(name, None)

    def _delete(self, bucket: RowBucket) -> None:
        self.all.remove(bucket)
        self._open.pop(bucket.name, None)
        for run in bucket.runs:
            self._drop(run.name)
        if bucket.flags:
            self._drop(_flags_of(bucket))


def _concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all tables; rows have NULL in the hidden columns that they lack."""
    return pa.concat_tables(tables, promote_options="default")


def _flags_of(bucket: RowBucket) -> str:
    return f"{bucket.name}/flags"


def intervals(ticks: np.ndarray) -> list[tuple[int, int]]:
    """Divide sorted `ticks` into buckets of about `TARGET_ROWS` rows; return indices [start, end).

    >>> intervals(np.array([3, 3, 8]))
    [(0, 3)]
    """
    starts = _changes(ticks)
    new = np.diff(starts // TARGET_ROWS, prepend=-1) != 0
    return list(pairwise([*starts[new].tolist(), len(ticks)]))


def _changes(values: np.ndarray) -> np.ndarray:
    """Return the index at which each distinct value first occurs in sorted `values`."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1]))
