"""The event clock: an estimate of event time between the rows of a stream.

Rows carry event times; between rows, and while rows are late, event time advances with the system
clock. The clock adds to the system clock the largest difference (event time minus system time) of
recent epochs. A stream that is processed too slowly, or is silent, therefore does not stop it.

A policy requests a prod at the end of an epoch, and operators answer it at the end of the next
epoch, after that epoch's rows. `at_next_answer` estimates event time at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

REMEMBERED = 64
"""The clock remembers the largest difference of at least this many epochs."""


@dataclass(frozen=True)
class ClockMemory:
    """What the clock remembers.

    - `newest`: The newest event time, after the last epoch.
    - `now`: The system clock at the end of the last epoch.
    - `length`, `step`: How far the system clock, and the newest event time, advanced in the last
      epoch.
    - `ahead`: The largest differences of event time to system time, of the current span of epochs
      and of the span before.
    - `epochs`: The number of epochs in the current span.
    """

    VERSION: ClassVar[int] = 1

    newest: int | None = None
    now: int | None = None
    length: int = 0
    step: int = 0
    ahead: tuple[int, ...] = ()
    epochs: int = 0


@dataclass(frozen=True)
class EventClock:
    """Estimates event time; `timed` if event times are microseconds, as the system clock is."""

    timed: bool = True

    def advance(self, memory: ClockMemory, newest: int | None, now: int) -> ClockMemory:
        """Return the memory after an epoch that ended at `now` with this newest event time."""
        known, last = memory.newest, now if memory.now is None else memory.now
        step = 0 if newest is None or known is None else newest - known
        after = replace(memory, newest=newest, now=now, length=now - last, step=step)
        if newest is None:
            return after
        ahead, epochs = memory.ahead, memory.epochs + 1
        if not ahead or epochs > REMEMBERED:
            return replace(after, ahead=(*ahead[-1:], newest - now), epochs=0)
        largest = max(ahead[-1], newest - now)
        return replace(after, ahead=(*ahead[:-1], largest), epochs=epochs)

    def now(self, memory: ClockMemory, now: int) -> int | None:
        """Return event time at a reading of the system clock; None before the first row."""
        if memory.newest is None or not self.timed:
            return memory.newest
        return max(memory.newest, now + max(memory.ahead))

    def at_next_answer(self, memory: ClockMemory, now: int) -> int | None:
        """Return event time at the end of the next epoch; None before the first row."""
        event = self.now(memory, now)
        return None if event is None else event + self.epoch(memory)

    def epoch(self, memory: ClockMemory) -> int:
        """Return how far event time advances in an epoch."""
        return max(memory.length if self.timed else 0, memory.step)
