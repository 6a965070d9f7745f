"""When rows without a partner leave a join: at once or gradually (OOP 6).

**Gradually.** When no partner can meet a row, it moves from the rows that join to a queue, by
(time, arrival). All rows of a window get there in one epoch, so the epoch must not touch each of
them: buckets move as they are (row_queue.py), and only the bucket that the watermark cuts is
rewritten.

The queue advances with the other side's watermark. A row is complete at c = last(t) + 1 and has
left at c + delay. Let n rows wait up to the end of a bucket whose first row is complete at c. When
the watermark moves from m to m', an even pace takes n · (m' − m) / (c + delay − m) of them. The
bucket that asks for most rows sets the pace. So N rows that are complete together leave at N /
delay rows per tick, and those of a steady stream leave as fast as they arrive.

A *lazy* flush lets rows wait while there is room; then the first ones leave. In the second half of
the delay the queue advances in any case.

Rows that have met a partner do not count as state once they are complete. Their bytes stay as long
as a row of their bucket waits: to drop them earlier, the others would have to be rewritten.
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
    """Rows without a partner leave a join as soon as none can come."""

    stores: ClassVar[tuple[type[RowStore], ...]] = ()
    """The stores that the strategy adds to those of the ports."""

    def __init__(self, kernel: RowKernel, plan: JoinPlan) -> None:
        self.kernel, self.plan = kernel, plan

    def completed(self, port: int, limit: int) -> list[StoredRows]:
        """Remove and return the stored rows before `limit`, which no partner can reach."""
        return self.kernel.stores[port].cut(limit, wanted=True)

    def leave(self, port: int, rows: StoredRows) -> None:
        """Emit rows of a side that have met no partner. Called for each side in an epoch."""
        self.kernel.emit(alone(self.plan, port, rows.in_order()))

    def finish(self) -> None:
        """Act on the size of the state. Called last in an epoch."""


class GradualLeave(Leave):
    """Rows without a partner wait for their turn in a queue."""

    stores: ClassVar[tuple[type[RowStore], ...]] = (RowQueue, RowQueue)

    def __init__(self, kernel: RowKernel, plan: JoinPlan) -> None:
        super().__init__(kernel, plan)
        self._queues = [store for store in kernel.stores if isinstance(store, RowQueue)]
        self._before = kernel.watermarks
        self._flush = plan.flush or GradualFlush(0)

    def completed(self, port: int, limit: int) -> list[StoredRows]:
        """Queue whole buckets as they are, and return the other rows before `limit`."""
        self._queues[port].take_over(self.kernel.stores[port], limit)
        return super().completed(port, limit)

    def leave(self, port: int, rows: StoredRows) -> None:
        """Queue rows, and emit those whose turn it is."""
        watermark, queue = self.kernel.watermarks[1 - port], self._queues[port]
        left = FIRST_TICK if watermark is None else self.plan.left_from(port, watermark)
        now = rows.ticks < left
        queue.add(rows.where(~now))
        turn = 0 if watermark is None else self._turn(port, watermark)
        super().leave(port, StoredRows.together([*queue.first(turn), rows.where(now)]))

    def _turn(self, port: int, watermark: int) -> int:
        """Return how many rows of a side's queue leave at a watermark of the other side."""
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
        """Emit the first rows of the queues while the state exceeds the room for it."""
        if self._flush.room is None:
            return
        room = self._flush.room // self.plan.shards
        for port in (SELF, OTHER):
            stored = sum(s.rows for s in self.kernel.stores)
            excess = min(stored - room, self._queues[port].rows)
            if excess > 0:
                super().leave(port, StoredRows.together(self._queues[port].first(excess)))
