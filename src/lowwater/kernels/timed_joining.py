"""The join in order of time: slack buffers, sync buffer and windows as one store (QDJ 4).

Rows are stored as they come. When the mark of the results moves from m to m', all pairs of times in
[m, m') leave, in order; what later rows would add to them is dropped. So a row waits once, not in
one buffer after the other, and pairs are not made before they leave.

Within an epoch the order of arrival does not matter (semantics 2): a row is judged by the mark that
was in force before its epoch. Pairs of equal time leave by (time, arrival) of their row of self,
then of other, which no cut into epochs changes; rows without a partner follow the pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.aggregates import spread
from lowwater.kernels.bands import MIN
from lowwater.kernels.joined import alone, has_keys, key_codes, paired
from lowwater.kernels.joins import OTHER, SELF
from lowwater.kernels.matching import Sorted, reached
from lowwater.kernels.row_buckets import Kept, RowBucket
from lowwater.kernels.row_epoch import PORTION, Arrivals, RowEpoch
from lowwater.kernels.timed_joins import TimedJoinPlan
from lowwater.kernels.tracking import any_late
from lowwater.windows import FOREVER

__all__ = ["TimedJoinEpoch", "TimedJoinPlan", "TrackedTimedJoinEpoch"]


@dataclass(frozen=True)
class _Sides:
    """Rows of both sides that may meet, and their keys as numbers."""

    rows: tuple[Kept, Kept]
    codes: tuple[np.ndarray, np.ndarray]
    others: Sorted

    @classmethod
    def of(cls, plan: TimedJoinPlan, mine: Kept, theirs: Kept) -> _Sides:
        """Bring rows of both sides together."""
        mine_codes, codes = np.split(key_codes(plan, mine.table, theirs.table), [len(mine)])
        others = Sorted(codes, theirs.ticks, np.arange(len(theirs)))
        return cls((mine, theirs), (mine_codes, codes), others)

    def met(
        self, plan: TimedJoinPlan, since: int, until: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows of self, and where in `others` those lie that they have due pairs with."""
        mine = self.rows[SELF]
        first, last, some = plan.due(mine.ticks, since, until)
        probes = np.flatnonzero(some & has_keys(plan, SELF, mine.table))
        start, end = self.others.between(self.codes[SELF][probes], first[probes], last[probes])
        met = end > start
        return probes[met], start[met], end[met]

    def lonely(self, plan: TimedJoinPlan, port: int, since: int, until: int) -> Kept:
        """Return the rows of a side, of times in [since, until), that have no partner."""
        rows, reach = self.rows[port], plan.reaches[port]
        there = np.flatnonzero((rows.ticks >= since) & (rows.ticks < until))
        partners = self.others
        if port == OTHER:
            mine = self.rows[SELF]
            partners = Sorted(self.codes[SELF], mine.ticks, np.arange(len(mine)))
        at = rows.ticks[there]
        start, end = partners.between(self.codes[port][there], reach.first(at), reach.last(at))
        keyed = has_keys(plan, port, rows.table)[there]
        return rows.take(there[~(keyed & (end > start))]).in_order()


class TimedJoinEpoch(RowEpoch):
    """One epoch of a join in order of time."""

    def __init__(self, plan: TimedJoinPlan, shard: int, state: Mapping[str, bytes]) -> None:
        super().__init__(plan, shard, state)
        self.plan = plan

    def advance(self, arrivals: list[Arrivals], marks: list[int | None]) -> None:
        """Take in the rows that came, then give out the results that the marks have passed."""
        since = self._mark(self.marks)
        for port, rows in enumerate(arrivals):
            self._account(port, rows, since)
        fresh = [rows.kept(~rows.dead) for rows in arrivals]
        self.track(arrivals, fresh, since)
        self.marks = marks
        until = self._mark(marks)
        if until > since:
            self._give([self._side(p, fresh[p], since, until) for p in (SELF, OTHER)], since, until)
        for port in (SELF, OTHER):
            self._keep(port, fresh[port], until)

    def _mark(self, marks: Sequence[int | None]) -> int:
        """Return the mark of the results."""
        found = self.plan.mark_out(*marks)
        return MIN if found is None else found

    def _account(self, port: int, rows: Arrivals, mark: int) -> None:
        """Rows are late if all their results would be behind the mark, partly if some would."""
        earliest, latest = self.plan.results_of(port, rows.ticks)
        late = rows.dead | (latest < mark)
        self.account(port, rows, late, ~late & (earliest < mark))

    def track(self, arrivals: list[Arrivals], fresh: list[Kept], mark: int) -> None:
        """Look at the new rows before they are stored."""

    def _side(self, port: int, fresh: Kept, since: int, until: int) -> Kept:
        """Bring the new rows of a side together with the stored ones that have results due.

        To say that a row has no partner, all rows must be looked at.
        """
        store = self.stores[port]
        buckets = store.all if any(self.plan.preserved) else self._due(port, since, until)
        return Kept.together([*(store.read(b) for b in buckets), fresh])

    def _due(self, port: int, since: int, until: int) -> list[RowBucket]:
        """Return the buckets with rows that can have results of times in [since, until)."""
        buckets = self.stores[port].all
        if not buckets:
            return []
        low, high = np.array([(b.low, b.high) for b in buckets], np.int64).T
        earliest, latest = self.plan.results_of(port, low)[0], self.plan.results_of(port, high)[1]
        due = (earliest < until) & (latest >= since)
        return [b for b, needed in zip(buckets, due.tolist(), strict=True) if needed]

    def _keep(self, port: int, fresh: Kept, mark: int) -> None:
        """Let go rows whose results have all left, store the new ones that have some to come."""
        limit = self.limit(port, mark)
        self.stores[port].cut(limit, wanted=False)
        needed = self.plan.preserved[port] | has_keys(self.plan, port, fresh.table)
        self.stores[port].add(fresh.where((fresh.ticks >= limit) & needed))

    def limit(self, port: int, mark: int) -> int:
        """Return the time before which rows of a side need not be stored."""
        return self.plan.kept_from(port, mark)

    # -- giving out ------------------------------------------------------------------------------

    def _give(self, both: list[Kept], since: int, until: int) -> None:
        """Give out the results of times in [since, until), in order."""
        sides = _Sides.of(self.plan, *both)
        times = np.unique(np.concatenate([rows.ticks for rows in both]))
        self._portion(sides, times, since, until)

    def _portion(self, sides: _Sides, times: np.ndarray, since: int, until: int) -> None:
        """Give out results; of too many at once, first those of the earlier half of the times."""
        probes, start, end = sides.met(self.plan, since, until)
        inside = times[(times > since) & (times < until)]
        if int((end - start).sum()) > PORTION and len(inside):
            middle = int(inside[len(inside) // 2])
            self._portion(sides, times, since, middle)
            self._portion(sides, times, middle, until)
            return
        pairs = [] if self.plan.how == "anti" else [self._pairs(sides, probes, start, end)]
        without = [self._alone(sides, port, since, until) for port in (SELF, OTHER)]
        found = [one for one in (*pairs, *without) if len(one[0])]
        if len(found) == 1:
            self.give(found[0][1])
        elif found:
            at = np.concatenate([one[0] for one in found])
            rows = pa.concat_tables([one[1] for one in found])
            self.give(rows.take(pa.array(np.argsort(at, kind="stable"))).combine_chunks())

    def _pairs(
        self, sides: _Sides, probes: np.ndarray, start: np.ndarray, end: np.ndarray
    ) -> tuple[np.ndarray, pa.Table]:
        """Return pairs with their times, in order."""
        (mine, theirs), plan = sides.rows, self.plan
        place, which = spread(start, end)
        left, right = probes[which], sides.others.order[place]
        t, u = mine.ticks[left], theirs.ticks[right]
        at = plan.time_of(SELF, t, u)
        order = np.lexsort((right, u, left, t, at))
        return at[order], paired(plan, mine, theirs, left[order], right[order])

    def _alone(
        self, sides: _Sides, port: int, since: int, until: int
    ) -> tuple[np.ndarray, pa.Table]:
        """Return rows of a side without a partner, with their times, in order."""
        if not self.plan.preserved[port]:
            return np.zeros(0, np.int64), pa.table({})
        rows = sides.lonely(self.plan, port, since, until)
        return rows.ticks, alone(self.plan, port, rows)


class TrackedTimedJoinEpoch(TimedJoinEpoch):
    """An epoch of an inner join that counts pairs when their later row comes: `made` or `lost`.

    Not when they leave: a mark that stands, because slack has grown, would look as if there were no
    pairs, while late rows go on to lose some. Once rows come out of order they are kept a while
    longer for it. Of a row that reaches back further, what it lost beyond is not known (`unseen`);
    nor of one that its own stream gave up.
    """

    def __init__(self, plan: TimedJoinPlan, shard: int, state: Mapping[str, bytes]) -> None:
        super().__init__(plan, shard, state)
        self.counts |= {"made": 0, "lost": 0, "unseen": 0}

    def advance(self, arrivals: list[Arrivals], marks: list[int | None]) -> None:
        """Join as ever; while all rows are in order, nothing is lost, and what leaves was made."""
        super().advance(arrivals, marks)
        if not self.noted:
            self.counts["made"] = self.counts["results"]

    def track(self, arrivals: list[Arrivals], fresh: list[Kept], mark: int) -> None:
        """Count the pairs of new rows: those behind the mark are lost."""
        if not self.noted:
            if not any(any_late(rows) for rows in arrivals):
                return
            # Rows are remembered from here on; those let go before this are not known.
            self.noted = {"since": [self.plan.kept_from(port, mark) for port in (SELF, OTHER)]}
            stored = [[store.read(b) for b in store.all] for store in self.stores]
            self._count(stored[SELF], stored[OTHER], mark)
        self.counts["unseen"] += sum(int(rows.dead.sum()) for rows in arrivals)
        for port, rows in enumerate(fresh):
            self.counts["unseen"] += self._unseen(port, rows, mark)
        mine, theirs = fresh
        self._count([mine], [*self._near(OTHER, mine), theirs], mark)
        self._count(self._near(SELF, theirs), [theirs], mark)

    def _unseen(self, port: int, fresh: Kept, mark: int) -> int:
        """Return how many rows may have lost pairs with rows that are not remembered."""
        behind = self.plan.results_of(port, fresh.ticks)[0] < mark
        known = max(self.limit(1 - port, mark), self.noted["since"][1 - port])
        return int((behind & (self.plan.reaches[port].first(fresh.ticks) < known)).sum())

    def _near(self, port: int, partners: Kept) -> list[Kept]:
        """Return stored rows of a side that some of the other may meet."""
        store = self.stores[port]
        return [store.read(b) for b in reached(store.all, self.plan.reaches[port], partners.ticks)]

    def _count(self, mine: list[Kept], theirs: list[Kept], mark: int) -> None:
        """Count the pairs of some rows, those behind the mark and the others."""
        if not sum(map(len, mine)) or not sum(map(len, theirs)):
            return
        sides = _Sides.of(self.plan, Kept.together(mine), Kept.together(theirs))
        for word, since, until in (("lost", MIN, mark), ("made", mark, FOREVER)):
            if since < until:
                _, start, end = sides.met(self.plan, since, until)
                self.counts[word] += int((end - start).sum())

    def limit(self, port: int, mark: int) -> int:
        """Return the time before which rows are deleted: a while after their results have left."""
        found = super().limit(port, mark)
        if found in (MIN, FOREVER) or not self.noted:
            return found
        return max(found - self.plan.remember, MIN)
