"""The event clock: an estimate of event time between the rows of a stream.

Between rows, and while rows are late, the event clock advances with the system clock. It is the
system clock plus the largest difference (event time minus system time) of recent epochs. So a
stream that is silent, or that is processed too slowly, does not stop the event clock.

A policy requests a prod at the end of an epoch, and operators answer it at the end of the next
epoch, after that epoch's rows. `at_next_answer` estimates event time at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

REMEMBERED = 64
"""The number of epochs that follow the first epoch of a span; see `ClockMemory.ahead`."""


@dataclass(frozen=True)
class ClockMemory:
    """The values that the event clock remembers between epochs.

    - `newest`: The newest event time at the end of the last epoch.
    - `now`: The system clock at the end of the last epoch.
    - `length`: The advance of the system clock in the last epoch.
    - `step`: The advance of the newest event time in the last epoch.
    - `ahead`: The largest difference (event time minus system time) of each span of epochs: first
      of the previous span, if there is one, then of the current span.
    - `epochs`: The number of epochs in the current span after its first epoch.
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
    """An estimator of event time; `timed` is False if event times are plain numbers."""

    timed: bool = True

    def advance(self, memory: ClockMemory, newest: int | None, now: int) -> ClockMemory:
        """Return the memory after an epoch that ended at `now` with newest event time `newest`."""
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
        """Return the estimated event time at system time `now`; None before the first row."""
        if memory.newest is None or not self.timed:
            return memory.newest
        return max(memory.newest, now + max(memory.ahead))

    def at_next_answer(self, memory: ClockMemory, now: int) -> int | None:
        """Return the expected event time after the next epoch; None before the first row."""
        event = self.now(memory, now)
        return None if event is None else event + self.epoch(memory)

    def epoch(self, memory: ClockMemory) -> int:
        """Return the expected advance of event time in the next epoch, in ticks."""
        return max(memory.length if self.timed else 0, memory.step)
