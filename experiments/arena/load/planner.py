"""A planner that knows all arrivals, but may only drop whole windows before they begin.

It plays the machine. When a result is too old, it drops the largest window of those that kept the
machine busy until then, goes back to where that window began, and plays on. This is Moore's rule
for the least number of late jobs on one machine. So no result is too old, and the dropped windows
are about the fewest with which that is possible.
"""

from __future__ import annotations

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


@dataclass(eq=False)
class Planner:
    """The planner, and its course so far: the state before each epoch, and the epochs."""

    stream: LoadStream
    states: list[MachineState] = field(default_factory=lambda: [MachineState()])
    epochs: list[MachineEpoch] = field(default_factory=list)

    def course(self) -> LoadCourse:
        """Return the course with the windows that the planner drops."""
        machine, count = Machine(self.stream), len(self.stream.rows)
        course = LoadCourse(self.stream, np.zeros(count, bool), np.full(count, np.nan))
        while not self.states[-1].over(self.stream):
            state, epoch = machine.step(self.states[-1], course.dropped, course.dropped)
            ages = epoch.end - self.stream.triggers[epoch.emitted]
            late = epoch.emitted[ages > self.stream.latency]
            if len(late):
                self._drop(int(late[0]), state, course.dropped)
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
        rows = self.stream.rows[mine]
        victim = int(mine[len(mine) - 1 - np.argmax(rows[::-1])])
        dropped[victim] = True
        self._back(victim)

    def _busy(self, epoch: MachineEpoch) -> bool:
        return epoch.end - epoch.start > BUSY * self.stream.fixed

    def _begin(self, state: MachineState) -> int:
        """Return the first window of which no row was read."""
        taken = state.taken
        return int(self.stream.newest[taken - 1] // self.stream.range) + 1 if taken else 0

    def _back(self, window: int) -> None:
        """Go back to before the first epoch that read rows of a window."""
        while len(self.states) > 1 and self._begin(self.states[-1]) > window:
            self.states.pop()
            self.epochs.pop()
