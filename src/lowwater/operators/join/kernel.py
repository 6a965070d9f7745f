"""OOP-Join: rows join on arrival, in any order (OOP 5.3).

New rows of self meet the stored and the new rows of other; stored rows of self meet the new rows of
other. A row is stored while a partner may still arrive, which depends on the watermark of the
*other* side: until `watermark_other > last(t)`. So rows that their own watermark has passed still
find their partners, as long as these are stored.

**Late rows.** Watermark m of a row's own side has made the other side evict all times before
`first(m)`. A row whose partners all lie before that, `last(t) < first(m)`, is late and takes no
part. A row with some partners there, `first(t) < first(m)`, is partly late: it joins the partners
that are stored and those still to come.

**Rows without a partner** leave when the watermark of the other side has passed all their partners.
A partly late row never does: its partner may have been evicted, and a row that claims to have none
would be wrong. It is emitted as a late row with `admitted` true; its missed pairs are unknown. A
late row does not leave as unmatched either. A row with a NULL key has no partner and still waits,
so that rows without a partner leave in the order of time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lowwater.aggregates.accumulators.values import spread
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
    """Return the strategies that a plan asks for: flush and observer."""
    flush = "at once" if plan.flush is None else "gradual"
    return flush, "loss count" if plan.remember and plan.flush is None else "none"


@dataclass
class _Side:
    """The rows of one side that may find partners in an epoch: `stored` ones, then new ones.

    A flag marks a row that will not leave as unmatched, whatever arrives.
    """

    buckets: list[RowBucket]
    rows: StoredRows
    stored: int
    flags: np.ndarray

    @property
    def fresh(self) -> StoredRows:
        """The new rows."""
        new = np.arange(len(self.rows)) >= self.stored
        return StoredRows(self.rows.table, self.rows.ticks, self.flags).where(new)


@register(JoinPlan, COMPOSITIONS, composition)
class JoinKernel(RowKernel):
    """One epoch of one shard of a join.

    `leave` decides when rows without a partner leave; `observer` counts the pairs that late rows
    have missed.
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
        """Join the rows that arrived, then evict the rows that no partner can meet."""
        self.observer.arrive(arrivals)
        fresh = [self._admit(port, rows) for port, rows in enumerate(arrivals)]
        sides = [self._side(port, fresh) for port in (SELF, OTHER)]
        self._join(sides)
        self.watermarks = watermarks
        for port in (SELF, OTHER):
            self._write_flags(port, sides[port])
            self._settle(port, sides[port].fresh)
        self.leave.finish()
        self.observer.finish([self._limit(port) for port in (SELF, OTHER)])

    def _admit(self, port: int, rows: PortRows) -> StoredRows:
        """Emit late and partly late rows, and return the rows that take part."""
        reach = self.plan.reaches[port]
        evicted = open_from(reach.inverse, self.watermarks[port])
        late = rows.dead | (reach.last(rows.ticks) < evicted)
        partly = ~late & (reach.first(rows.ticks) < evicted)
        self.account(port, rows, late, partly)
        return rows.stored(~late, partly)

    def _side(self, port: int, fresh: list[StoredRows]) -> _Side:
        """Return the new rows of a side with the stored ones that new partners may meet."""
        store, reach = self.stores[port], self.plan.reaches[port]
        buckets = reached(store.all, reach, fresh[1 - port].ticks)
        stored = self.observer.partners(port, [store.read(b) for b in buckets])
        rows = StoredRows.together([*stored, fresh[port]])
        return _Side(buckets, rows, len(rows) - len(fresh[port]), rows.flags.copy())

    def _join(self, sides: list[_Side]) -> None:
        """Emit the pairs of new rows with new and stored ones."""
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
        """Find the partners of some rows of self, and emit the pairs."""
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
        """Write which stored rows have found a partner, if rows without one are results."""
        if not self.plan.preserved[port]:
            return
        ends = np.cumsum([b.rows for b in side.buckets])
        for bucket, end in zip(side.buckets, ends.tolist(), strict=True):
            flags = side.flags[end - bucket.rows : end]
            if (flags != side.rows.flags[end - bucket.rows : end]).any():
                self.stores[port].flag(bucket, flags)

    def _settle(self, port: int, fresh: StoredRows) -> None:
        """Evict the rows that no partner can reach, and store the new ones that one can."""
        plan, store = self.plan, self.stores[port]
        limit = self._limit(port)
        waits = fresh.ticks >= limit
        needed = has_keys(plan, port, fresh.table)
        if plan.preserved[port]:
            gives_pairs = plan.how != "anti"
            needed = (needed & gives_pairs) | ~fresh.flags
            done = [*self.leave.completed(port, limit), fresh.where(~waits)]
            self.leave.leave(port, StoredRows.together([rows.where(~rows.flags) for rows in done]))
        else:
            store.cut(limit, wanted=False)
        store.add(fresh.where(waits & needed))

    def _limit(self, port: int) -> int:
        """Return the time before which rows of a side are evicted."""
        limit = open_from(self.plan.reaches[port], self.watermarks[1 - port])
        return self.observer.limit(limit)


def _have_code(codes: np.ndarray, all_codes: np.ndarray) -> np.ndarray:
    """Return which of all rows have one of `codes`."""
    present = np.zeros(int(all_codes.max(initial=-1)) + 1, bool)
    present[codes] = True
    return np.asarray(present[all_codes])
