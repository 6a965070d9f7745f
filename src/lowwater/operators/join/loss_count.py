"""Observers of a join: the counts of pairs by the slack that they needed, lost pairs included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.values import spread
from lowwater.control.measures import Measure, ShardMeasure
from lowwater.operators.batch import TICK
from lowwater.operators.join.band import open_from
from lowwater.operators.join.evicted_sample import LEVEL, EvictedSample, SampleStore, weights
from lowwater.operators.join.match import JoinSides, SortedRows, has_keys, key_codes, reached
from lowwater.operators.join.ordered_plan import OrderedJoinPlan
from lowwater.operators.join.pair_counts import (
    LOST,
    MADE,
    EvictedRows,
    PairCounts,
    count_lost,
    covered,
    summed,
)
from lowwater.operators.join.plan import OTHER, SELF, JoinPlan
from lowwater.operators.row_kernel import PORTION, PortRows, RowKernel
from lowwater.operators.row_store import NEED, RowStore, StoredRows, column_or_zeros
from lowwater.operators.window.scan import slices
from lowwater.ticks import END, FIRST_TICK


class JoinObserver:
    """A join observer that measures nothing."""

    stores: ClassVar[tuple[type[RowStore], ...]] = ()
    """The types of the stores that the observer adds to the stores of the ports."""
    samples_evicted: ClassVar[bool] = False
    """Whether `evict` needs the rows that are evicted."""

    def __init__(self, kernel: RowKernel, plan: JoinPlan) -> None:
        self.kernel, self.plan = kernel, plan

    def arrive(self, arrivals: list[PortRows]) -> None:
        """Called first in an epoch, with the rows of both ports."""

    def admitted(self, port: int, rows: StoredRows) -> StoredRows:
        """Return `rows` of a port, which are not late, with the columns that are measured."""
        return rows

    def made(
        self,
        sides: Sequence[tuple[StoredRows, int]],
        probes: np.ndarray,
        places: tuple[np.ndarray, np.ndarray],
        by_time: SortedRows,
    ) -> None:
        """Called with pairs that are made: rows of self, and the places of their partners.

        A side is its rows, and the number of them that were stored before the epoch. The rows of
        self are all new or all stored; if they are stored, their partners are new.
        """

    def evict(self, port: int, rows: Sequence[StoredRows], limit: int) -> None:
        """Called with the evicted rows of a side, and the time before which rows are evicted."""

    def finish(self) -> None:
        """Called last in an epoch."""

    def measures(self, shard: ShardMeasure) -> Sequence[Measure]:
        """Return the measurements of the epoch, that of the shard as the last one."""
        return [shard]


class LossCount(JoinObserver):
    """An observer that counts the pairs of a join, and the pairs that late rows have missed.

    A pair is lost if one of its rows was late, or was evicted before the other row arrived. Evicted
    and late rows stay in a sample, which counts these pairs without bias.
    """

    stores: ClassVar[tuple[type[RowStore], ...]] = (SampleStore, SampleStore)
    samples_evicted = True

    def __init__(self, kernel: RowKernel, plan: JoinPlan) -> None:
        super().__init__(kernel, plan)
        mine = [store for store in kernel.stores if isinstance(store, SampleStore)]
        self.samples = [
            EvictedSample(store, keys) for store, keys in zip(mine, plan.key_names, strict=True)
        ]
        self.counts = PairCounts(plan, {})
        self._late: list[StoredRows] = []

    def arrive(self, arrivals: list[PortRows]) -> None:
        """Count the pairs that new rows have missed."""
        self.counts = PairCounts(self.plan, self.kernel.newest)
        fresh = [self._keyed(port, rows) for port, rows in enumerate(arrivals)]
        for port, rows in enumerate(fresh):
            self._count_evicted(port, rows)
        self._late = [rows.where(rows.flags) for rows in fresh]
        self._count_late(*fresh)

    def _keyed(self, port: int, rows: PortRows) -> StoredRows:
        """Return the new rows of a side that have no NULL key, with their needs; late are flagged.

        A late row forms no pair: the watermark of its port evicted all its partners.
        """
        reach = self.plan.reaches[port]
        evicted = open_from(reach.inverse, self.kernel.watermarks[port])
        late = rows.dead | (reach.last(rows.ticks) < evicted)
        return self.admitted(port, rows.stored(has_keys(self.plan, port, rows.table), late))

    def admitted(self, port: int, rows: StoredRows) -> StoredRows:
        """Return `rows` with the slack that they needed in order not to be late."""
        needed = pa.array(self.counts.own_need(port, rows.ticks))
        return StoredRows(rows.table.append_column(NEED, needed), rows.ticks, rows.flags)

    def _count_evicted(self, port: int, rows: StoredRows) -> None:
        """Count the pairs of new rows of `port` with rows of the sample of the other side."""
        store = self.samples[1 - port].store
        near = reached(store.all, self.plan.reaches[1 - port], rows.ticks)
        if not near:
            return
        evicted = StoredRows.together([store.read(bucket) for bucket in near])
        ways = EvictedRows.of(evicted, weights(evicted))
        count_lost(self.counts, port, rows.ticks, ways, _found(self.plan, port, rows, evicted))

    def _count_late(self, mine: StoredRows, theirs: StoredRows) -> None:
        """Count the pairs of new rows of both sides of which at least one is late."""
        for port, late, others in (
            (SELF, mine.where(mine.flags), theirs),
            (OTHER, theirs.where(theirs.flags), mine.where(~mine.flags)),
        ):
            if len(late) and len(others):
                start, end, by_time = _found(self.plan, port, late, others)
                pairs, partners = end - start, by_time.order
                times = covered(by_time, start, end)
                self.counts.add(port, LOST, own_needs(late), pairs)
                self.counts.add(1 - port, MADE, own_needs(others)[partners], times)
                at = (late.ticks, pairs) if port == SELF else (others.ticks[partners], times)
                self.counts.book(LOST, *at)

    def made(  # noqa: D102
        self,
        sides: Sequence[tuple[StoredRows, int]],
        probes: np.ndarray,
        places: tuple[np.ndarray, np.ndarray],
        by_time: SortedRows,
    ) -> None:
        (mine, before), (theirs, stored) = sides
        start, end = places
        counts, pairs = self.counts, end - start
        if not pairs.any():
            return
        counts.book(MADE, mine.ticks[probes], pairs)
        if probes[0] < before:
            counts.add(OTHER, MADE, counts.stored_need(OTHER, mine.ticks[probes]), pairs)
            counts.add(SELF, MADE, own_needs(mine)[probes], pairs)
            return
        partners, times = by_time.order, covered(by_time, start, end)
        new = partners >= stored
        old = partners[~new]
        counts.add(OTHER, MADE, own_needs(theirs)[partners], times)
        counts.add(SELF, MADE, counts.stored_need(SELF, theirs.ticks[old]), times[~new])
        counts.add(SELF, MADE, own_needs(mine)[probes], summed(new, start, end))

    def evict(self, port: int, rows: Sequence[StoredRows], limit: int) -> None:
        """Add the evicted and the late rows of a side to its sample."""
        keyed = [some.where(has_keys(self.plan, port, some.table)) for some in rows]
        if self.plan.how == "anti" and port == SELF:  # rows with a partner need no other one
            keyed = [some.where(~some.flags) for some in keyed]
        gone = [_with_flags(some, late=False) for some in keyed if len(some)]
        gone += [self._late[port]] if len(self._late[port]) else []
        if gone:
            self.samples[port].add(StoredRows.together(gone), limit)

    def finish(self) -> None:
        """Forget all rows if both streams have ended."""
        if all(mark is not None and mark >= END for mark in self.kernel.watermarks):
            for sample in self.samples:
                sample.clear()

    def measures(self, shard: ShardMeasure) -> Sequence[Measure]:
        """Return the histograms of needed slacks, and the counts of the shard."""
        counts = self.counts
        counted = {**shard.counts, "lost": counts.lost}
        closed, missed = counts.booked(MADE), counts.booked(LOST)
        return [*counts.needed(), replace(shard, counts=counted, closed=closed, missed=missed)]


def own_needs(rows: StoredRows) -> np.ndarray:
    """Return the slack that each row needed in order not to be late."""
    return column_or_zeros(rows.table, NEED)


def _with_flags(rows: StoredRows, *, late: bool) -> StoredRows:
    return StoredRows(rows.table, rows.ticks, np.full(len(rows), late))


def _found(
    plan: JoinPlan, port: int, rows: StoredRows, others: StoredRows
) -> tuple[np.ndarray, np.ndarray, SortedRows]:
    """Return the places (start, end) of the partners of `rows`, of side `port`, and their order."""
    sides = (rows, others) if port == SELF else (others, rows)
    codes = np.split(key_codes(plan, *(side.table for side in sides)), [len(sides[SELF])])
    by_time, reach = SortedRows(codes[1 - port], others.ticks, np.arange(len(others))), plan.reaches
    at = reach[port].first(rows.ticks), reach[port].last(rows.ticks)
    return *by_time.between(codes[port], *at), by_time


class OrderedLossCount(LossCount):
    """An observer that counts every pair as made or lost when the second of its rows arrives.

    A count of emitted pairs would mislead: while the slack grows, the watermark does not move and
    the join emits no pairs, but late rows still lose pairs. All pairs need the same slack of both
    sides, and are counted at the port of self.
    """

    plan: OrderedJoinPlan

    def count(self, fresh: list[StoredRows], watermark: int) -> None:
        """Count the pairs of new rows: pairs before `watermark` as lost, other pairs as made."""
        self.counts = PairCounts(self.plan, self.kernel.newest)
        self._late = [rows.where(np.zeros(len(rows), bool)) for rows in fresh]
        mine, theirs = ([self._slim(port, rows)] for port, rows in enumerate(fresh))
        known = [self._known(port, fresh[1 - port]) for port in (SELF, OTHER)]
        self._count(mine, [*known[OTHER], *theirs], watermark)
        self._count(known[SELF], theirs, watermark)

    def _slim(self, port: int, rows: StoredRows) -> StoredRows:
        """Return the key columns and the times of rows, each of which stands for one row."""
        table = rows.table.select([*self.plan.key_names[port], TICK])
        level = pa.array(np.zeros(len(rows), np.int64))
        return StoredRows(table.append_column(LEVEL, level), rows.ticks, rows.flags)

    def _known(self, port: int, partners: StoredRows) -> list[StoredRows]:
        """Return the stored and the evicted rows of a side that may join with `partners`."""
        rows = []
        for store in (self.kernel.stores[port], self.samples[port].store):
            near = reached(store.all, self.plan.reaches[port], partners.ticks)
            rows += [store.read(bucket) for bucket in near]
        names = [*self.plan.key_names[port], TICK, LEVEL]
        return [
            StoredRows(one.table.select(names), one.ticks, one.flags)
            if LEVEL in one.table.column_names
            else self._slim(port, one)
            for one in rows
        ]

    def _count(self, mine: list[StoredRows], theirs: list[StoredRows], watermark: int) -> None:
        """Count pairs of `mine` and `theirs`: pairs before `watermark` as lost, others as made."""
        if not sum(map(len, mine)) or not sum(map(len, theirs)):
            return
        plan = self.plan
        sides = JoinSides.of(plan, StoredRows.together(mine), StoredRows.together(theirs))
        newest = self.kernel.newest.get(SELF, self.kernel.newest.get(OTHER))
        moved = None if newest is None else plan.mark_out(newest, newest)
        until = max(watermark, FIRST_TICK if moved is None else moved)
        for kind, since, upto in ((LOST, FIRST_TICK, watermark), (MADE, watermark, until)):
            if since < upto:
                self._count_needs(
                    sides, kind, since, upto, FIRST_TICK if newest is None else newest
                )
        if until < END:
            self._count_needs(sides, MADE, until, END, FIRST_TICK)

    def _count_needs(
        self, sides: JoinSides, kind: int, since: int, until: int, newest: int
    ) -> None:
        """Count the pairs with times in [since, until)."""
        (mine, theirs), plan = sides.rows, self.plan
        probes, start, end = sides.met(plan, since, until)
        each, stands = weights(mine)[probes], weights(theirs)[sides.others.order]
        pairs = each * summed(stands, start, end)
        self.counts.book(kind, mine.ticks[probes], pairs)
        if newest == FIRST_TICK:
            self.counts.add(SELF, kind, np.zeros(len(pairs), np.int64), pairs)
            return
        for chosen in slices(end - start, PORTION):
            place, which = spread(start[chosen], end[chosen])
            at = mine.ticks[probes[chosen]][which]
            times = plan.time_of(SELF, at, theirs.ticks[sides.others.order[place]])
            needed = np.maximum(newest - np.minimum(plan.last_end(times), newest), 0)
            self.counts.add(SELF, kind, needed, each[chosen][which] * stands[place])

    def measures(self, shard: ShardMeasure) -> Sequence[Measure]:
        """Return the histogram of needed slacks, and the counts of the shard."""
        *needed, counted = super().measures(shard)
        assert isinstance(counted, ShardMeasure)  # noqa: S101
        made = int(self.counts.counts[:, MADE].sum())
        return [*needed, replace(counted, counts={**counted.counts, "made": made})]
