"""The event clock: an estimate of event time between the rows of a stream.

Between rows, and while rows are late, the event clock advances with the system clock. It is the
system clock plus the largest difference (event time minus system time) of recent epochs. So a
stream that is silent, or that is processed too slowly, does not stop the event clock. A replay is
faster than the system clock: then the difference grows with each epoch, and this growth is the
advance that the clock expects in addition to the system clock.

A policy requests a prod at the end of an epoch, and operators answer it at the end of the next
epoch, after that epoch's rows. `at_next_answer` estimates event time at that moment. The length of
that epoch, and the growth, are medians of recent epochs: neither an epoch after a pause nor the
rows that follow a silence change them.

A prod that an epoch without rows requests is mostly answered sooner than others: no row follows,
so the host need not wait for its trigger. Such epochs have lengths of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

SPAN, SPANS = 16, 5
"""The number of epochs with rows in a span, and of spans; see `ClockMemory.ahead`."""
REMEMBERED = SPAN * (SPANS - 1)
"""The least number of epochs with rows that the event clock remembers."""
LENGTHS, GROWTHS = 9, 5
"""The number of epoch lengths and of growths whose medians are used."""


@dataclass(frozen=True)
class ClockMemory:
    """The values that the event clock remembers between epochs.

    - `newest`: The newest event time at the end of the last epoch.
    - `now`: The system clock at the end of the last epoch.
    - `lengths`: The advances of the system clock in the last epochs.
    - `delays`: The lengths of the last epochs that answered prods of an epoch with rows.
    - `idle_delays`: The lengths of the last epochs that answered prods of an epoch without rows.
    - `idle`: Whether the last epoch had no rows.
    - `growths`: For the last epochs that moved the newest event time, the growth of the largest
      difference `ahead`; the step of the newest event time if event times are plain numbers.
    - `ahead`: The largest difference (event time minus system time) of each of the last spans of
      epochs, the current span last.
    - `epochs`: The number of epochs in the current span. Epochs without rows do not count, so the
      event clock goes on through a silence of any length.
    """

    VERSION: ClassVar[int] = 3

    newest: int | None = None
    now: int | None = None
    lengths: tuple[int, ...] = ()
    delays: tuple[int, ...] = ()
    idle_delays: tuple[int, ...] = ()
    idle: bool = False
    growths: tuple[int, ...] = ()
    ahead: tuple[int, ...] = ()
    epochs: int = 0

    @property
    def length(self) -> int:
        """The expected length, on the system clock, of the epoch that answers a prod."""
        first, second = self.delays, self.idle_delays
        if self.idle:
            first, second = second, first
        return _median(first or second or self.lengths)


@dataclass(frozen=True)
class EventClock:
    """An estimator of event time; `timed` is False if event times are plain numbers."""

    timed: bool = True

    def advance(
        self,
        memory: ClockMemory,
        newest: int | None,
        now: int,
        *,
        rows: bool = True,
        answered: bool = False,
    ) -> ClockMemory:
        """Return the memory after an epoch that ended at `now` with newest event time `newest`.

        `rows` states whether the epoch had rows, `answered` whether operators answered prods in it.
        """
        after = replace(memory, newest=newest, now=now, idle=not rows)
        if memory.now is not None:
            length = max(now - memory.now, 0)
            after = replace(after, lengths=_with_last(memory.lengths, length, LENGTHS))
            after = _with_delay(after, length, idle=memory.idle) if answered else after
        if newest is None or not rows:
            return after
        after = _with_ahead(after, newest - now)
        if memory.newest is None or newest <= memory.newest:
            return after
        growth = max(after.ahead) - max(memory.ahead) if self.timed else newest - memory.newest
        return replace(after, growths=_with_last(memory.growths, max(growth, 0), GROWTHS))

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
        """Return the expected advance of event time in an epoch that answers a prod, in ticks."""
        if not self.timed:
            return _median(memory.growths)
        # A replay grows in most of the epochs; a few late rows at the start must not look like one.
        none = (0,) * (GROWTHS - len(memory.growths))
        return memory.length + _median((*none, *memory.growths))


def _with_delay(memory: ClockMemory, length: int, *, idle: bool) -> ClockMemory:
    """Return the memory after an answer; `idle` states whether its prod's epoch had no rows."""
    if idle:
        return replace(memory, idle_delays=_with_last(memory.idle_delays, length, LENGTHS))
    return replace(memory, delays=_with_last(memory.delays, length, LENGTHS))


def _with_ahead(memory: ClockMemory, ahead: int) -> ClockMemory:
    """Return the memory after an epoch with rows, whose newest time is `ahead` of the clock."""
    spans = memory.ahead
    if not spans or memory.epochs == SPAN:
        return replace(memory, ahead=(*spans, ahead)[-SPANS:], epochs=1)
    largest = max(spans[-1], ahead)
    return replace(memory, ahead=(*spans[:-1], largest), epochs=memory.epochs + 1)


def _with_last(values: tuple[int, ...], value: int, most: int) -> tuple[int, ...]:
    return (*values, value)[-most:]


def _median(values: Sequence[int]) -> int:
    """Return the median of `values`, the lower one of two; 0 without values."""
    return sorted(values)[(len(values) - 1) // 2] if values else 0
