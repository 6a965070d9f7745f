"""The join in order of time: one store replaces slack buffers, sync buffer and windows (QDJ 4).

Rows are stored when they arrive. When the watermark of the results moves from m to m', the kernel
emits all pairs with times in [m, m'), in order; later rows add no pairs before m'. So a row waits
once, not in one buffer after the other, and a pair is built only when it is emitted.

Within an epoch the order of arrival does not matter: rows are compared with the watermark
in force before the epoch. Pairs of equal time are sorted by (time, arrival) of their row of self,
then of their row of other, however epochs are cut. Rows without a partner follow these pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.values import spread
from lowwater.control.measures import Measure, ShardMeasure
from lowwater.operators.join.loss_count import JoinObserver, OrderedLossCount
from lowwater.operators.join.match import JoinSides, has_keys
from lowwater.operators.join.ordered_plan import OrderedJoinPlan
from lowwater.operators.join.output import alone, paired
from lowwater.operators.join.plan import OTHER, SELF
from lowwater.operators.kernel import Composition, register
from lowwater.operators.row_kernel import PORTION, PortRows, RowKernel
from lowwater.operators.row_store import RowBucket, StoredRows
from lowwater.ticks import FIRST_TICK

COMPOSITIONS: frozenset[Composition] = frozenset({("none",), ("loss count",)})


def composition(plan: OrderedJoinPlan) -> Composition:
    """Return the name of the only strategy of `plan`, its observer, in a tuple."""
    return ("loss count" if plan.pair_unit else "none",)


@register(OrderedJoinPlan, COMPOSITIONS, composition)
class OrderedJoinKernel(RowKernel):
    """One epoch of one shard of a join in order of time."""

    def __init__(self, plan: OrderedJoinPlan, shard: int, state: Mapping[str, bytes]) -> None:
        observer = OrderedLossCount if plan.pair_unit else JoinObserver
        super().__init__(plan, shard, state, observer.stores)
        self.plan = plan
        self.observer = observer(self, plan)

    def advance(self, arrivals: list[PortRows], watermarks: list[int | None]) -> None:
        """Admit the new rows, then emit the results that the watermark has passed."""
        since = self._watermark_out(self.watermarks)
        for port, rows in enumerate(arrivals):
            self._account(port, rows, since)
        fresh = [rows.stored(~rows.dead) for rows in arrivals]
        if isinstance(self.observer, OrderedLossCount):
            self.observer.count(arrivals, since)
        self.watermarks = watermarks
        until = self._watermark_out(watermarks)
        if until > since:
            both = [self._side(p, fresh[p], since, until) for p in (SELF, OTHER)]
            times = np.unique(np.concatenate([rows.ticks for rows in both]))
            self._emit(JoinSides.of(self.plan, *both), times, since, until)
        for port in (SELF, OTHER):
            self._settle(port, fresh[port], until)
        self.observer.finish([self.plan.kept_from(port, until) for port in (SELF, OTHER)])

    def measures(self, shard: ShardMeasure) -> Sequence[Measure]:  # noqa: D102
        return self.observer.measures(shard)

    def _watermark_out(self, watermarks: Sequence[int | None]) -> int:
        """Return the watermark of the results, given the watermarks of both sides."""
        out = self.plan.mark_out(*watermarks)
        return FIRST_TICK if out is None else out

    def _account(self, port: int, rows: PortRows, watermark: int) -> None:
        """Emit late and partly late rows: all or some of their results are behind `watermark`."""
        earliest, latest = self.plan.results_of(port, rows.ticks)
        late = rows.dead | (latest < watermark)
        self.account(port, rows, late, ~late & (earliest < watermark))

    def _side(self, port: int, fresh: StoredRows, since: int, until: int) -> StoredRows:
        """Return the stored rows of a side with results in [since, until), then its new rows.

        If rows without a partner are results, all stored rows are returned.
        """
        store = self.stores[port]
        buckets = store.all if any(self.plan.preserved) else self._due(port, since, until)
        return StoredRows.together([*(store.read(b) for b in buckets), fresh])

    def _due(self, port: int, since: int, until: int) -> list[RowBucket]:
        """Return the buckets of a side whose rows may have results in [since, until)."""
        buckets = self.stores[port].all
        if not buckets:
            return []
        low, high = np.array([(b.low, b.high) for b in buckets], np.int64).T
        earliest, latest = self.plan.results_of(port, low)[0], self.plan.results_of(port, high)[1]
        due = (earliest < until) & (latest >= since)
        return [b for b, needed in zip(buckets, due.tolist(), strict=True) if needed]

    def _settle(self, port: int, fresh: StoredRows, watermark: int) -> None:
        """Evict rows without future results, and store new rows with future results."""
        limit = self.plan.kept_from(port, watermark)
        self.stores[port].cut(limit, wanted=False)
        needed = self.plan.preserved[port] | has_keys(self.plan, port, fresh.table)
        self.stores[port].add(fresh.where((fresh.ticks >= limit) & needed))

    # -- results ---------------------------------------------------------------------------------

    def _emit(self, sides: JoinSides, times: np.ndarray, since: int, until: int) -> None:
        """Emit the results with times in [since, until), in order.

        If they are too many for one packet, the two halves of the interval are emitted in turn.
        """
        probes, start, end = sides.met(self.plan, since, until)
        inside = times[(times > since) & (times < until)]
        if int((end - start).sum()) > PORTION and len(inside):
            middle = int(inside[len(inside) // 2])
            self._emit(sides, times, since, middle)
            self._emit(sides, times, middle, until)
            return
        pairs = [] if self.plan.how == "anti" else [self._pairs(sides, probes, start, end)]
        unmatched = [self._alone(sides, port, since, until) for port in (SELF, OTHER)]
        portions = [one for one in (*pairs, *unmatched) if len(one[0])]
        if len(portions) == 1:
            self.emit(portions[0][1])
        elif portions:
            at = np.concatenate([one[0] for one in portions])
            rows = pa.concat_tables([one[1] for one in portions])
            self.emit(rows.take(pa.array(np.argsort(at, kind="stable"))).combine_chunks())

    def _pairs(
        self, sides: JoinSides, probes: np.ndarray, start: np.ndarray, end: np.ndarray
    ) -> tuple[np.ndarray, pa.Table]:
        """Return (times, results) of the pairs, in order of time."""
        (mine, theirs), plan = sides.rows, self.plan
        place, which = spread(start, end)
        left, right = probes[which], sides.others.order[place]
        t, u = mine.ticks[left], theirs.ticks[right]
        at = plan.time_of(SELF, t, u)
        order = np.lexsort((right, u, left, t, at))
        return at[order], paired(plan, mine, theirs, left[order], right[order])

    def _alone(
        self, sides: JoinSides, port: int, since: int, until: int
    ) -> tuple[np.ndarray, pa.Table]:
        """Return (times, results) of rows of side `port` without a partner, in order of time."""
        if not self.plan.preserved[port]:
            return np.zeros(0, np.int64), pa.table({})
        rows = sides.unmatched(self.plan, port, since, until)
        return rows.ticks, alone(self.plan, port, rows)
