"""Rows without a partner that leave little by little (OOP 6).

When no partner can meet a row any more, it moves from the rows that join to a queue, by (time,
arrival). All rows of a window get there in one epoch, so nothing may be done to each of them then:
buckets move as they are (`kernels/waiting.py`), only the one that the mark lies in is cut.

The queue moves on with the other side's mark. A row is complete at c = last(t) + 1 and has left at
c + delay. Say n rows wait up to the end of a bucket, the first of which is complete at c: when the
mark moves from m to m', an even pace takes n · (m' − m) / (c + delay − m) of them. The bucket that
asks for most sets the pace. So N rows that are complete together leave N / delay by the tick, and
those of a steady stream as fast as they come.

A *lazy* flush lets rows wait while there is room; then the first ones leave. In the second half of
the delay the queue moves on in any case.

Rows that have met a partner do not count as kept once they are complete. Their bytes stay in state
as long as a row of their bucket waits: to drop them earlier would mean to rewrite the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from lowwater.kernels.bands import MIN, open_from
from lowwater.kernels.flush import Smooth
from lowwater.kernels.joining import JoinEpoch
from lowwater.kernels.joins import OTHER, SELF, JoinPlan
from lowwater.kernels.row_buckets import Kept
from lowwater.kernels.row_epoch import Arrivals
from lowwater.kernels.waiting import Waiting, waiting_in
from lowwater.windows import FOREVER


class SmoothJoinEpoch(JoinEpoch):
    """An epoch of a join whose rows without a partner wait for their turn."""

    def __init__(self, plan: JoinPlan, shard: int, state: Mapping[str, bytes]) -> None:
        super().__init__(plan, shard, state, more_stores=[Waiting] * plan.ports)
        self._waiting = [store for store in self.stores if isinstance(store, Waiting)]
        self._before = self.marks
        self._smooth = plan.smooth or Smooth(0)

    def advance(self, arrivals: list[Arrivals], marks: list[int | None]) -> None:
        """Join, let go those whose turn it is, and what there is no room for."""
        super().advance(arrivals, marks)
        self._make_room()

    def completed(self, port: int, limit: int) -> list[Kept]:
        """Let whole buckets wait as they are; return the other rows."""
        self._waiting[port].take_over(self.stores[port], limit)
        return super().completed(port, limit)

    def leave(self, port: int, rows: Kept) -> None:
        """Let rows wait for their turn, and give out those whose turn it is."""
        mark, waiting = self.marks[1 - port], self._waiting[port]
        now = rows.ticks < (MIN if mark is None else self.plan.left_from(port, mark))
        waiting.add(rows.where(~now))
        turn = 0 if mark is None else self._turn(port, mark)
        super().leave(port, Kept.together([*waiting.first(turn), rows.where(now)]))

    def _turn(self, port: int, mark: int) -> int:
        """Return how many rows of a side's queue leave when the other's mark has come so far."""
        waiting, reach, idle = self._waiting[port], self.plan.reaches[port], self._smooth.idle
        if mark >= FOREVER:
            return waiting.rows
        before = self._before[1 - port]
        count = turn = 0
        for bucket in waiting.all:
            count += waiting_in(bucket)
            complete = reach.last(bucket.low) + 1
            begin, end = complete + idle, complete + self._smooth.delay
            since = begin if before is None else max(begin, before)
            if mark <= since:
                break
            turn = max(turn, count if mark >= end else _share(count, mark - since, end - since))
        return min(turn, waiting.before(open_from(reach, mark - idle)))

    def _make_room(self) -> None:
        """Give out what waits, the first rows, while more is kept than there is room."""
        if self._smooth.room is None:
            return
        room = self._smooth.room // self.plan.shards
        for port in (SELF, OTHER):
            excess = min(sum(s.rows for s in self.stores) - room, self._waiting[port].rows)
            if excess > 0:
                super().leave(port, Kept.together(self._waiting[port].first(excess)))


def _share(count: int, part: int, whole: int) -> int:
    """Return `part / whole` of a count, no less."""
    return -(-count * part // whole)
