"""Observers of a join: the counts of pairs by the slack that they needed, lost pairs included.

An observer counts apart from the kernel, by its own sample of the rows of each side: when a row
arrives, it forms pairs with the sampled rows of the other side. A pair is lost if one of its rows
was late, or if the earlier one was evicted before the later one arrived; that follows from their
times and from the watermarks. So the join itself does the same work with and without a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lowwater.aggregates.accumulators.values import spread
from lowwater.control.measures import Measure, ShardMeasure
from lowwater.operators.join.band import open_from
from lowwater.operators.join.found_pairs import Found, coded, likely
from lowwater.operators.join.match import SortedRows, has_keys
from lowwater.operators.join.ordered_plan import OrderedJoinPlan
from lowwater.operators.join.pair_counts import LOST, MADE, PairCounts, summed
from lowwater.operators.join.plan import OTHER, SELF, JoinPlan
from lowwater.operators.join.row_sample import KeyedRows, SampleStore, row_keys, sampled
from lowwater.operators.row_kernel import PORTION, PortRows, RowKernel
from lowwater.operators.row_store import RowStore, StoredRows
from lowwater.operators.window.scan import slices
from lowwater.ticks import END, FIRST_TICK


class JoinObserver:
    """A join observer that measures nothing."""

    stores: ClassVar[tuple[type[RowStore], ...]] = ()
    """The types of the stores that the observer adds to the stores of the ports."""

    def __init__(self, kernel: RowKernel, plan: JoinPlan) -> None:
        self.kernel, self.plan = kernel, plan

    def arrive(self, arrivals: list[PortRows]) -> None:
        """Called first in an epoch, with the rows of both ports."""

    def joined(self, rows: StoredRows) -> None:
        """Called with the new rows of self that were not late; those with a partner are flagged."""

    def finish(self, limits: Sequence[int]) -> None:
        """Called last in an epoch, with the times before which rows of each side are evicted."""

    def measures(self, shard: ShardMeasure) -> Sequence[Measure]:
        """Return the measurements of the epoch, that of the shard as the last one."""
        return [shard]


class LossCount(JoinObserver):
    """An observer that counts the pairs of a join, and the pairs that late rows have missed.

    A row of self in an anti join is right if it has one partner. So from the next epoch on, a row
    with a partner loses no pairs, nor does a partly late row, which is never a result.
    """

    stores: ClassVar[tuple[type[RowStore], ...]] = (SampleStore, SampleStore)

    def __init__(self, kernel: RowKernel, plan: JoinPlan) -> None:
        super().__init__(kernel, plan)
        self.samples = [store for store in kernel.stores if isinstance(store, SampleStore)]
        self.counts = PairCounts(plan, {})
        self._mine: KeyedRows | None = None
        self._fresh: list[KeyedRows] = []

    def arrive(self, arrivals: list[PortRows]) -> None:
        """Count the pairs that new rows have made and missed."""
        self.counts = PairCounts(self.plan, self.kernel.newest)
        marks = self.kernel.watermarks
        evicted = [open_from(self.plan.reaches[1 - port], marks[port]) for port in (SELF, OTHER)]
        fresh = [self._keyed(port, arrivals[port], evicted[port]) for port in (SELF, OTHER)]
        self._mine = fresh[SELF]
        self._fresh = [sampled(rows) for rows in fresh]
        for port, rows in enumerate(fresh):
            if len(rows):
                self._count_stored(port, rows, evicted[port])
        if len(self._fresh[SELF]) and len(fresh[OTHER]):
            self._count_new(self._fresh[SELF], fresh[OTHER])

    def _keyed(self, port: int, rows: PortRows, evicted: int) -> KeyedRows:
        """Return the new rows of a side that have no NULL key.

        A late row forms no pair: all its partners are before `evicted`.
        """
        reach, ticks, late = self.plan.reaches[port], rows.ticks, rows.dead
        if len(ticks) and reach.last(int(ticks.min())) < evicted:
            late = late | (reach.last(ticks) < evicted)
        keys = row_keys(self.plan, port, rows.table)
        keyed = KeyedRows(keys, ticks, self.counts.own_need(port, ticks), late)
        present = has_keys(self.plan, port, rows.table)
        return keyed if present.all() else keyed.take(present)

    def _count_stored(self, port: int, rows: KeyedRows, evicted: int) -> None:
        """Count the pairs of new rows of `port` with rows of the other side's sample.

        Rows of the other side before `evicted` are gone. A pair whose earlier row is gone is lost
        at the port that needed more slack. Late rows form no other pairs.
        """
        counts, known = self.counts, self._near(1 - port, rows.ticks)
        found = None if known is None else Found.of(self.plan, port, rows, known)
        if found is None:
            return
        known = found.known
        gone, own, behind = known.ticks < evicted, known.own, counts.stored_need(port, known.ticks)
        if known.late.any() or gone.any():
            gone = gone | known.late
            at_own = known.late & (own > behind)
            lost = gone if known.met is None else gone & ~known.met
            pairs = found.pairs * lost
            counts.add(port, LOST, behind, pairs * ~at_own)
            counts.add(port, MADE, behind, pairs * at_own)
            counts.add(1 - port, LOST, own, pairs * at_own)
            counts.add(1 - port, MADE, own, pairs * ~at_own)
            found.book(counts, LOST, port, rows, lost)
            found = found.where(~rows.late[found.rows])
        pairs = found.pairs * ~gone
        counts.add(port, MADE, behind, pairs)
        counts.add(1 - port, MADE, own, pairs)
        found.book(counts, MADE, port, rows, ~gone)
        if self.plan.how == "anti" and port == OTHER:
            self._meet(found, pairs > 0, rows.ticks)

    def _meet(self, found: Found, met: np.ndarray, partners: np.ndarray) -> None:
        """Note the rows of the sample of self that have a partner; `met` is their mask."""
        new = met if found.known.met is None else met & ~found.known.met
        if new.any():
            chosen = np.zeros(len(new), bool)
            chosen[found.places[new]] = True
            self.samples[SELF].meet(*self._times_near(SELF, partners), chosen)

    def joined(self, rows: StoredRows) -> None:  # noqa: D102
        if self.plan.how == "anti" and self._mine is not None and rows.flags.any():
            met = np.zeros(len(self._mine), bool)
            met[~self._mine.late] = rows.flags[has_keys(self.plan, SELF, rows.table)]
            self._fresh[SELF] = sampled(replace(self._mine, met=met))

    def _near(self, port: int, partners: np.ndarray) -> KeyedRows | None:
        """Return the rows of a sample that may join with rows at the times `partners`."""
        return self.samples[port].near(*self._times_near(port, partners))

    def _times_near(self, port: int, partners: np.ndarray) -> tuple[int, int]:
        """Return the first and last time of rows of `port` that may join with `partners`."""
        reach = self.plan.reaches[1 - port]
        return reach.first(int(partners.min())), reach.last(int(partners.max()))

    def _count_new(self, mine: KeyedRows, theirs: KeyedRows) -> None:
        """Count the pairs of new rows of both sides; `mine` are sampled."""
        found = Found.of(self.plan, OTHER, theirs, mine)
        if found is None:
            return
        counts, mine, none = self.counts, found.known, ~found.known.late
        late, own = theirs.late[found.rows], theirs.own[found.rows]
        pairs = found.pairs
        made = pairs * none
        counts.add(SELF, MADE, mine.own, made)
        counts.add(OTHER, MADE, own, found.weigh(mine.stands * none) * ~late)
        if late.any() or mine.late.any():
            counts.add(SELF, LOST, mine.own, pairs - made)
            counts.add(OTHER, LOST, own, found.weigh(mine.stands * none) * late)
            counts.add(OTHER, MADE, own, found.weigh(mine.stands * mine.late))
            made = found.where(~late).pairs * none
            counts.book(LOST, mine.ticks, pairs - made)
        counts.book(MADE, mine.ticks, made)

    def finish(self, limits: Sequence[int]) -> None:
        """Add the new rows to the samples; forget all rows if both streams have ended."""
        ended = all(mark is not None and mark >= END for mark in self.kernel.watermarks)
        for port, sample in enumerate(self.samples):
            if ended:
                sample.clear()
            elif self._fresh:
                sample.include(self._fresh[port], limits[port])

    def measures(self, shard: ShardMeasure) -> Sequence[Measure]:
        """Return the histograms of needed slacks, and the counts of the shard."""
        counts = self.counts
        counted = {**shard.counts, "lost": counts.lost}
        closed, missed = counts.booked(MADE), counts.booked(LOST)
        return [*counts.needed(), replace(shard, counts=counted, closed=closed, missed=missed)]


class OrderedLossCount(LossCount):
    """An observer that counts every pair as made or lost when the second of its rows arrives.

    A count of emitted pairs would mislead: while the slack grows, the watermark does not move and
    the join emits no pairs, but late rows still lose pairs. All pairs need the same slack of both
    sides, and are counted at the port of self.
    """

    plan: OrderedJoinPlan

    def count(self, arrivals: list[PortRows], watermark: int) -> None:
        """Count the pairs of new rows: pairs before `watermark` as lost, other pairs as made."""
        self.counts = PairCounts(self.plan, self.kernel.newest)
        every = [self._keyed(port, rows, FIRST_TICK) for port, rows in enumerate(arrivals)]
        fresh = [rows.take(~rows.late) if rows.late.any() else rows for rows in every]
        self._fresh = [sampled(rows) for rows in fresh]
        mine, theirs = fresh
        stored = self._near(OTHER, mine.ticks) if len(mine) else None
        if stored is not None:
            self._count_pairs(mine, stored, watermark)
        if not len(theirs):
            return
        stored = self._near(SELF, theirs.ticks)
        parts = [one for one in (stored, self._fresh[SELF]) if one is not None and len(one)]
        if parts:
            self._count_pairs(KeyedRows.together(parts), theirs, watermark)

    def _count_pairs(self, mine: KeyedRows, theirs: KeyedRows, watermark: int) -> None:
        """Count pairs of `mine` and `theirs`: pairs before `watermark` as lost, others as made."""
        plan = self.plan
        few, many = sorted((mine, theirs), key=len)
        some = many.take(likely(many.keys, few.keys))
        mine, theirs = (few, some) if mine is few else (some, few)
        if not len(some):
            return
        probes, codes, by_time = coded(mine.keys, theirs)
        sides = _Sides(mine.take(probes), codes, theirs, by_time)
        newest = self.kernel.newest.get(SELF, self.kernel.newest.get(OTHER))
        moved = None if newest is None else plan.mark_out(newest, newest)
        until = max(watermark, FIRST_TICK if moved is None else moved)
        least = FIRST_TICK if newest is None else newest
        for kind, since, upto in ((LOST, FIRST_TICK, watermark), (MADE, watermark, until)):
            if since < upto:
                self._count_needs(sides, kind, since, upto, least)
        if until < END:
            self._count_needs(sides, MADE, until, END, FIRST_TICK)

    def _count_needs(self, sides: _Sides, kind: int, since: int, until: int, newest: int) -> None:
        """Count the pairs with times in [since, until)."""
        plan, mine, order = self.plan, sides.mine, sides.by_time.order
        first, last, some = plan.due(mine.ticks, since, until)
        probes = np.flatnonzero(some)
        start, end = sides.by_time.between(sides.codes[probes], first[probes], last[probes])
        met = end > start
        if not met.any():
            return
        probes, start, end = probes[met], start[met], end[met]
        each, stands = mine.stands[probes], sides.theirs.stands[order]
        pairs = each * summed(stands, start, end)
        self.counts.book(kind, mine.ticks[probes], pairs)
        if newest == FIRST_TICK:
            self.counts.add(SELF, kind, np.zeros(len(pairs), np.int64), pairs)
            return
        for chosen in slices(end - start, PORTION):
            place, which = spread(start[chosen], end[chosen])
            at = mine.ticks[probes[chosen]][which]
            times = plan.time_of(SELF, at, sides.theirs.ticks[order[place]])
            needed = np.maximum(newest - np.minimum(plan.last_end(times), newest), 0)
            self.counts.add(SELF, kind, needed, each[chosen][which] * stands[place])

    def measures(self, shard: ShardMeasure) -> Sequence[Measure]:
        """Return the histogram of needed slacks, and the counts of the shard."""
        *needed, counted = super().measures(shard)
        assert isinstance(counted, ShardMeasure)  # noqa: S101
        made = int(self.counts.counts[:, MADE].sum())
        return [*needed, replace(counted, counts={**counted.counts, "made": made})]


@dataclass(frozen=True)
class _Sides:
    """Rows of self with their codes, and rows of other, sorted by (code, time)."""

    mine: KeyedRows
    codes: np.ndarray
    theirs: KeyedRows
    by_time: SortedRows
