"""Sidelining: which rows of a burst are put aside, and when they are worked off (PROD 6.2 a).

A window is hit by a burst if time has passed its end while rows of it are still coming: the stream
is worked off too slowly. Once it has been answered early, its rows can wait. So those that follow
are put aside, by pane, and the windows behind them are on time. What is put aside is worked off
with low priority: one row for every so many new ones, more when the stream is idle, and each within
a delay of the system clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lowwater.control import Aside, Backlog, Sidelined
from lowwater.durations import Duration, ticks
from lowwater.errors import SpecError
from lowwater.prodding.clock import EventClock
from lowwater.windows import Sliding

Queue: TypeAlias = list[list[int]]
"""Rows that wait in a shard, in the order in which they leave: [stretch, when they came, rows]."""
TOLERATED = 4
"""A stream may be behind by a slide over this: epochs take time, and rows come unevenly."""
QUEUED = 256
"""So many entries of a queue are told apart; beyond, neighbours are taken together."""


@dataclass(frozen=True)
class Sideline:
    """How rows that are put aside are worked off."""

    every: int = 3
    max_delay: int = 60_000_000


def sideline(*, every: int = 3, max_delay: Duration = "1 minute") -> Sideline:
    """Work off one row that was put aside for every so many new ones, each within `max_delay`.

    >>> sideline(every=10)
    Sideline(every=10, max_delay=60000000)
    """
    if type(every) is not int or every < 1:
        raise SpecError(
            f"sideline(every={every!r}) must be a whole number from 1: one row that was put aside "
            f"is worked off for every so many new ones"
        )
    span = ticks(max_delay, name="max_delay")
    if span <= 0:
        raise SpecError(f"sideline(max_delay={max_delay!r}) must be greater than zero")
    return Sideline(every, span)


@dataclass(frozen=True)
class Hit:
    """Windows that a burst may hit: their operator, the number of its port, and who feeds it."""

    operator: int
    port: int
    spec: Sliding
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Hold:
    """An operator that keeps rows of an input on their way to another, and its port's number."""

    operator: int
    port: int
    input: int


@dataclass(frozen=True)
class Sideliner:
    """Decides after every epoch. What it remembers is JSON, for it lives in the control log."""

    how: Sideline
    clock: EventClock
    windows: tuple[Hit, ...]
    holds: tuple[Hold, ...]

    def advance(self, memory: Mapping[str, Any], known: Backlog) -> Aside:
        """Return what is put aside from the next epoch on, and what is worked off in it."""
        kept = {"next": 1, "queues": {}, "owed": {}, "most": {}, "prodded": {}, **memory}
        kept["length"] = known.now - memory.get("now", known.now)
        kept["now"] = known.now
        kept["queues"] = self._queued(kept["queues"], known)
        release = {}
        for hold in self.holds:
            called = self._release(hold, kept, known)
            if called:
                release[hold.port] = called
        held = [h for h in known.held if not self._over(h, kept["queues"], known)]
        if not known.ended:
            kept["prodded"] = self._prodded(kept["prodded"], known)
            for window in self.windows:
                found = self.chosen(window, kept["prodded"], held, known)
                if found is not None:
                    held.append(Sidelined(kept["next"], window.operator, *found))
                    kept["next"] += 1
        return Aside(tuple(held), release, kept)

    def due(self, memory: Mapping[str, Any]) -> bool:
        """Say whether rows wait."""
        queues = memory.get("queues", {}).values()
        return any(rows for shards in queues for queue in shards.values() for *_, rows in queue)

    # -- which rows are put aside ------------------------------------------------------------------

    def chosen(
        self,
        window: Hit,
        prodded: Mapping[str, int],
        held: Sequence[Sidelined],
        known: Backlog,
    ) -> tuple[int, int] | None:
        """Return the stretch of time of windows that a burst has hit, in whole panes."""
        newest, event = self._newest(window, known), self._event(known)
        answered = prodded.get(str(window.operator))
        came = sum(m.get("rows", 0) for m in known.measured if m.get("input") in window.inputs)
        if newest is None or event is None or answered is None or not came:
            return None
        end, behind = window.spec.align(min(answered, event)), event - newest
        hit = end > newest and TOLERATED * behind > window.spec.slide
        return self._free(window, end, held, known) if hit else None

    @staticmethod
    def _free(
        window: Hit, end: int, held: Sequence[Sidelined], known: Backlog
    ) -> tuple[int, int] | None:
        """Return the part before `end` that is neither complete nor put aside already."""
        low = known.ports[window.port].nominal
        start = end - window.spec.range if low is None else low
        taken = [h.end for h in held if h.operator == window.operator]
        start = max([start, *taken])
        return (start, end) if start < end else None

    def _newest(self, window: Hit, known: Backlog) -> int | None:
        newest = [known.inputs[n].newest for n in window.inputs]
        return max((n for n in newest if n is not None), default=None)

    def _event(self, known: Backlog) -> int | None:
        """Return the time in the streams, by the clock that prods go by."""
        newest = [self._newest(w, known) for w in self.windows]
        latest = max((n for n in newest if n is not None), default=None)
        clock = self.clock.advance(known.prodding.get("clock", {}), latest, known.now)
        return self.clock.now(clock, known.now)

    def _prodded(self, before: Mapping[str, int], known: Backlog) -> dict[str, int]:
        """Return up to which end the windows of each operator have been answered early."""
        found = dict(before)
        for window in self.windows:
            name, newest = str(window.operator), self._newest(window, known)
            for prod in known.answered:
                if not prod.asks(window.operator) or newest is None:
                    continue
                begun = int(window.spec.end(window.spec.last(newest)))
                upto = begun if prod.upto is None else prod.upto
                found[name] = max(upto, found.get(name, upto))
        return found

    # -- when they are worked off ------------------------------------------------------------------

    def _queued(
        self, before: Mapping[str, Mapping[str, Queue]], known: Backlog
    ) -> dict[str, dict[str, Queue]]:
        """Return the rows that wait after an epoch, by hold and shard."""
        found = {h: {s: [list(e) for e in q] for s, q in qs.items()} for h, qs in before.items()}
        for m in known.measured:
            if not m.get("came"):
                continue
            queue = found.setdefault(str(m["operator"]), {}).setdefault(str(m["shard"]), [])
            queue += [[stretch, known.now, rows] for stretch, rows in m["came"]]
            queue.sort(key=lambda e: e[:2])
            _shorten(queue)
        return found

    def _release(self, hold: Hold, kept: dict[str, Any], known: Backlog) -> dict[int, int]:
        """Return how many rows each shard of a hold is to give out, and take them off its queue."""
        name = str(hold.operator)
        queues: dict[str, Queue] = kept["queues"].get(name, {})
        waiting = {s: sum(rows for *_, rows in q) for s, q in queues.items()}
        came = sum(m.get("rows", 0) for m in known.measured if m.get("input") == hold.input)
        new = came - self._put_aside(name, known)
        kept["most"] = {**kept["most"], name: max(new, kept["most"].get(name, 1))}
        if known.ended:
            quota = sum(waiting.values())
        elif not came:  # idle: as much as an epoch has ever worked on
            quota = min(sum(waiting.values()), kept["most"][name])
        else:
            quota = self._quota(name, new, sum(waiting.values()), kept)
        called = _shared(quota, waiting)
        late = known.now + kept["length"] - self.how.max_delay
        for shard, queue in queues.items():
            called[shard] = max(called[shard], _overdue(queue, late))
            _take(queue, called[shard])
        return {int(shard): n for shard, n in called.items() if n}

    def _put_aside(self, name: str, known: Backlog) -> int:
        """Return how many rows a hold has taken in."""
        mine = [m for m in known.measured if str(m.get("operator")) == name]
        return sum(rows for m in mine for _, rows in m.get("came", ()))

    def _quota(self, name: str, new: int, waiting: int, kept: dict[str, Any]) -> int:
        """Return how many rows new ones bring with them."""
        owed = int(kept["owed"].get(name, 0)) + new if waiting else 0
        kept["owed"] = {**kept["owed"], name: owed % self.how.every}
        return min(waiting, owed // self.how.every)

    def _over(
        self, held: Sidelined, queues: Mapping[str, Mapping[str, Queue]], known: Backlog
    ) -> bool:
        """Say whether no row of a stretch waits after the next epoch, and none will come."""
        window = next(w for w in self.windows if w.operator == held.operator)
        low = known.ports[window.port].nominal
        if low is None or low < held.end:
            return False
        waiting = (e for shards in queues.values() for q in shards.values() for e in q)
        return not any(stretch == held.number and rows for stretch, _, rows in waiting)


def _shared(quota: int, waiting: Mapping[str, int]) -> dict[str, int]:
    """Share a quota among shards, by the rows that wait in each.

    >>> _shared(4, {"0": 6, "1": 2})
    {'0': 3, '1': 1}
    """
    total = sum(waiting.values())
    found = {s: min(n, quota * n // total) if total else 0 for s, n in waiting.items()}
    left = min(quota, total) - sum(found.values())
    for shard, n in waiting.items():
        more = min(left, n - found[shard])
        found[shard] += more
        left -= more
    return found


def _overdue(queue: Queue, late: int) -> int:
    """Return how many rows must leave for none to be left that came at `late` or before."""
    last = max((i for i, (_, came, _) in enumerate(queue) if came <= late), default=-1)
    return sum(rows for *_, rows in queue[: last + 1])


def _take(queue: Queue, rows: int) -> None:
    """Take rows off the front of a queue."""
    while rows and queue:
        taken = min(rows, queue[0][2])
        rows -= taken
        queue[0][2] -= taken
        if not queue[0][2]:
            del queue[0]


def _shorten(queue: Queue) -> None:
    """Take neighbours of a long queue together, as if all had come when the first did."""
    if len(queue) <= QUEUED:
        return
    shorter: Queue = []
    for n, (stretch, came, rows) in enumerate(queue):
        if n % 2 and shorter[-1][0] == stretch:
            shorter[-1][2] += rows
        else:
            shorter.append([stretch, came, rows])
    queue[:] = shorter
