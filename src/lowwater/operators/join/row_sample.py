"""A sample of the rows of one side of a join, to count the pairs that are made and lost.

The sample is bounded, however long the stream is. Each row has a hash of its key and its time, and
a *level*: a row of level k is in the sample if its hash is below 2^-k of all hashes, so it stands
for 2^k rows. If the sample grows too large, levels rise: a row whose last partner passed twice as
long ago as that of another one has a level above it. So the estimated number of pairs has no bias,
counts stay whole numbers, and few rows stand for the distant past, with which few late rows join.
Rows that may still have partners are all in the sample, unless there are too many of them.

A row is a column of whole numbers, and its key is a hash. So a sample is read, searched and
written without Arrow, and an epoch only reads the rows near the times of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.operators.group_codes import group_rows, hashes_of, normal_floats, whole
from lowwater.operators.join.plan import JoinPlan
from lowwater.operators.row_store import RowStore
from lowwater.ticks import END, FIRST_TICK

MOST = 4_096
"""The largest number of rows in the sample of one side in one shard."""
FRESH = 1_024
"""The largest number of rows of one epoch in it, but for chance."""
BITS = 63
"""The number of bits of a hash."""
HIGHEST = 30
"""The highest level; rows that would need a higher one are forgotten."""
FORGOTTEN = HIGHEST + 1
_ROW = 4 * 8
"""The bytes of a row."""


@dataclass(frozen=True)
class KeyedRows:
    """Rows of one side; `keys` are equal for rows with equal keys.

    - `own`: The slack that each row needed in order not to be late.
    - `late`: Whether a row was late, so that it formed no pair.
    - `level`: The level of each row; None if all have level 0.
    - `met`: Whether a row can lose no more pairs, because the result of an anti join is right for
      it; None if all can.
    """

    keys: np.ndarray
    ticks: np.ndarray
    own: np.ndarray
    late: np.ndarray
    level: np.ndarray | None = None
    met: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ticks)

    @property
    def stands(self) -> np.ndarray:
        """How many rows each row stands for."""
        if self.level is None:
            return np.ones(len(self), np.int64)
        return np.asarray(np.left_shift(np.int64(1), self.level))

    def take(self, chosen: np.ndarray) -> KeyedRows:
        """Return the rows with these indices, or in this mask."""
        level = None if self.level is None else self.level[chosen]
        met = None if self.met is None else self.met[chosen]
        own, late = self.own[chosen], self.late[chosen]
        return KeyedRows(self.keys[chosen], self.ticks[chosen], own, late, level, met)

    def useful(self, limit: int) -> KeyedRows:
        """Return the rows that may still count, if no row before `limit` gets a partner."""
        if self.met is None:
            return self
        done = self.met & (self.ticks < limit)
        return self.take(~done) if done.any() else self

    @classmethod
    def together(cls, parts: Sequence[KeyedRows]) -> KeyedRows:
        """Return the rows of all `parts`."""
        if len(parts) == 1:
            return parts[0]
        levels = (np.zeros(len(p), np.int64) if p.level is None else p.level for p in parts)
        met = [np.zeros(len(p), bool) if p.met is None else p.met for p in parts]
        return cls(
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.ticks for part in parts]),
            np.concatenate([part.own for part in parts]),
            np.concatenate([part.late for part in parts]),
            np.concatenate([*levels]),
            None if all(part.met is None for part in parts) else np.concatenate(met),
        )

    def to_bytes(self) -> bytes:
        """Return the rows as bytes."""
        level = 0 if self.level is None else self.level
        met = 0 if self.met is None else self.met
        flags = np.asarray(4 * level + 2 * met + self.late, np.int64)
        return np.stack([self.keys, self.ticks, self.own, flags]).astype("<i8").tobytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> KeyedRows:
        """Return the rows that `to_bytes` wrote."""
        keys, ticks, own, flags = np.frombuffer(content, "<i8").reshape(4, -1)
        met = (flags & 2) > 0
        return cls(keys, ticks, own, (flags & 1) > 0, flags >> 2, met if met.any() else None)


def row_keys(plan: JoinPlan, port: int, table: pa.Table) -> np.ndarray:
    """Return a whole number for the key of each row; equal keys have equal numbers.

    As in Spark, NaN equals NaN and −0.0 equals 0.0.
    """
    columns = []
    for pair in plan.on:
        column, kind = whole(table.column(pair[port])), plan.key_type(pair)
        column = column if column.type == kind else column.cast(kind)
        columns.append(normal_floats(column) if pa.types.is_floating(kind) else column)
    integers = all(pa.types.is_integer(column.type) for column in columns)
    if integers and len(columns) == 1:
        column = columns[0].fill_null(0) if columns[0].null_count else columns[0]
        return np.asarray(column).astype(np.int64)
    if not integers:
        # Texts are hashed one by one: once for each group.
        code, first = group_rows(columns, len(table))
        groups = hashes_of([column.take(pa.array(first)) for column in columns], len(first))
        return np.asarray(groups.view(np.int64)[code])
    return hashes_of(columns, len(table)).view(np.int64)


def thinned(rows: KeyedRows, limit: int, most: int) -> KeyedRows:
    """Return at most `most` of the rows of a sample, with new levels.

    Rows of age b or less keep their level; those of age up to 2 b have at least level 1, those of
    age up to 4 b level 2, and so on. b is as long as possible. The age is the distance to `limit`,
    the time before which rows have no partners any more.
    """
    level = np.zeros(len(rows), np.int64) if rows.level is None else rows.level
    drawn = _drawn(rows)
    top = limit if limit < END else int(rows.ticks.max(initial=FIRST_TICK))
    age = np.log2(np.maximum(top - rows.ticks.astype(np.float64), 0.0) + 1.0)
    base = float(np.ceil(age.max(initial=0.0)))
    while True:
        raised = np.maximum(level, np.ceil(np.maximum(age - base, 0.0)).astype(np.int64))
        raised = np.minimum(raised, FORGOTTEN)
        kept = (drawn >> (BITS - raised) == 0) & (raised <= HIGHEST)
        if int(kept.sum()) <= most:
            break
        base -= 1.0
    return replace(rows, level=raised).take(kept)


def _drawn(rows: KeyedRows) -> np.ndarray:
    """Return the hash of the key and the time of each row, of `BITS` bits."""
    hashes = hashes_of([pa.array(rows.keys), pa.array(rows.ticks)], len(rows))
    return (hashes >> np.uint64(64 - BITS)).astype(np.int64)


def sampled(rows: KeyedRows) -> KeyedRows:
    """Return some of the new rows of an epoch, all with one level: 0 unless they are too many."""
    level = max(0, ceil(log2(max(len(rows), 1) / min(FRESH, MOST // 2))))
    if not level:
        return rows
    some = rows.take(np.flatnonzero(_drawn(rows) >> (BITS - level) == 0))
    return replace(some, level=np.full(len(some), level, np.int64))


@dataclass(frozen=True)
class Run:
    """Rows of the sample that were written together, with times in [low, high]."""

    name: str
    rows: int
    low: int
    high: int


class SampleStore(RowStore):
    """The sample of one side in the state of a shard. Its rows do not count as open.

    An epoch appends a run of rows. Runs are merged like the digits of a binary counter.
    """

    open_rows = 0

    def __init__(
        self,
        port: int,
        state: Mapping[str, bytes],
        changes: MutableMapping[str, bytes | None],
        content: Mapping[str, Any] | None,
    ) -> None:
        super().__init__(port, state, changes, None)
        self._next = content["next"] if content else 0
        self.runs = [Run(*run) for run in content["runs"]] if content else []

    @property
    def rows(self) -> int:
        """The number of rows in the sample."""
        return sum(run.rows for run in self.runs)

    @property
    def size(self) -> int:
        """The size of the sample in bytes."""
        return _ROW * self.rows

    def to_json(self) -> dict[str, Any]:
        """Return the index of the runs as JSON."""
        runs = [[run.name, run.rows, run.low, run.high] for run in self.runs]
        return {"next": self._next, "runs": runs}

    def near(self, low: int, high: int) -> KeyedRows | None:
        """Return the rows with times in [low, high]; None if there is none."""
        found = []
        for run in self.runs:
            if run.low <= high and run.high >= low:
                rows = self._read(run)
                if run.low < low or run.high > high:
                    rows = rows.take((rows.ticks >= low) & (rows.ticks <= high))
                if len(rows):
                    found.append(rows)
        return KeyedRows.together(found) if found else None

    def meet(self, low: int, high: int, chosen: np.ndarray) -> None:
        """Note that some rows of `near(low, high)`, those in a mask, can lose no more pairs."""
        at = 0
        for run in self.runs:
            if run.low <= high and run.high >= low:
                rows = self._read(run)
                inside = np.flatnonzero((rows.ticks >= low) & (rows.ticks <= high))
                some, at = inside[chosen[at : at + len(inside)]], at + len(inside)
                if len(some):
                    met = np.zeros(len(rows), bool) if rows.met is None else rows.met.copy()
                    met[some] = True
                    self._changes[run.name] = replace(rows, met=met).to_bytes()

    def include(self, rows: KeyedRows, limit: int) -> None:
        """Add rows of an epoch; `limit` is the time before which rows have no partners any more."""
        if not len(rows):
            return
        runs, parts = list(self.runs), [rows]
        full = self.rows + len(rows) > MOST
        while runs and (full or runs[-1].rows <= 2 * sum(map(len, parts))):
            older = runs.pop()
            parts.insert(0, self._read(older))
            self._drop(older.name)
        every = KeyedRows.together(parts).useful(limit)
        if full:
            every = thinned(every, limit, MOST // 2)
        if len(every):
            name = f"sample/{self.port}/{self._next}"
            self._next += 1
            self._changes[name] = every.to_bytes()
            low, high = int(every.ticks.min()), int(every.ticks.max())
            runs.append(Run(name, len(every), low, high))
        self.runs = runs

    def clear(self) -> None:
        """Forget all rows: the streams have ended."""
        for run in self.runs:
            self._drop(run.name)
        self.runs = []

    def _read(self, run: Run) -> KeyedRows:
        return KeyedRows.from_bytes(self._bytes(run.name))
