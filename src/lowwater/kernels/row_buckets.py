"""Rows in state, by time: how operators that keep whole rows keep them.

A bucket holds the rows of a stretch of time, `[low, high]`; buckets do not overlap, and no time is
cut in two. An epoch appends a *run* of rows to the buckets its rows fall into and reads only the
buckets it asks for. Runs are merged like the digits of a binary counter, so each row is rewritten a
logarithmic number of times, however thinly late rows are scattered over what is kept. Rows of equal
time lie in order of arrival.

Each row may have a flag. Flags lie apart from the rows: to raise one rewrites no row.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.kernels.packets import packed, unpacked
from lowwater.kernels.rows import TICK

TARGET_ROWS = 16_384


@dataclass(frozen=True)
class Run:
    """Rows that were written together."""

    name: str
    rows: int
    size: int


@dataclass(frozen=True)
class RowBucket:
    """A stretch of time in state; `flags` is the size of what its flags take up.

    Flags are `raised` for so many rows. Of the others so many have `left`, where they queue.
    """

    low: int
    high: int
    name: str
    runs: tuple[Run, ...]
    flags: int = 0
    raised: int = 0
    left: int = 0

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(r.rows for r in self.runs)

    @property
    def size(self) -> int:
        """How many bytes they take up."""
        return sum(r.size for r in self.runs) + self.flags

    def to_json(self) -> list[Any]:
        """Return what to remember of the bucket."""
        runs = [[r.name, r.rows, r.size] for r in self.runs]
        return [self.low, self.high, self.name, runs, self.flags, self.raised, self.left]

    @classmethod
    def from_json(cls, kept: list[Any]) -> RowBucket:
        """Read what `to_json` wrote."""
        low, high, name, runs, *counts = kept
        return cls(low, high, name, tuple(Run(*r) for r in runs), *counts)


@dataclass(frozen=True)
class Kept:
    """Rows with their ticks and flags."""

    table: pa.Table
    ticks: np.ndarray
    flags: np.ndarray

    @classmethod
    def of(cls, table: pa.Table, flags: np.ndarray | None = None) -> Kept:
        """Take rows that carry their ticks."""
        ticks = table.column(TICK).to_numpy()
        return cls(table, ticks, np.zeros(len(ticks), bool) if flags is None else flags)

    def __len__(self) -> int:
        return len(self.ticks)

    def take(self, index: np.ndarray) -> Kept:
        """Return the rows at `index`."""
        return Kept(self.table.take(pa.array(index)), self.ticks[index], self.flags[index])

    def where(self, mask: np.ndarray) -> Kept:
        """Return the rows that a mask chooses."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def in_order(self) -> Kept:
        """Return the rows by (tick, arrival)."""
        if (self.ticks[:-1] <= self.ticks[1:]).all():
            return self
        return self.take(np.argsort(self.ticks, kind="stable"))

    @classmethod
    def together(cls, parts: list[Kept]) -> Kept:
        """Return several as one."""
        if len(parts) == 1:
            return parts[0]
        table = pa.concat_tables([p.table for p in parts]).combine_chunks()
        ticks = np.concatenate([p.ticks for p in parts])
        return cls(table, ticks, np.concatenate([p.flags for p in parts]))


class RowBuckets:
    """The rows of one port of one shard.

    Reads from `state` what it is asked for and writes what becomes of it to `changes`.
    """

    def __init__(
        self,
        port: int,
        state: Mapping[str, bytes],
        changes: MutableMapping[str, bytes | None],
        kept: Mapping[str, Any] | None,
    ) -> None:
        self.port, self._state, self._changes = port, state, changes
        self._next: int = kept["next"] if kept else 0
        self.all = [RowBucket.from_json(b) for b in kept["buckets"]] if kept else []
        self._open: dict[str, Kept] = {}

    def to_json(self) -> dict[str, Any]:
        """Return what to remember of the buckets."""
        return {"next": self._next, "buckets": [b.to_json() for b in self.all]}

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(b.rows for b in self.all)

    @property
    def size(self) -> int:
        """How many bytes they take up."""
        return sum(b.size for b in self.all)

    # -- reading -------------------------------------------------------------------------------

    def read(self, bucket: RowBucket) -> Kept:
        """Return the rows of a bucket, those of equal time in order of arrival."""
        if bucket.name not in self._open:
            table = pa.concat_tables(unpacked(self._bytes(r.name)) for r in bucket.runs)
            self._open[bucket.name] = Kept.of(table, self._flags(bucket))
        return self._open[bucket.name]

    def _flags(self, bucket: RowBucket) -> np.ndarray:
        flags = np.zeros(bucket.rows, bool)
        if bucket.flags:
            bits = np.frombuffer(self._bytes(_flags_of(bucket)), np.uint8)
            # A run that came after the flags were written has none raised.
            known = np.unpackbits(bits)[: bucket.rows]
            flags[: len(known)] = known
        return flags

    def _bytes(self, name: str) -> bytes:
        content = self._changes.get(name)
        return self._state[name] if content is None else content

    # -- writing -------------------------------------------------------------------------------

    def add(self, rows: Kept) -> None:
        """Take in rows, which arrived after all that are there."""
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
            came = rows.take(np.sort(order[start:end]))
            if home[start] >= 0:
                self._append(known[home[start]], came)
            else:
                self._create(came)
        self.all.sort(key=lambda b: b.low)

    def _homes(self, ticks: np.ndarray) -> np.ndarray:
        """Return which bucket takes each time: the one around or, unless full, before it."""
        if not self.all:
            return np.full(len(ticks), -1)
        before = np.searchsorted([b.low for b in self.all], ticks, "right") - 1
        high = np.array([b.high for b in self.all])
        full = np.array([b.left > 0 or b.rows >= TARGET_ROWS for b in self.all])
        taken = (before >= 0) & ((ticks <= high[before]) | ~full[before])
        return np.where(taken, before, -1)

    def _append(self, bucket: RowBucket, rows: Kept) -> None:
        if bucket.rows + len(rows) > 2 * TARGET_ROWS and bucket.low < max(
            bucket.high, int(rows.ticks.max())
        ):
            whole = Kept.together([self.read(bucket), rows])
            self._delete(bucket)
            self._create(whole)
            return
        flags = np.append(self._flags(bucket), rows.flags) if rows.flags.any() else None
        runs, last = list(bucket.runs), rows.table
        while runs and runs[-1].rows <= 2 * len(last):
            older = runs.pop()
            last = pa.concat_tables([unpacked(self._bytes(older.name)), last])
            self._drop(older.name)
        runs.append(self._write(last))
        high = max(bucket.high, int(rows.ticks.max()))
        self._open.pop(bucket.name, None)
        grown = replace(bucket, high=high, runs=tuple(runs))
        self.all[self.all.index(bucket)] = grown
        if flags is not None:
            self.flag(grown, flags)

    def _create(self, rows: Kept) -> None:
        """Cut rows into new buckets."""
        order = np.argsort(rows.ticks, kind="stable")
        ticks = rows.ticks[order]
        for start, end in stretches(ticks):
            chosen = rows.take(np.sort(order[start:end]))
            run = self._write(chosen.table)
            bucket = RowBucket(int(ticks[start]), int(ticks[end - 1]), run.name, (run,))
            self.all.append(bucket)
            self._open[bucket.name] = chosen
            if chosen.flags.any():
                self.flag(bucket, chosen.flags)

    def flag(self, bucket: RowBucket, flags: np.ndarray) -> None:
        """Write the flags of a bucket's rows."""
        content = np.packbits(flags).tobytes()
        self._changes[_flags_of(bucket)] = content
        if bucket.name in self._open:
            self._open[bucket.name] = replace(self._open[bucket.name], flags=flags)
        raised = int(np.count_nonzero(flags))
        self.all[self.all.index(bucket)] = replace(bucket, flags=len(content), raised=raised)

    def cut(self, limit: int, *, wanted: bool) -> list[Kept]:
        """Remove the rows before `limit`, and return them if they are wanted."""
        removed = []
        for bucket in [b for b in self.all if b.low < limit]:
            if not wanted and bucket.high < limit:
                self._delete(bucket)
                continue
            rows = self.read(bucket)
            self._delete(bucket)
            kept = rows.ticks >= limit
            if kept.any():
                self._create(rows.where(kept))
            if wanted:
                removed.append(rows.where(~kept))
        self.all.sort(key=lambda b: b.low)
        return removed

    def _write(self, table: pa.Table) -> Run:
        content = packed(table.combine_chunks())
        name = f"rows/{self.port}/{self._next}"
        self._next += 1
        self._changes[name] = content
        return Run(name, len(table), len(content))

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


def _flags_of(bucket: RowBucket) -> str:
    return f"{bucket.name}/flags"


def stretches(ticks: np.ndarray) -> list[tuple[int, int]]:
    """Cut sorted ticks into stretches [start, end) of about `TARGET_ROWS`, none within a tick.

    >>> stretches(np.array([3, 3, 8]))
    [(0, 3)]
    """
    starts = _changes(ticks)
    new = np.diff(starts // TARGET_ROWS, prepend=-1) != 0
    return list(pairwise([*starts[new].tolist(), len(ticks)]))


def _changes(values: np.ndarray) -> np.ndarray:
    """Return where sorted values begin to be others."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1]))
