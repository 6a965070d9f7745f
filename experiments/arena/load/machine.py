"""A simulated machine: epochs that last as long as their rows cost, on a clock of its own.

An epoch reads the rows that arrived before it starts. At its end the watermark is decided and the
shedder is asked; both act in the next epoch. So a result is emitted at the end of the epoch after
the one that read the row with which its window could be closed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from experiments.arena.stream import Floats, Ticks
from lowwater.intervals import Intervals
from lowwater.shedding.drop_geometry import window_runs
from lowwater.windows.sliding import Sliding


@dataclass(frozen=True, eq=False)
class LoadStream:
    """A stream, and the machine that it runs on. All times are in ticks of the clock.

    Attributes
    ----------
    arrived, ts
        The arrivals of rows, in order, and their event times.
    range, slack, latency
        The length of tumbling windows, the slack of the watermark, and the bound on the age of
        results.
    fixed, row, shed
        The costs of an epoch, of a row that is processed, and of a row that is shed.
    pauses
        Intervals in which the machine does nothing, although rows arrive.
    starts
        The times at which a run starts, the first of which is 0.
    warm_up
        The additional durations of the first epochs of a run.
    uneven
        The deviation by which the speed of the machine wanders.
    """

    name: str
    arrived: Ticks
    ts: Ticks
    range: int
    slack: int
    latency: int
    fixed: float
    row: float
    shed: float
    pauses: tuple[tuple[int, int], ...] = ()
    starts: tuple[int, ...] = (0,)
    warm_up: tuple[float, ...] = ()
    uneven: float = 0.0

    @cached_property
    def windows(self) -> Ticks:
        """The window of each row."""
        return np.asarray(self.ts // self.range)

    @cached_property
    def rows(self) -> Ticks:
        """The number of rows of each window."""
        return np.bincount(self.windows)

    @cached_property
    def newest(self) -> Ticks:
        """The newest time after each row."""
        return np.asarray(np.maximum.accumulate(self.ts))

    @cached_property
    def triggers(self) -> Floats:
        """When each window could be closed: at the arrival of the row that ends its slack."""
        ends = (np.arange(len(self.rows)) + 1) * self.range + self.slack
        at = np.searchsorted(self.newest, ends, "left")
        times = np.append(self.arrived.astype(np.float64), np.inf)
        return np.asarray(times[at])

    @cached_property
    def pace(self) -> Floats:
        """The factors by which the first thousand epochs are slower; they repeat afterwards."""
        random, paces = np.random.default_rng(7), [0.0]
        for _ in range(999):
            paces.append(0.8 * paces[-1] + self.uneven * random.normal())
        return np.exp(paces)

    def load(self) -> float:
        """Return the largest load over an interval as long as the bound, with three fixed costs."""
        after = np.searchsorted(self.arrived, self.arrived + self.latency, "right")
        most = int((after - np.arange(len(after))).max(initial=0))
        return (most * self.row + 3 * self.fixed) / self.latency

    def busy(self) -> float:
        """Return the largest load over an interval as long as the bound, if pauses count as work.

        In a pause the machine does nothing, so rows that arrive in it are more than it can process.
        """
        pauses = np.array(self.pauses, np.int64).reshape(-1, 2)
        first = np.concatenate([self.arrived, pauses[:, 0]])
        last = np.concatenate([self.arrived, pauses[:, 1]])
        since = np.unique(np.concatenate([first, last - self.latency]))
        until = since + self.latency
        rows = np.searchsorted(self.arrived, until, "right")
        rows -= np.searchsorted(self.arrived, since, "left")
        off = np.zeros(len(since), np.int64)
        for start, end in pauses.tolist():
            off += np.maximum(np.minimum(until, end) - np.maximum(since, start), 0)
        work = rows * self.row + off + 3 * self.fixed
        return float(work.max(initial=3 * self.fixed)) / self.latency


@dataclass(frozen=True)
class MachineEpoch:
    """An epoch of the machine, as a shedder sees it.

    `behind` is the sum of the late degrees of its rows, `waiting` the number of unread rows after
    it, `run` the number of epochs of the run before it, `emitted` the windows with results.
    """

    start: float
    end: float
    kept: int
    shed: int
    newest: int | None
    waiting: int
    run: int
    watermark: int
    behind: int
    emitted: Ticks

    @property
    def results(self) -> int:
        """The number of results."""
        return len(self.emitted)


class Shedding(Protocol):
    """A shedder: at the end of each epoch it returns the intervals of result times to drop."""

    def step(self, epoch: MachineEpoch) -> Intervals:
        """Return the windows to drop from the next epoch on."""


@dataclass(frozen=True)
class MachineState:
    """The state of the machine between two epochs.

    - `time`, `taken`: The clock, and the number of rows that were read.
    - `closed`: The first window that was not closed.
    - `watermark`, `pending`: The watermark in force, and the next one if it is higher.
    - `number`, `run`, `starts`: The number of epochs, of this run's epochs, and of runs.
    """

    time: float = 0.0
    taken: int = 0
    closed: int = 0
    watermark: int = -1
    pending: int | None = None
    number: int = 0
    run: int = 0
    starts: int = 0

    def over(self, stream: LoadStream) -> bool:
        """Return whether nothing is left to do."""
        return self.taken == len(stream.arrived) and self.pending is None


@dataclass(eq=False)
class Machine:
    """The machine: it runs one epoch after another over a stream."""

    stream: LoadStream

    def step(
        self, state: MachineState, plan: np.ndarray, dropped: np.ndarray
    ) -> tuple[MachineState, MachineEpoch]:
        """Return the state after the next epoch, and the epoch.

        `plan` is a mask of the windows to drop. The mask `dropped` has the windows that were
        dropped, and receives those of the epoch.
        """
        stream, state = self.stream, self._begun(state)
        upto = int(np.searchsorted(stream.arrived, state.time, "right"))
        mine = slice(state.taken, upto)
        windows = stream.windows[mine]
        gone = int(plan[windows].sum())
        dropped[windows[plan[windows]]] = True
        end = self._until(state.time, self._work(state, len(windows) - gone, gone))
        closed, emitted = self._closed(state, dropped)
        newest = int(stream.newest[upto - 1]) if upto else None
        watermark = state.watermark if state.pending is None else state.pending
        rises = newest is not None and newest - stream.slack > watermark
        epoch = MachineEpoch(
            state.time,
            end,
            len(windows) - gone,
            gone,
            newest,
            int(np.searchsorted(stream.arrived, end, "right")) - upto,
            state.run,
            watermark,
            int((stream.newest[mine] - stream.ts[mine]).sum()),
            emitted,
        )
        pending = newest - stream.slack if rises and newest is not None else None
        after = replace(state, time=end, taken=upto, closed=closed, watermark=watermark)
        return replace(after, pending=pending, number=state.number + 1, run=state.run + 1), epoch

    def _begun(self, state: MachineState) -> MachineState:
        """Return the state when the next epoch starts: with work, awake, maybe in a new run."""
        time = self._awake(state.time)
        if state.pending is None and state.taken < len(self.stream.arrived):
            time = self._awake(max(time, float(self.stream.arrived[state.taken])))
        starts = int(np.searchsorted(self.stream.starts, time, "right"))
        run = state.run if starts == state.starts else 0
        return replace(state, time=time, starts=starts, run=run)

    def _work(self, state: MachineState, kept: int, shed: int) -> float:
        """Return the duration of an epoch."""
        stream = self.stream
        extra = stream.warm_up[state.run] if state.run < len(stream.warm_up) else 0.0
        work = stream.fixed + stream.row * kept + stream.shed * shed
        return work * float(stream.pace[state.number % len(stream.pace)]) + extra

    def _closed(self, state: MachineState, dropped: np.ndarray) -> tuple[int, Ticks]:
        """Return (the first open window after the epoch, the windows that get a result in it)."""
        if state.pending is None:
            return state.closed, np.zeros(0, np.int64)
        upper = max(state.closed, min(state.pending // self.stream.range, len(dropped)))
        mine = np.arange(state.closed, upper)
        return upper, mine[(self.stream.rows[mine] > 0) & ~dropped[mine]]

    def _awake(self, time: float) -> float:
        """Return the next time from `time` on at which the machine is awake."""
        for start, end in self.stream.pauses:
            if start <= time < end:
                return float(end)
        return time

    def _until(self, time: float, work: float) -> float:
        """Return when `work` ends that starts at `time`; a pause delays it."""
        end = time + work
        for start, stop in self.stream.pauses:
            if time <= start < end:
                end += stop - start
        return end


@dataclass(eq=False)
class LoadCourse:
    """The course of a shedder: by window, whether it was dropped, and the age of its result."""

    stream: LoadStream
    dropped: np.ndarray
    ages: Floats
    epochs: list[MachineEpoch] = field(default_factory=list)

    @cached_property
    def judged(self) -> np.ndarray:
        """The windows that hold rows, could be closed, and not while the machine did not run."""
        at = self.stream.triggers
        judged = (self.stream.rows > 0) & np.isfinite(at) & (self.dropped | np.isfinite(self.ages))
        for start, end in self.stream.pauses:
            judged &= ~((at > start - self.stream.latency) & (at <= end))
        return np.asarray(judged)

    @property
    def over(self) -> float:
        """The share of results that are older than the bound."""
        emitted = self.judged & ~self.dropped
        return float((self.ages[emitted] > self.stream.latency).mean()) if emitted.any() else 0.0

    @property
    def lost(self) -> float:
        """The share of windows that were dropped."""
        return float(self.dropped[self.judged].mean()) if self.judged.any() else 0.0


def play(stream: LoadStream, shedder: Shedding) -> LoadCourse:
    """Run the machine over a stream; raise if the shedder drops a window that has begun."""
    machine, state, count = Machine(stream), MachineState(), len(stream.rows)
    course = LoadCourse(stream, np.zeros(count, bool), np.full(count, np.nan))
    plan = np.zeros(count, bool)
    while not state.over(stream):
        state, epoch = machine.step(state, plan, course.dropped)
        course.ages[epoch.emitted] = epoch.end - stream.triggers[epoch.emitted]
        course.epochs.append(epoch)
        before, plan = (
            plan,
            mask(window_runs(Sliding(range=stream.range), shedder.step(epoch)), count),
        )
        begun = 0 if epoch.newest is None else epoch.newest // stream.range + 1
        if (plan & ~before)[:begun].any():
            raise ValueError("a window that has begun was dropped")
    return course


def mask(runs: Intervals, count: int) -> np.ndarray:
    """Return a mask of the first `count` windows with those in `runs`."""
    chosen = np.zeros(count, bool)
    for first, last in runs:
        chosen[max(first, 0) : max(last, 0)] = True
    return chosen
