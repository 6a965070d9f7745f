"""OOP-Join: rows join on arrival, in any order (OOP 5.3).

New rows of self join with stored and new rows of other; stored rows of self join with new rows of
other. A row at time t stays in state while a partner may still arrive: until the watermark of the
*other* side is greater than `last(t)`. So a row behind the watermark of its own side still joins
with the partners that are in state.

**Late rows.** The watermark m of one side evicts all rows of the other side before `first(m)`. A
row whose partners are all before `first(m)`, with `last(t) < first(m)`, is late and does not join.
A row with some partners before `first(m)`, with `first(t) < first(m)`, is partly late: it joins
with the partners in state and with future partners.

**Rows without a partner** are emitted when the watermark of the other side has passed all times of
possible partners. Late and partly late rows are never emitted in this way, because their partners
may have been evicted. A partly late row is emitted as a late row with `admitted` true; its missed
pairs are unknown. A row with a NULL key cannot have a partner, but waits, too: so rows without a
partner are emitted in the order of time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lowwater.aggregates.accumulators.values import spread
from lowwater.control.measures import Measure, ShardMeasure
from lowwater.operators.join.band import open_from
from lowwater.operators.join.gradual_flush import GradualLeave, Leave
from lowwater.operators.join.loss_count import JoinObserver, LossCount
from lowwater.operators.join.match import SortedRows, has_keys, key_codes, reached
from lowwater.operators.join.output import paired
from lowwater.operators.join.plan import OTHER, SELF, JoinPlan
from lowwater.operators.kernel import Composition, register
from lowwater.operators.row_kernel import PORTION, PortRows, RowKernel
from lowwater.operators.row_store import RowBucket, StoredRows
from lowwater.operators.window.scan import slices

COMPOSITIONS: frozenset[Composition] = frozenset(
    {("at once", "none"), ("at once", "loss count"), ("gradual", "none")}
)


def composition(plan: JoinPlan) -> Composition:
    """Return (flush, observer): the names of the two strategies of `plan`."""
    flush = "at once" if plan.flush is None else "gradual"
    return flush, "loss count" if plan.pair_unit and plan.flush is None else "none"


@dataclass
class _Side:
    """The rows of one side that may join in an epoch: `stored` rows from state, then new rows.

    A flagged row has a partner or is partly late, so it is never emitted as unmatched.
    """

    buckets: list[RowBucket]
    rows: StoredRows
    stored: int
    flags: np.ndarray

    @property
    def fresh(self) -> StoredRows:
        """The new rows, with the flags of this epoch."""
        new = np.arange(len(self.rows)) >= self.stored
        return StoredRows(self.rows.table, self.rows.ticks, self.flags).where(new)


@register(JoinPlan, COMPOSITIONS, composition)
class JoinKernel(RowKernel):
    """One epoch of one shard of a join.

    `leave` decides when rows without a partner are emitted; `observer` counts the pairs that late
    rows have missed.
    """

    def __init__(self, plan: JoinPlan, shard: int, state: Mapping[str, bytes]) -> None:
        flush, observer = composition(plan)
        leave = GradualLeave if flush == "gradual" else Leave
        observed = LossCount if observer == "loss count" else JoinObserver
        super().__init__(plan, shard, state, [*leave.stores, *observed.stores])
        self.plan = plan
        self.leave = leave(self, plan)
        self.observer = observed(self, plan)

    def advance(self, arrivals: list[PortRows], watermarks: list[int | None]) -> None:
        """Join the new rows, then evict the rows that no future row can join with."""
        self.observer.arrive(arrivals)
        fresh = [self._admit(port, rows) for port, rows in enumerate(arrivals)]
        sides = [self._side(port, fresh) for port in (SELF, OTHER)]
        self._join(sides)
        self.watermarks = watermarks
        new = [side.fresh for side in sides]
        self.observer.joined(new[SELF])
        for port in (SELF, OTHER):
            self._write_flags(port, sides[port])
            self._settle(port, new[port])
        self.leave.finish()
        self.observer.finish([self._limit(port) for port in (SELF, OTHER)])

    def measures(self, shard: ShardMeasure) -> Sequence[Measure]:  # noqa: D102
        return self.observer.measures(shard)

    def _admit(self, port: int, rows: PortRows) -> StoredRows:
        """Emit late and partly late rows as late; return the rows in time or partly late."""
        reach = self.plan.reaches[port]
        evicted = open_from(reach.inverse, self.watermarks[port])
        late = rows.dead | (reach.last(rows.ticks) < evicted)
        partly = ~late & (reach.first(rows.ticks) < evicted)
        self.account(port, rows, late, partly)
        return rows.stored(~late, partly)

    def _side(self, port: int, fresh: list[StoredRows]) -> _Side:
        """Return the new rows of a side, and its stored rows that new rows may join with."""
        store, reach = self.stores[port], self.plan.reaches[port]
        buckets = reached(store.all, reach, fresh[1 - port].ticks)
        stored = [store.read(b) for b in buckets]
        rows = StoredRows.together([*stored, fresh[port]])
        return _Side(buckets, rows, len(rows) - len(fresh[port]), rows.flags.copy())

    def _join(self, sides: list[_Side]) -> None:
        """Emit the pairs that contain at least one new row."""
        mine, theirs = sides
        if mine.stored == len(mine.rows) and theirs.stored == len(theirs.rows):
            return
        code = key_codes(self.plan, mine.rows.table, theirs.rows.table)
        n, keyed = len(mine.rows), has_keys(self.plan, SELF, mine.rows.table)
        fresh = [np.arange(len(s.rows)) >= s.stored for s in sides]
        sought = _have_code(code[:n][fresh[SELF]], code)
        by_time = SortedRows(code[n:], theirs.rows.ticks, np.flatnonzero(fresh[OTHER] | sought[n:]))
        self._match(sides, np.flatnonzero(keyed & fresh[SELF]), code, by_time)
        sought = _have_code(code[n:][fresh[OTHER]], code)[:n]
        stored = np.flatnonzero(keyed & ~fresh[SELF] & sought)
        self._match(sides, stored, code, by_time.only(fresh[OTHER]))

    def _match(
        self, sides: list[_Side], probes: np.ndarray, code: np.ndarray, by_time: SortedRows
    ) -> None:
        """Emit each pair of a row of self, from `probes`, and its partner, from `by_time`."""
        plan, (mine, theirs) = self.plan, sides
        at = mine.rows.ticks[probes]
        start, end = by_time.between(code[probes], plan.band.first(at), plan.band.last(at))
        met = end > start
        probes, start, end = probes[met], start[met], end[met]
        mine.flags[probes] = True
        if plan.how == "anti":
            return
        for chosen in slices(end - start, PORTION):
            place, which = spread(start[chosen], end[chosen])
            partners = by_time.order[place]
            theirs.flags[partners] = True
            self.emit(paired(plan, mine.rows, theirs.rows, probes[chosen][which], partners))

    def _write_flags(self, port: int, side: _Side) -> None:
        """Write the changed flags of stored rows, if rows without a partner are results."""
        if not self.plan.preserved[port]:
            return
        ends = np.cumsum([b.rows for b in side.buckets])
        for bucket, end in zip(side.buckets, ends.tolist(), strict=True):
            flags = side.flags[end - bucket.rows : end]
            if (flags != side.rows.flags[end - bucket.rows : end]).any():
                self.stores[port].flag(bucket, flags)

    def _settle(self, port: int, fresh: StoredRows) -> None:
        """Evict the rows that no future row can join with, and store the other new rows."""
        plan, store = self.plan, self.stores[port]
        limit = self._limit(port)
        waits = fresh.ticks >= limit
        needed = has_keys(plan, port, fresh.table)
        if plan.preserved[port]:
            gives_pairs = plan.how != "anti"
            needed = (needed & gives_pairs) | ~fresh.flags
            done = self.leave.completed(port, limit)
            complete = StoredRows.together([*done, fresh.where(~waits)])
            self.leave.leave(port, complete.where(~complete.flags))
        else:
            store.cut(limit, wanted=False)
        store.add(fresh.where(waits & needed))

    def _limit(self, port: int) -> int:
        """Return the time before which rows of side `port` are evicted."""
        return open_from(self.plan.reaches[port], self.watermarks[1 - port])


def _have_code(codes: np.ndarray, all_codes: np.ndarray) -> np.ndarray:
    """Return a mask of the rows in `all_codes` whose code is also in `codes`."""
    present = np.zeros(int(all_codes.max(initial=-1)) + 1, bool)
    present[codes] = True
    return np.asarray(present[all_codes])
