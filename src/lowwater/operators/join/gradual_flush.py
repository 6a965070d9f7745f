"""The emission of rows without a partner from a join: at once or gradually (OOP 6).

**Gradually.** When no partner of a row can arrive any more, the row is complete and moves from the
store to a queue, sorted by (time, arrival). One epoch may move all rows of a window, so the cost
must not depend on their number: whole buckets move without being read (row_queue.py), and only a
bucket that also has incomplete rows is rewritten.

The queue advances with the watermark of the other side. A row at t is complete at c = last(t) + 1
and emitted by c + delay. For each bucket, n counts the waiting rows up to the bucket's end, and c
belongs to its first row. When the watermark moves from m to m', the bucket requires an emission of
n · (m' − m) / (c + delay − m) rows; the largest such number is emitted. So N rows that are complete
together are emitted at N / delay rows per tick, and rows of a steady stream as fast as they arrive.

A *lazy* flush lets rows wait while the state has room; then it emits the first rows of the queue.
In the second half of the delay the queue advances in any case.

The number of rows in state excludes complete rows with a partner. Their bytes stay while a row of
the same bucket waits, because deleting them earlier would mean rewriting the bucket.
"""

from __future__ import annotations

from typing import ClassVar

from lowwater.operators.join.band import open_from
from lowwater.operators.join.output import alone
from lowwater.operators.join.plan import OTHER, SELF, JoinPlan
from lowwater.operators.operator import GradualFlush
from lowwater.operators.row_kernel import RowKernel
from lowwater.operators.row_queue import RowQueue, waiting_in
from lowwater.operators.row_store import RowStore, StoredRows
from lowwater.ticks import END, FIRST_TICK


class Leave:
    """The strategy that emits a row without a partner as soon as no partner can arrive."""

    stores: ClassVar[tuple[type[RowStore], ...]] = ()
    """The types of the stores that the strategy adds to the stores of the ports."""

    def __init__(self, kernel: RowKernel, plan: JoinPlan) -> None:
        self.kernel, self.plan = kernel, plan

    def completed(self, port: int, limit: int) -> list[StoredRows]:
        """Remove and return the stored rows before `limit`, which get no more partners."""
        return self.kernel.stores[port].cut(limit, wanted=True)

    def leave(self, port: int, rows: StoredRows) -> None:
        """Emit `rows`, which are complete and have no partner. Called once per side in an epoch."""
        self.kernel.emit(alone(self.plan, port, rows.in_order()))

    def finish(self) -> None:
        """Reduce the state if it is too large. Called last in an epoch."""


class GradualLeave(Leave):
    """The strategy that puts rows without a partner into a queue, and emits them gradually."""

    stores: ClassVar[tuple[type[RowStore], ...]] = (RowQueue, RowQueue)

    def __init__(self, kernel: RowKernel, plan: JoinPlan) -> None:
        super().__init__(kernel, plan)
        self._queues = [store for store in kernel.stores if isinstance(store, RowQueue)]
        self._before = kernel.watermarks
        self._flush = plan.flush or GradualFlush(0)

    def completed(self, port: int, limit: int) -> list[StoredRows]:
        """Move whole buckets before `limit` to the queue; return the other rows before `limit`."""
        self._queues[port].take_over(self.kernel.stores[port], limit)
        return super().completed(port, limit)

    def leave(self, port: int, rows: StoredRows) -> None:
        """Add `rows` to the queue, and emit the rows that are due."""
        watermark, queue = self.kernel.watermarks[1 - port], self._queues[port]
        left = FIRST_TICK if watermark is None else self.plan.left_from(port, watermark)
        now = rows.ticks < left
        queue.add(rows.where(~now))
        turn = 0 if watermark is None else self._turn(port, watermark)
        super().leave(port, StoredRows.together([*queue.first(turn), rows.where(now)]))

    def _turn(self, port: int, watermark: int) -> int:
        """Return how many rows of the queue of `port` to emit at the other side's `watermark`."""
        queue, reach, idle = self._queues[port], self.plan.reaches[port], self._flush.idle
        if watermark >= END:
            return queue.rows
        before = self._before[1 - port]
        count = turn = 0
        for bucket in queue.all:
            count += waiting_in(bucket)
            complete = reach.last(bucket.low) + 1
            begin, end = complete + idle, complete + self._flush.delay
            since = begin if before is None else max(begin, before)
            if watermark <= since:
                break
            # An even pace up to `end`, rounded up.
            share = count if watermark >= end else -(-count * (watermark - since) // (end - since))
            turn = max(turn, share)
        return min(turn, queue.before(open_from(reach, watermark - idle)))

    def finish(self) -> None:
        """Emit the first rows of the queues while the state has more rows than `room`."""
        if self._flush.room is None:
            return
        room = self._flush.room // self.plan.shards
        for port in (SELF, OTHER):
            stored = sum(s.rows for s in self.kernel.stores)
            excess = min(stored - room, self._queues[port].rows)
            if excess > 0:
                super().leave(port, StoredRows.together(self._queues[port].first(excess)))
