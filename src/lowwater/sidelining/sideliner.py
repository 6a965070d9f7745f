"""The sideliner: the component that decides after every epoch which rows to hold and release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import ClassVar, TypeAlias

from lowwater.control.hold import HeldInterval, HoldDecision
from lowwater.control.report import EpochReport
from lowwater.control.watermark import latest
from lowwater.event_clock import ClockMemory, EventClock
from lowwater.sidelining.policy import Sideline
from lowwater.windows.sliding import Sliding

TOLERATED = 4
"""In a burst, the newest time is more than slide / `TOLERATED` behind event time."""
QUEUED = 256
"""If a queue has more entries than this, neighbouring entries are merged."""


@dataclass(frozen=True)
class HeldRows:
    """`rows` is the number of rows of held interval `interval` that arrived at clock `arrived`."""

    interval: int
    arrived: int
    rows: int


Queue: TypeAlias = tuple[HeldRows, ...]
"""The rows that a shard holds, in the order of their release."""
Queues: TypeAlias = dict[int, dict[int, Queue]]
"""The queues, as {hold operator: {shard: queue}}."""


@dataclass(frozen=True)
class SidelineMemory:
    """The memory of the sideliner.

    - `next`: The number of the next held interval.
    - `now`, `length`: The clock at the end of the last epoch, and the length of the last epoch.
    - `queues`: The rows that are held.
    - `owed`: {hold operator: number of new rows since its last release}.
    - `most`: {hold operator: largest number of new rows in an epoch}.
    - `prodded`: {operator: end of the last window with an early result}.
    - `clock`: The memory of the event clock, if newest windows come first.
    """

    VERSION: ClassVar[int] = 2

    next: int = 1
    now: int | None = None
    length: int = 0
    queues: Queues = field(default_factory=dict)
    owed: dict[int, int] = field(default_factory=dict)
    most: dict[int, int] = field(default_factory=dict)
    prodded: dict[int, int] = field(default_factory=dict)
    clock: ClockMemory | None = None

    def held_rows(self, hold: int | None) -> list[HeldRows]:
        """Return the held rows of hold operator `hold` in all shards."""
        queues = {} if hold is None else self.queues.get(hold, {})
        return [rows for queue in queues.values() for rows in queue]


@dataclass(frozen=True)
class BurstWindow:
    """An operator whose windows a burst may hit: its number, port, window spec and inputs."""

    operator: int
    port: int
    spec: Sliding
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class HoldPoint:
    """A hold operator after an input; `port` is the number of the hold operator's port."""

    operator: int
    port: int
    input: int


@dataclass(frozen=True)
class Sideliner:
    """The component that chooses, after every epoch, intervals to hold and rows to release."""

    how: Sideline
    clock: EventClock
    windows: tuple[BurstWindow, ...]
    holds: tuple[HoldPoint, ...]

    memory_type: ClassVar[type[SidelineMemory]] = SidelineMemory

    def begin(self) -> SidelineMemory:
        """Return the memory before the first epoch."""
        return SidelineMemory()

    def advance(
        self, memory: SidelineMemory, report: EpochReport
    ) -> tuple[SidelineMemory, HoldDecision]:
        """Return the memory after an epoch, and the holds and releases of the next epoch."""
        before = report.now if memory.now is None else memory.now
        queues = _with_arrivals(memory.queues, report)
        memory = replace(memory, now=report.now, length=report.now - before, queues=queues)
        release = {}
        for hold in self.holds:
            memory, released = self._release(hold, memory, report)
            if released:
                release[hold.port] = released
        held = [h for h in report.held if not self._over(h, memory, report)]
        memory = replace(memory, clock=self._clock(memory.clock, report))
        if not report.ended:
            memory = replace(memory, prodded=self._prodded(memory.prodded, report))
            for window in self.windows:
                interval = self._backlog(window, memory, held, report)
                if interval is None:
                    interval = self.chosen(window, memory.prodded, held, report)
                if interval is not None:
                    held.append(HeldInterval(memory.next, window.operator, *interval))
                    memory = replace(memory, next=memory.next + 1)
        return memory, HoldDecision(tuple(held), release)

    def due(self, memory: SidelineMemory) -> bool:
        """Return whether rows are held, so that an epoch without new rows could release them."""
        return any(held.rows for hold in memory.queues for held in memory.held_rows(hold))

    def chosen(
        self,
        window: BurstWindow,
        prodded: Mapping[int, int],
        held: Sequence[HeldInterval],
        report: EpochReport,
    ) -> tuple[int, int] | None:
        """Return the interval (start, end) to hold if a burst has hit a window; otherwise None."""
        newest, answered = newest_time(window, report), prodded.get(window.operator)
        arrived = sum(map(report.measured.rows, window.inputs))
        if newest is None or answered is None or not arrived:
            return None
        event = self._event(report)
        if event is None:
            return None
        end, behind = window.spec.align(min(answered, event)), event - newest
        hit = end > newest and TOLERATED * behind > window.spec.slide
        return free_interval(window, end, held, report) if hit else None

    def _backlog(
        self,
        window: BurstWindow,
        memory: SidelineMemory,
        held: Sequence[HeldInterval],
        report: EpochReport,
    ) -> tuple[int, int] | None:
        """Return the interval (start, end) of a backlog to hold, if newest windows come first."""
        ago, clock = self.how.newest_first, memory.clock
        event = None if clock is None else self.clock.now(clock, report.now)
        newest = newest_time(window, report)
        if ago is None or event is None or newest is None:
            return None
        end = window.spec.align(event - ago)
        return free_interval(window, end, held, report) if end > newest else None

    def _clock(self, before: ClockMemory | None, report: EpochReport) -> ClockMemory | None:
        """Return the memory of the event clock after an epoch; None if it is not needed."""
        if self.how.newest_first is None:
            return None
        return self._advanced(before or ClockMemory(), report)

    def _advanced(self, before: ClockMemory, report: EpochReport) -> ClockMemory:
        newest = latest(*(newest_time(w, report) for w in self.windows))
        rows = any(report.measured.rows(n) for w in self.windows for n in w.inputs)
        return self.clock.advance(before, newest, report.now, rows=rows)

    def _event(self, report: EpochReport) -> int | None:
        """Return the current event time, by the same event clock as for early results."""
        return self.clock.now(self._advanced(report.clock, report), report.now)

    def _prodded(self, before: Mapping[int, int], report: EpochReport) -> dict[int, int]:
        """Return {operator: end of the last window with an early result} after an epoch."""
        prodded = dict(before)
        for window in self.windows:
            newest = newest_time(window, report)
            for prod in report.answered:
                if not prod.asks(window.operator) or newest is None:
                    continue
                begun = int(window.spec.end(window.spec.last(newest)))
                upto = begun if prod.upto is None else prod.upto
                prodded[window.operator] = max(upto, prodded.get(window.operator, upto))
        return prodded

    def _release(
        self, hold: HoldPoint, memory: SidelineMemory, report: EpochReport
    ) -> tuple[SidelineMemory, dict[int, int]]:
        """Return the memory after a release, and {shard: number of rows to release}."""
        number = hold.operator
        queues = memory.queues.get(number, {})
        waiting = {shard: sum(one.rows for one in queue) for shard, queue in queues.items()}
        total = sum(waiting.values())
        arrived = report.measured.rows(hold.input)
        mine = report.measured.of_operator(number)
        new = arrived - sum(rows for m in mine for _, rows in m.held)
        most = max(new, memory.most.get(number, 1))
        memory = replace(memory, most={**memory.most, number: most})
        if report.ended:
            quota = total
        elif not arrived:  # idle: release as many rows as the largest epoch had
            quota = min(total, most)
        else:
            owed = memory.owed.get(number, 0) + new if total else 0
            memory = replace(memory, owed={**memory.owed, number: owed % self.how.every})
            quota = min(total, owed // self.how.every)
        released = _shared(quota, waiting)
        late = report.now + memory.length - self.how.max_delay
        left = {}
        for shard, queue in queues.items():
            released[shard] = max(released[shard], _overdue(queue, late))
            left[shard] = _without(queue, released[shard])
        if left:
            memory = replace(memory, queues={**memory.queues, number: left})
        return memory, {shard: n for shard, n in released.items() if n}

    def _over(self, held: HeldInterval, memory: SidelineMemory, report: EpochReport) -> bool:
        """Return whether the interval `held` is complete and has no rows in the queues."""
        window = next(w for w in self.windows if w.operator == held.operator)
        low = report.unheld[window.port].nominal
        if low is None or low < held.end:
            return False
        waiting = (one for hold in memory.queues for one in memory.held_rows(hold))
        return not any(one.interval == held.number and one.rows for one in waiting)


def free_interval(
    window: BurstWindow, end: int, held: Sequence[HeldInterval], report: EpochReport
) -> tuple[int, int] | None:
    """Return the interval up to `end` that is neither complete nor held; None if it is empty."""
    low = report.unheld[window.port].nominal
    start = end - window.spec.range if low is None else low
    start = max([start, *(h.end for h in held if h.operator == window.operator)])
    return (start, end) if start < end else None


def newest_time(window: BurstWindow, report: EpochReport) -> int | None:
    """Return the newest time of the inputs of `window`."""
    return latest(*(report.inputs[n].newest for n in window.inputs))


def _with_arrivals(before: Queues, report: EpochReport) -> Queues:
    """Return the queues plus the rows that were held in an epoch."""
    queues = {hold: dict(shards) for hold, shards in before.items()}
    for m in report.measured.shards:
        if not m.held:
            continue
        shards = queues.setdefault(m.operator, {})
        more = [HeldRows(interval, report.now, rows) for interval, rows in m.held]
        queue = (*shards.get(m.shard, ()), *more)
        shards[m.shard] = _shortened(sorted(queue, key=attrgetter("interval", "arrived")))
    return queues


def _shared(quota: int, waiting: Mapping[int, int]) -> dict[int, int]:
    """Return {shard: part of `quota`} in proportion to `waiting`, which is {shard: held rows}.

    >>> _shared(4, {0: 6, 1: 2})
    {0: 3, 1: 1}
    """
    total = sum(waiting.values())
    parts = {s: min(n, quota * n // total) if total else 0 for s, n in waiting.items()}
    left = min(quota, total) - sum(parts.values())
    for shard, n in waiting.items():
        more = min(left, n - parts[shard])
        parts[shard] += more
        left -= more
    return parts


def _overdue(queue: Queue, late: int) -> int:
    """Return how many rows to release, so that all rows that arrived up to `late` leave."""
    last = max((i for i, one in enumerate(queue) if one.arrived <= late), default=-1)
    return sum(one.rows for one in queue[: last + 1])


def _without(queue: Queue, rows: int) -> Queue:
    """Return `queue` without its first `rows` rows."""
    left = list(queue)
    while rows and left:
        taken = min(rows, left[0].rows)
        rows -= taken
        if taken == left[0].rows:
            del left[0]
        else:
            left[0] = replace(left[0], rows=left[0].rows - taken)
    return tuple(left)


def _shortened(queue: Sequence[HeldRows]) -> Queue:
    """Return `queue`; in a long queue, pairs of neighbouring entries are merged."""
    if len(queue) <= QUEUED:
        return tuple(queue)
    shorter: list[HeldRows] = []
    for n, one in enumerate(queue):
        if n % 2 and shorter[-1].interval == one.interval:
            shorter[-1] = replace(shorter[-1], rows=shorter[-1].rows + one.rows)
        else:
            shorter.append(one)
    return tuple(shorter)
