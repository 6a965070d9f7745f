"""A planner that knows all arrivals, but may only drop whole windows before they begin.

It plays the machine. When a result is too old, it drops the largest window of those that kept the
machine busy until then, goes back to where that window began, and plays on. This is Moore's rule
for the least number of late jobs on one machine. So no result is too old, and the dropped windows
are about the fewest with which that is possible.

A planner that does not foresee may drop a window only if the machine is behind when the window
begins. So a load that jumps while windows are open makes some of them late, which no shedder can
prevent that learns of rows when they arrive. Otherwise it knows all arrivals, too.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np

from experiments.arena.load.machine import (
    LoadCourse,
    LoadStream,
    Machine,
    MachineEpoch,
    MachineState,
)

BUSY = 2.0
"""An epoch up to this number of fixed costs ends the time in which the machine was busy."""
BACK = 16
"""The planner goes back at most this number of epochs."""
BEHIND = 0.1
"""The machine is behind if the rows that wait are work for more than this share of the bound."""


@dataclass(eq=False)
class Planner:
    """The planner, and its course so far: the state before each epoch, and the epochs.

    `given_up` are the windows whose results are late, as no window could be dropped for them.
    """

    stream: LoadStream
    foresees: bool = True
    states: list[MachineState] = field(default_factory=lambda: [MachineState()])
    epochs: list[MachineEpoch] = field(default_factory=list)
    given_up: set[int] = field(default_factory=set)

    def course(self) -> LoadCourse:
        """Return the course with the windows that the planner drops."""
        machine, count = Machine(self.stream), len(self.stream.rows)
        course = LoadCourse(self.stream, np.zeros(count, bool), np.full(count, np.nan))
        while not self.states[-1].over(self.stream):
            state, epoch = machine.step(self.states[-1], course.dropped, course.dropped)
            ages = epoch.end - self.stream.triggers[epoch.emitted]
            late = epoch.emitted[ages > self.stream.latency].tolist()
            first = next((window for window in late if window not in self.given_up), None)
            if first is not None:
                self._drop(first, state, course.dropped)
                continue
            course.ages[epoch.emitted] = ages
            self.states.append(state)
            self.epochs.append(epoch)
        course.epochs = self.epochs
        return course

    def _drop(self, late: int, state: MachineState, dropped: np.ndarray) -> None:
        """Drop a window for the sake of one that is late, and go back to where it began.

        `state` is the state after the epoch that emitted the late result.
        """
        first = len(self.epochs)
        least = max(0, first - BACK)
        while first > least and self._busy(self.epochs[first - 1]):
            first -= 1
        begin, last = self._begin(self.states[first]), self._begin(state)
        mine = np.arange(min(begin, late), max(last, late + 1))
        mine = mine[~dropped[mine]]
        if not self.foresees:
            mine = mine[[self._behind(window) for window in mine.tolist()]]
        if not len(mine):
            self.given_up.add(late)
            return
        rows = self.stream.rows[mine]
        victim = int(mine[len(mine) - 1 - np.argmax(rows[::-1])])
        dropped[victim] = True
        self._back(victim)

    def _busy(self, epoch: MachineEpoch) -> bool:
        return epoch.end - epoch.start > BUSY * self.stream.fixed

    def _behind(self, window: int) -> bool:
        """Return whether the machine was behind when a window began."""
        at = bisect_right(
            self.epochs, float(window * self.stream.range), key=lambda epoch: epoch.end
        )
        waiting = self.epochs[at - 1].waiting if at else 0
        return waiting * self.stream.row > BEHIND * self.stream.latency

    def _begin(self, state: MachineState) -> int:
        """Return the first window of which no row was read."""
        taken = state.taken
        return int(self.stream.newest[taken - 1] // self.stream.range) + 1 if taken else 0

    def _back(self, window: int) -> None:
        """Go back to before the first epoch that read rows of a window."""
        while len(self.states) > 1 and self._begin(self.states[-1]) > window:
            self.states.pop()
            self.epochs.pop()
