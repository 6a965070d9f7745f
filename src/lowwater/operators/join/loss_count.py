"""Observers of a join: the count of pairs that late rows have missed.

Once rows arrive out of order, the join remembers evicted rows in state a while longer, only to
count the pairs that late rows would have formed with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from lowwater.operators.join.band import open_from
from lowwater.operators.join.match import JoinSides, SortedRows, has_keys, key_codes, reached
from lowwater.operators.join.ordered_plan import OrderedJoinPlan
from lowwater.operators.join.plan import OTHER, SELF, JoinPlan
from lowwater.operators.row_kernel import PortRows, RowKernel
from lowwater.operators.row_store import RowStore, StoredRows
from lowwater.ticks import END, FIRST_TICK


class _Memory:
    """The base class of join observers; rows are remembered only if `kernel.noted` has entries."""

    plan: JoinPlan

    def __init__(self, kernel: RowKernel, plan: JoinPlan) -> None:
        self.kernel, self.plan = kernel, plan

    def limit(self, limit: int) -> int:
        """Return the time before which rows are deleted: `limit` minus the time to remember."""
        if limit >= END or not self.kernel.noted:
            return limit
        return max(limit - self.plan.remember, FIRST_TICK)

    def near(self, store: RowStore, port: int, partners: StoredRows) -> list[StoredRows]:
        """Return the rows of side `port` in `store` that may join with `partners`."""
        return [store.read(b) for b in reached(store.all, self.plan.reaches[port], partners.ticks)]


class JoinObserver(_Memory):
    """A join observer that measures nothing."""

    stores: ClassVar[tuple[type[RowStore], ...]] = ()
    """The types of the stores that the observer adds to the stores of the ports."""

    def arrive(self, arrivals: list[PortRows]) -> None:
        """Called first in an epoch, with the rows of both ports."""

    def partners(self, port: int, stored: list[StoredRows]) -> list[StoredRows]:
        """Return the rows of `stored` that may still join: all rows, since none is remembered."""
        return stored

    def finish(self, limits: Sequence[int]) -> None:
        """Called last in an epoch, with the time before which rows of each side are evicted."""


class LossCount(JoinObserver):
    """An observer that counts the pairs of an inner join that late rows have missed.

    A pair is `lost` if one of its rows was late, or was evicted before the other row arrived. The
    count is exact for partners that are remembered. A row that may have lost pairs with partners
    that are forgotten is counted as `unseen`.
    """

    stores: ClassVar[tuple[type[RowStore], ...]] = (RowStore, RowStore)

    def __init__(self, kernel: RowKernel, plan: JoinPlan) -> None:
        super().__init__(kernel, plan)
        kernel.counts |= {"lost": 0, "unseen": 0}
        self.late_stores = kernel.stores[plan.ports :]
        """The stores of the late rows of each side."""

    def arrive(self, arrivals: list[PortRows]) -> None:
        """Count the pairs that late rows, new or stored, have missed."""
        kernel = self.kernel
        if not kernel.noted and any(rows.out_of_order for rows in arrivals):
            # Evicted rows are remembered from now on; rows evicted earlier are unknown.
            kernel.noted = {"since": [self._evicted(port) for port in (SELF, OTHER)]}
        if kernel.noted:
            self._count_lost([self._keyed(port, rows) for port, rows in enumerate(arrivals)])

    def finish(self, limits: Sequence[int]) -> None:
        """Delete the stored late rows of each side with times before the limit of the side."""
        if self.kernel.noted:
            for store, limit in zip(self.late_stores, limits, strict=True):
                store.cut(limit, wanted=False)

    def _evicted(self, port: int) -> int:
        """Return the time before which the watermark of `port` evicted rows of the other side."""
        return open_from(self.plan.reaches[port].inverse, self.kernel.watermarks[port])

    def _keyed(self, port: int, rows: PortRows) -> StoredRows:
        """Return the new rows of side `port` that have no NULL key; late rows are flagged."""
        late = rows.dead | (self.plan.reaches[port].last(rows.ticks) < self._evicted(port))
        return rows.stored(has_keys(self.plan, port, rows.table), late)

    def _count_lost(self, fresh: list[StoredRows]) -> None:
        """Count as lost the pairs of a new and an evicted row, and the pairs with a late row."""
        kernel, plan = self.kernel, self.plan
        for port, rows in enumerate(fresh):
            reach, evicted, other = plan.reaches[port], self._evicted(port), 1 - port
            behind = rows.where(rows.flags | (reach.first(rows.ticks) < evicted))
            if len(behind):
                known = max(evicted - plan.remember, kernel.noted["since"][port])
                kernel.counts["unseen"] += int((reach.first(behind.ticks) < known).sum())
                stored = self.near(kernel.stores[other], other, behind)
                self._add_pairs(port, behind, [s.where(s.ticks < evicted) for s in stored])
            if self.late_stores[other].rows and len(rows):
                self._add_pairs(port, rows, self.near(self.late_stores[other], other, rows))
        mine, theirs = fresh
        if mine.flags.any():
            self._add_pairs(SELF, mine.where(mine.flags), [theirs])
        if theirs.flags.any():
            self._add_pairs(OTHER, theirs.where(theirs.flags), [mine.where(~mine.flags)])
        for store, rows in zip(self.late_stores, fresh, strict=True):
            store.add(rows.where(rows.flags))

    def _add_pairs(self, port: int, rows: StoredRows, partners: list[StoredRows]) -> None:
        """Count as lost the pairs of `rows` (of side `port`) and `partners` (of the other side)."""
        if not sum(map(len, partners)):
            return
        others, reach = StoredRows.together(partners), self.plan.reaches[port]
        others = others.where(has_keys(self.plan, 1 - port, others.table))
        sides = (rows, others) if port == SELF else (others, rows)
        codes = np.split(key_codes(self.plan, *(s.table for s in sides)), [len(sides[SELF])])
        by_time = SortedRows(codes[1 - port], others.ticks, np.arange(len(others)))
        start, end = by_time.between(codes[port], reach.first(rows.ticks), reach.last(rows.ticks))
        self.kernel.counts["lost"] += int((end - start).sum())

    def partners(self, port: int, stored: list[StoredRows]) -> list[StoredRows]:
        """Return the rows of `stored` that may still join, without remembered evicted rows."""
        if not self.kernel.noted:
            return stored
        limit = self._evicted(1 - port)
        return [rows.where(rows.ticks >= limit) for rows in stored]


class OrderedJoinObserver(_Memory):
    """An observer that measures nothing, for a join in order of time."""

    plan: OrderedJoinPlan

    def arrive(self, arrivals: list[PortRows], fresh: list[StoredRows], watermark: int) -> None:
        """Called before new rows are stored; `watermark` is the watermark of the results."""

    def finish(self) -> None:
        """Called last in an epoch."""


class OrderedLossCount(OrderedJoinObserver):
    """An observer that counts every pair as `made` or `lost` when the second of its rows arrives.

    A count of emitted pairs would mislead: while the slack grows, the watermark does not move and
    the join emits no pairs, but late rows still lose pairs. Once rows arrive out of order, the join
    remembers evicted rows for this count. A late row that may have lost pairs with forgotten rows
    is counted as `unseen`. So is a row that is late only because of consistent slack.
    """

    def __init__(self, kernel: RowKernel, plan: OrderedJoinPlan) -> None:
        super().__init__(kernel, plan)
        kernel.counts |= {"made": 0, "lost": 0, "unseen": 0}

    def arrive(self, arrivals: list[PortRows], fresh: list[StoredRows], watermark: int) -> None:
        """Count the pairs of new rows: pairs before `watermark` as lost, other pairs as made."""
        kernel = self.kernel
        if not kernel.noted:
            if not any(rows.out_of_order for rows in arrivals):
                return
            # Evicted rows are remembered from now on; rows evicted earlier are unknown.
            since = [self.plan.kept_from(port, watermark) for port in (SELF, OTHER)]
            kernel.noted = {"since": since}
            both = [[store.read(b) for b in store.all] for store in kernel.stores]
            self._count(both[SELF], both[OTHER], watermark)
        kernel.counts["unseen"] += sum(int(rows.dead.sum()) for rows in arrivals)
        for port, rows in enumerate(fresh):
            kernel.counts["unseen"] += self._unseen(port, rows, watermark)
        mine, theirs = fresh
        stored = self.near(kernel.stores[OTHER], OTHER, mine)
        self._count([mine], [*stored, theirs], watermark)
        self._count(self.near(kernel.stores[SELF], SELF, theirs), [theirs], watermark)

    def _unseen(self, port: int, fresh: StoredRows, watermark: int) -> int:
        """Return the number of new rows that may have lost pairs with forgotten rows."""
        behind = self.plan.results_of(port, fresh.ticks)[0] < watermark
        limit = self.limit(self.plan.kept_from(1 - port, watermark))
        known = max(limit, self.kernel.noted["since"][1 - port])
        return int((behind & (self.plan.reaches[port].first(fresh.ticks) < known)).sum())

    def _count(self, mine: list[StoredRows], theirs: list[StoredRows], watermark: int) -> None:
        """Count pairs of `mine` and `theirs`: pairs before `watermark` as lost, others as made."""
        if not sum(map(len, mine)) or not sum(map(len, theirs)):
            return
        sides = JoinSides.of(self.plan, StoredRows.together(mine), StoredRows.together(theirs))
        for word, since, until in (("lost", FIRST_TICK, watermark), ("made", watermark, END)):
            if since < until:
                _, start, end = sides.met(self.plan, since, until)
                self.kernel.counts[word] += int((end - start).sum())

    def finish(self) -> None:
        """Count all results as made, as long as no row has arrived out of order."""
        if not self.kernel.noted:
            self.kernel.counts["made"] = self.kernel.counts["results"]
