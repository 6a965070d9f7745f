"""When early answers are requested, without the engine: the policies of `early=` over a stream.

The host has a trigger: at each tick it runs an epoch if rows have arrived, if control waits, or if
a prod is due by the clock. A watermark, newest time minus slack, is decided in one epoch and closes
windows in the next, after that epoch's rows. A prod is decided in one epoch, too, and answered at
the end of the next.

The *lead moment* of a window is the system time at which the position of the stream reaches the
lead before the window's end. The position is the newest event time, continued by the system clock:
the largest event time plus age of all rows of the last `NEAR` epochs, computed from each row and
not, like the event clock, from epochs. The window is answered in time if one of its early results
comes not earlier than an epoch before its lead moment, and not later than at the end of the epoch
that follows the one with the lead moment, or if it has its final by then.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from experiments.arena.stream import ArenaStream, Ticks
from lowwater.codec import decode, encode
from lowwater.control.prod import Prod
from lowwater.early.arrivals import count_arrivals
from lowwater.early.policies import EarlyOutput, Moment, OutputNews, ProdMemory, ProdPolicy
from lowwater.early.window_ends import WindowEnds
from lowwater.event_clock import REMEMBERED, SPAN, ClockMemory, EventClock
from lowwater.intervals import Intervals, union
from lowwater.planner.early import BINS_PER_SLIDE
from lowwater.windows.sliding import Sliding

Memory = TypeVar("Memory", ProdMemory, ClockMemory)
NEVER = np.iinfo(np.int64).max // 4
NEVER_TICK = 1 << 32
"""A number that no tick reaches."""
NEAR = REMEMBERED + SPAN // 2
"""The epochs whose rows determine the position of the stream."""
CLOCK = EventClock()


@dataclass(frozen=True, eq=False)
class Asks:
    """The prods and answers of each window that holds a row.

    Attributes
    ----------
    asked
        The number of prods.
    answers
        All answers with a row, as (window, tick), sorted; windows are counted in their order.
    prods
        The ticks and the windows of all prods, as (tick, since, upto).
    """

    asked: Ticks
    answers: list[tuple[int, int]]
    prods: list[tuple[int, int, int]]

    def answered(self, first: Ticks, last: Ticks) -> np.ndarray:
        """Return a mask of the windows with an answer from tick `first` to `last` of each."""
        window, tick = np.array(self.answers, np.int64).reshape(-1, 2).T
        codes, own = window * NEVER_TICK + tick, np.arange(len(self.asked)) * NEVER_TICK
        until = np.searchsorted(codes, own + last, side="right")
        return np.asarray(until > np.searchsorted(codes, own + first, side="left"))


@dataclass(frozen=True, eq=False)
class AskSimulation:
    """A stream under a constant slack, at the ticks of a trigger.

    `pauses` are spans of system time, as (start, end), without ticks: the host is busy or down.
    """

    stream: ArenaStream
    slack: int
    pauses: tuple[tuple[int, int], ...] = ()

    @property
    def grid(self) -> WindowEnds:
        """The windows."""
        return WindowEnds((Sliding(range=self.stream.range, slide=self.stream.slide),))

    @cached_property
    def ticks(self) -> Ticks:
        """The system times of the ticks, up to a few after the last row."""
        epoch, arrived = self.stream.epoch, self.stream.arrived
        first, last = int(arrived[0]) // epoch, int(arrived[-1]) // epoch
        every = np.arange(first + 1, last + 4, dtype=np.int64) * epoch
        paused = [(start <= every) & (every < end) for start, end in self.pauses]
        return every[~np.any(paused, axis=0)] if paused else every

    @cached_property
    def bounds(self) -> Ticks:
        """For each tick, the number of rows that have arrived by then."""
        return np.searchsorted(self.stream.arrived, self.ticks, side="left")

    @cached_property
    def newest(self) -> Ticks:
        """The newest event time at each tick."""
        running = np.maximum.accumulate(self.stream.ts)
        return np.asarray(running[np.maximum(self.bounds - 1, 0)], np.int64)

    @cached_property
    def closing(self) -> Ticks:
        """The watermark that closes windows at each tick, and at one more."""
        return np.concatenate([[-NEVER], self.newest - self.slack])

    @cached_property
    def windows(self) -> tuple[Ticks, Ticks, Ticks]:
        """(ends of the windows, arrival of the first row of each, tick of its epoch)."""
        stream = self.stream
        tick = self.row_tick
        closed = np.concatenate([[-NEVER], self.closing[:-1]])[tick]
        found: list[tuple[Ticks, Ticks, Ticks]] = []
        for n in range(-(-stream.range // stream.slide)):
            ends = (stream.ts // stream.slide - n) * stream.slide + stream.range
            mine = (ends > stream.ts) & (ends > closed)
            found.append((ends[mine], stream.arrived[mine], tick[mine]))
        ends, arrived, at = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.lexsort((arrived, ends))
        first = np.unique(ends[order], return_index=True)[1]
        return tuple(part[order][first] for part in (ends, arrived, at))  # type: ignore[return-value]

    @property
    def ends(self) -> Ticks:
        """The ends of the windows that hold a row."""
        return self.windows[0]

    @cached_property
    def finals(self) -> Ticks:
        """The tick of the final of each window; later than all ticks for windows still open."""
        return np.searchsorted(np.maximum.accumulate(self.closing), self.ends, side="left")

    @cached_property
    def ahead(self) -> Ticks:
        """For each tick, the position of the stream minus the system time."""
        ticks, place = np.unique(self.row_tick, return_inverse=True)
        most = np.full(len(ticks), -NEVER)
        np.maximum.at(most, place, self.stream.ts - self.stream.arrived)
        padded = np.concatenate([np.full(NEAR, -NEVER), most])
        largest = np.lib.stride_tricks.sliding_window_view(padded, NEAR + 1).max(axis=1)
        before = np.searchsorted(ticks, np.arange(len(self.ticks)), side="right") - 1
        return np.asarray(largest[np.maximum(before, 0)])

    @cached_property
    def row_tick(self) -> Ticks:
        """The tick of each row's epoch."""
        return np.searchsorted(self.ticks, self.stream.arrived, side="right")

    def lead_moments(self, lead: int) -> Ticks:
        """Return the lead moment of each window."""
        position, wanted = np.maximum.accumulate(self.ticks + self.ahead), self.ends - lead
        at = np.clip(np.searchsorted(position, wanted), 1, len(self.ticks) - 1)
        moment = wanted - self.ahead[at - 1]
        return np.asarray(np.clip(moment, self.ticks[at - 1], self.ticks[at] - 1), np.int64)

    def judged(self, lead: int) -> np.ndarray:
        """Return a mask of the windows that hold a row at their lead moment."""
        moments = self.lead_moments(lead)
        inside = (moments > self.ticks[0]) & (moments <= self.ticks[-3])
        return np.asarray(inside & (self.windows[1] <= moments))

    def in_time(self, asks: Asks, lead: int) -> np.ndarray:
        """Return a mask of the windows that are answered in time."""
        moments = self.lead_moments(lead)
        last = np.searchsorted(self.ticks, moments, side="right") + 1
        first = np.searchsorted(self.ticks, moments - self.stream.epoch, side="left")
        return np.asarray(asks.answered(first, last) | (self.finals <= last))

    def near(self, asks: Asks, lead: int) -> np.ndarray:
        """Return a mask of the windows with a result at most an epoch before or after the lead."""
        moments, epoch = self.lead_moments(lead), self.stream.epoch
        first = np.searchsorted(self.ticks, moments - epoch, side="left")
        last = np.searchsorted(self.ticks, moments + epoch, side="right") - 1
        return np.asarray(asks.answered(first, last) | (self.finals <= last))

    def run(self, policy: ProdPolicy, restarts: Collection[int] = ()) -> Asks:
        """Run the policy over the stream; before some ticks, its memory is written and read."""
        return _Run(self, policy, restarts).asks()

    def unlawful(self, asks: Asks) -> int:
        """Return the number of prods for a window that has not begun, or has its final by then."""
        early = sum(
            upto > self.grid.last_begun(int(self.newest[tick])) for tick, _, upto in asks.prods
        )
        final = sum(
            int((self.finals[slice(*np.searchsorted(self.ends, one, "right"))] <= tick + 1).sum())
            for tick, *one in asks.prods
        )
        return early + final


class _Run:
    """One run of a policy."""

    def __init__(self, sim: AskSimulation, policy: ProdPolicy, restarts: Collection[int]) -> None:
        self.sim, self.policy, self.restarts = sim, policy, restarts
        self.output = (EarlyOutput(0, sim.grid),)
        self.width = max(1, sim.stream.slide // BINS_PER_SLIDE)
        self.memory, self.clock = ProdMemory(), ClockMemory()
        self.waiting: list[Prod] = []
        self.asked = np.zeros(len(sim.ends), np.int64)
        self.answers: list[tuple[int, int]] = []
        self.prods: list[tuple[int, int, int]] = []

    def asks(self) -> Asks:
        """Return the prods and answers of all windows."""
        sim = self.sim
        bounds, closing = [0, *sim.bounds.tolist()], sim.closing.tolist()
        rising = np.append(np.diff(sim.closing) > 0, False).tolist()
        for tick, now in enumerate(sim.ticks.tolist()):
            if tick in self.restarts:
                self.memory = _read_again(self.memory)
                self.clock = _read_again(self.clock)
            rows = slice(bounds[tick], bounds[tick + 1])
            control = bool(self.waiting) or (tick > 0 and rising[tick - 1])
            if rows.stop > rows.start or control or self._due(now, closing[tick]):
                self._epoch(tick, now, rows, closing[tick + 1])
        return Asks(self.asked, sorted(self.answers), self.prods)

    def _due(self, now: int, low: int) -> bool:
        """Return whether the policy requests a prod without an epoch."""
        if self.clock.newest is None:
            return False
        moment = self._moment(now, OutputNews(low=self._usable(low)))
        return bool(self.policy.advance(self.memory, self.output, moment)[1])

    def _epoch(self, tick: int, now: int, rows: slice, low: int) -> None:
        """Run an epoch: its rows, its answers, then the policy."""
        ends = self._answers(tick)
        newest = int(self.sim.newest[tick]) if self.sim.bounds[tick] else None
        self.clock = CLOCK.advance(
            self.clock, newest, now, rows=rows.stop > rows.start, answered=bool(self.waiting)
        )
        news = OutputNews(ends, self._reached(rows), self._usable(low))
        moment = self._moment(now, news)
        self.memory, self.waiting = self.policy.advance(self.memory, self.output, moment)
        for prod in self.waiting:
            some = self._windows(prod)
            self.asked[some] += 1
            self.prods.append((tick, prod.since or 0, prod.upto or 0))

    def _usable(self, low: int) -> int | None:
        """Return the watermark as operators use it: the last window end that it passes."""
        return None if low == -NEVER else self.sim.grid.last_end(low)

    def _answers(self, tick: int) -> tuple[int, ...]:
        """Return the ends of the windows that are answered at a tick."""
        sim, ends = self.sim, set()
        for prod in self.waiting:
            some = self._windows(prod)
            open_now = (sim.windows[2][some] <= tick) & (sim.finals[some] > tick)
            mine = np.arange(len(sim.ends))[some][open_now]
            self.answers += [(window, tick) for window in mine.tolist()]
            ends.update(sim.ends[mine].tolist())
        return tuple(sorted(ends))

    def _windows(self, prod: Prod) -> slice:
        assert prod.since is not None  # noqa: S101
        assert prod.upto is not None  # noqa: S101
        return slice(*np.searchsorted(self.sim.ends, (prod.since, prod.upto), side="right"))

    def _reached(self, rows: slice) -> Intervals:
        ts = self.sim.stream.ts[rows]
        if not len(ts):
            return ()
        counted = count_arrivals(ts, np.zeros(len(ts), np.int64), self.width)
        return union(counted.times(self.width, len(ts)))

    def _moment(self, now: int, news: OutputNews) -> Moment:
        clock = self.clock
        return Moment(
            now,
            clock.newest,
            CLOCK.now(clock, now),
            clock.length,
            CLOCK.epoch(clock),
            self.sim.slack,
            {0: news},
        )


def _read_again(memory: Memory) -> Memory:
    """Return the memory as it is read after a restart."""
    return decode(type(memory), json.loads(json.dumps(encode(memory))))
