"""Rows without a partner that leave little by little (OOP 6).

A row that no partner can meet any more moves from the rows that join to those that wait: what joins
with what is decided without it. Its keys and its time say in which slice it is, and so how far the
other side's mark must be beyond the last partner it could have had: it is *due* at `last(t) + lag`.
Those that wait are stored by when they are due, so the mark takes them from the front, whatever
slice they are of.

Keys alone would not spread them: rows without a key never meet a partner, and are all of one key.

A *lazy* flush lets them wait while there is room; then those leave that are due first.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from lowwater.kernels.bands import MAX, MIN
from lowwater.kernels.groups import group_rows, normal_floats, shard_of
from lowwater.kernels.joining import JoinEpoch
from lowwater.kernels.joins import OTHER, SELF, JoinPlan
from lowwater.kernels.row_buckets import Kept, RowBuckets
from lowwater.kernels.row_epoch import Arrivals
from lowwater.kernels.rows import TICK
from lowwater.windows import FOREVER

AT = "__at"
"""Where a row lies that is stored by when it is due."""
_MANY = 1 << 31


class SmoothJoinEpoch(JoinEpoch):
    """An epoch of a join whose rows without a partner wait for their turn."""

    def __init__(self, plan: JoinPlan, shard: int, state: Mapping[str, bytes]) -> None:
        super().__init__(plan, shard, state, more_stores=plan.ports)
        self._waiting = self.stores[plan.ports :]

    def advance(self, arrivals: list[Arrivals], marks: list[int | None]) -> None:
        """Join, let go what is due, and what there is no room for."""
        super().advance(arrivals, marks)
        self._make_room()

    def leave(self, port: int, rows: Kept) -> None:
        """Let rows wait for their turn, and give out those whose turn it is."""
        mark, waiting = self.marks[1 - port], self._waiting[port]
        due_from = MIN if mark is None else mark
        due = due_at(self.plan, port, rows)
        now = due < due_from
        free = [_freed(r) for r in waiting.cut(due_from, wanted=True)]
        waiting.add(_held(rows.where(~now), due[~now]))
        super().leave(port, Kept.together([*free, rows.where(now)]))

    def _make_room(self) -> None:
        """Give out what waits, that which is due first, while more is kept than there is room."""
        smooth = self.plan.smooth
        if smooth is None or smooth.room is None:
            return
        room = smooth.room // self.plan.shards
        for port in (SELF, OTHER):
            excess = sum(store.rows for store in self.stores) - room
            if excess > 0 and self._waiting[port].rows:
                found = self._waiting[port].cut(_end_of(self._waiting[port], excess), wanted=True)
                super().leave(port, Kept.together([_freed(r) for r in found]))


def due_at(plan: JoinPlan, port: int, rows: Kept) -> np.ndarray:
    """Return when each row is due: as soon as the other side's mark is beyond that time."""
    lag = np.array(plan.lags(port), np.int64)[_slice(plan, port, rows)]
    # The end of the stream lets go everything, however far ahead it is.
    last = np.minimum(plan.reaches[port].last(rows.ticks), FOREVER - 1)
    return np.asarray(np.minimum(last + lag, FOREVER - 1))


def _slice(plan: JoinPlan, port: int, rows: Kept) -> np.ndarray:
    """Return in which slice each row is. It does not depend on how rows are cut into epochs."""
    columns = [rows.table.column(key).combine_chunks() for key in plan.shard_keys[port]]
    keys = [normal_floats(c) if pa.types.is_floating(c.type) else c for c in columns]
    code, first = group_rows(keys, len(rows))
    some = pa.array(first)
    mixed = shard_of([k.take(some) for k in keys], len(first), _MANY)[code]
    return shard_of([pa.array(mixed), pa.array(rows.ticks)], len(rows), len(plan.lags(port)))


def _held(rows: Kept, due: np.ndarray) -> Kept:
    """Return rows as they are stored by when they are due."""
    table = rows.table.append_column(AT, pa.array(rows.ticks))
    return Kept.of(table.set_column(table.column_names.index(TICK), TICK, pa.array(due)))


def _freed(rows: Kept) -> Kept:
    """Return rows as they were before they waited."""
    at = rows.table.column(AT)
    table = rows.table.drop_columns([AT])
    return Kept.of(table.set_column(table.column_names.index(TICK), TICK, at))


def _end_of(store: RowBuckets, count: int) -> int:
    """Return the time before which the first `count` rows of a store lie."""
    for bucket in store.all:
        if count <= bucket.rows:
            return int(np.sort(store.read(bucket).ticks)[count - 1]) + 1
        count -= bucket.rows
    return MAX
