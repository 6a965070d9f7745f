"""What late rows cost, measured where it is seen: the kernels' part in the quality tracker.

A window aggregate knows how many rows each window had when it closed, and which windows a late row
missed. Once rows come out of order, a join keeps those it has let go for a while longer, only to
count the pairs that late rows would have made with them (semantics 26).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.aggregates import spread
from lowwater.kernels.aggregate import WindowEpoch
from lowwater.kernels.bands import MIN
from lowwater.kernels.closing import Closed
from lowwater.kernels.groups import group_rows
from lowwater.kernels.joined import has_keys, key_codes
from lowwater.kernels.joining import JoinEpoch
from lowwater.kernels.joins import OTHER, SELF, JoinPlan
from lowwater.kernels.matching import Sorted, reached
from lowwater.kernels.plan import WindowPlan
from lowwater.kernels.row_buckets import Kept, RowBuckets
from lowwater.kernels.row_epoch import Arrivals
from lowwater.kernels.rows import LATE_DEGREE
from lowwater.windows import FOREVER

__all__ = ["TrackedJoinEpoch", "TrackedWindowEpoch"]


class TrackedWindowEpoch(WindowEpoch):
    """An epoch that tells the rows of windows that closed, and the rows that missed one.

    By window, or all of them under one; where sources close groups, also by source.
    """

    def __init__(self, plan: WindowPlan, shard: int, state: Mapping[str, bytes]) -> None:
        super().__init__(plan, shard, state)
        self.told |= {"closed": [], "missed": [], "closed_of": [], "missed_of": []}

    def note_closed(self, closed: Closed, keys: pa.Table) -> None:
        """Count the rows of windows, over all groups."""
        rows = closed.parts[0].arrays[0]
        if self.plan.sources_close_groups:
            of_group = np.bincount(closed.code, rows, minlength=len(keys))
            self.told["closed_of"] += self._by_source(keys, of_group)
        if self.plan.tracked == "windows":
            self.told["closed"] += _by_window(closed.wid, rows)
        else:
            self.told["closed"].append([int(closed.wid[0]), int(rows.sum())])

    def note_missed(self, first: np.ndarray, until: np.ndarray, rows: pa.Table) -> None:
        """Count the rows that windows would have had, `first` to `until` of each row."""
        if self.plan.sources_close_groups:
            self.told["missed_of"] += self._by_source(rows, until - first)
        if self.plan.tracked == "windows":
            wid, _ = spread(first, until)
            self.told["missed"] += _by_window(wid, np.ones_like(wid))
        else:
            self.told["missed"].append([int(first[0]), int((until - first).sum())])

    def _by_source(self, table: pa.Table, rows: np.ndarray) -> list[list[Any]]:
        """Add up rows by the source that each line of a table belongs to."""
        column = table.column(self.plan.source).combine_chunks()
        codes, chosen = group_rows([column], len(column))
        names = column.take(pa.array(chosen)).to_pylist()
        counts = np.bincount(codes, rows, minlength=len(names)).tolist()
        return [[name, int(n)] for name, n in zip(names, counts, strict=True) if n]


def _by_window(wid: np.ndarray, rows: np.ndarray) -> list[list[int]]:
    """Add up rows by window."""
    if not len(wid):
        return []
    first = int(wid.min())
    if int(wid.max()) - first > 4 * len(wid):  # windows far apart
        found, at = np.unique(wid, return_inverse=True)
        counts = np.bincount(at, rows)
    else:
        counts = np.bincount(wid - first, rows)
        found = first + np.flatnonzero(counts)
        counts = counts[found - first]
    return [[w, int(n)] for w, n in zip(found.tolist(), counts.tolist(), strict=True)]


class TrackedJoinEpoch(JoinEpoch):
    """An epoch of an inner join that counts the pairs which late rows have missed.

    Pairs are `lost` that a row makes with one that was let go before it came, and all pairs of a
    row that was wholly late. They are counted exactly as long as rows are remembered; of a row that
    reaches back further, what it lost beyond is not known (`unseen`).
    """

    def __init__(self, plan: JoinPlan, shard: int, state: Mapping[str, bytes]) -> None:
        super().__init__(plan, shard, state, (RowBuckets, RowBuckets))
        self.counts |= {"lost": 0, "unseen": 0}
        self.late_stores = self.stores[plan.ports :]
        """The rows of each side that came too late to take part."""

    def advance(self, arrivals: list[Arrivals], marks: list[int | None]) -> None:
        """Count what late rows have missed, then join as ever."""
        if not self.noted and any(any_late(rows) for rows in arrivals):
            # Rows that are let go are remembered from here on; those before this are not known.
            self.noted = {"since": [self.purged(port) for port in (SELF, OTHER)]}
        if not self.noted:
            super().advance(arrivals, marks)
            return
        self._count_lost([self._keyed(port, rows) for port, rows in enumerate(arrivals)])
        super().advance(arrivals, marks)
        for port, store in enumerate(self.late_stores):
            store.cut(self.limit(port), wanted=False)

    def _keyed(self, port: int, rows: Arrivals) -> Kept:
        """Return the new rows of a side that can have partners, flagged if they are late."""
        late = rows.dead | (self.plan.reaches[port].last(rows.ticks) < self.purged(port))
        return rows.kept(has_keys(self.plan, port, rows.table), late)

    def _count_lost(self, fresh: list[Kept]) -> None:
        for port, rows in enumerate(fresh):
            reach, purged, other = self.plan.reaches[port], self.purged(port), 1 - port
            behind = rows.where(rows.flags | (reach.first(rows.ticks) < purged))
            if len(behind):
                known = max(purged - self.plan.remember, self.noted["since"][port])
                self.counts["unseen"] += int((reach.first(behind.ticks) < known).sum())
                self._add_pairs(port, behind, self._near(self.stores[other], other, behind, purged))
            if self.late_stores[other].rows and len(rows):
                self._add_pairs(port, rows, self._near(self.late_stores[other], other, rows))
        mine, theirs = fresh
        if mine.flags.any():
            self._add_pairs(SELF, mine.where(mine.flags), [theirs])
        if theirs.flags.any():
            self._add_pairs(OTHER, theirs.where(theirs.flags), [mine.where(~mine.flags)])
        for store, rows in zip(self.late_stores, fresh, strict=True):
            store.add(rows.where(rows.flags))

    def _near(
        self, store: RowBuckets, port: int, partners: Kept, before: int = FOREVER
    ) -> list[Kept]:
        """Return stored rows of a side, of times before a limit, that `partners` may meet."""
        buckets = reached(store.all, self.plan.reaches[port], partners.ticks)
        found = (store.read(b) for b in buckets if b.low < before)
        return [rows.where(rows.ticks < before) for rows in found]

    def _add_pairs(self, port: int, rows: Kept, partners: list[Kept]) -> None:
        """Count the pairs of rows of a side with some of the other as lost."""
        if not sum(map(len, partners)):
            return
        others, reach = Kept.together(partners), self.plan.reaches[port]
        others = others.where(has_keys(self.plan, 1 - port, others.table))
        sides = (rows, others) if port == SELF else (others, rows)
        codes = np.split(key_codes(self.plan, *(s.table for s in sides)), [len(sides[SELF])])
        by_time = Sorted(codes[1 - port], others.ticks, np.arange(len(others)))
        start, end = by_time.between(codes[port], reach.first(rows.ticks), reach.last(rows.ticks))
        self.counts["lost"] += int((end - start).sum())

    def known(self, port: int, stored: list[Kept]) -> list[Kept]:
        """Return stored rows without those that were let go."""
        if not self.noted:
            return stored
        limit = self.purged(1 - port)
        return [rows.where(rows.ticks >= limit) for rows in stored]

    def limit(self, port: int) -> int:
        """Return the time before which rows of a side are deleted: a while after it lets go."""
        found = super().limit(port)
        if found >= FOREVER or not self.noted:
            return found
        return max(found - self.plan.remember, MIN)


def any_late(rows: Arrivals) -> bool:
    """Whether any row is behind one that arrived before it."""
    return len(rows) > 0 and bool(rows.table.column(LATE_DEGREE).chunk(0).to_numpy().max() > 0)
