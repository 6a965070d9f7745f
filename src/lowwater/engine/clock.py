"""Clocks: the time at which the controller decides on an epoch, in ticks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from lowwater.sources.arrival_clock import Ticks
from lowwater.ticks import Duration, Instant, instant_ticks, ticks


class Clock(Protocol):
    """An object that returns the time of each epoch."""

    def now(self, epoch: int) -> int:
        """Return the time at which the controller decides on epoch number `epoch`, in ticks."""


class SystemClock:
    """The wall clock."""

    def now(self, epoch: int) -> int:
        """Return the wall-clock time, in ticks."""
        return time.time_ns() // 1_000

    def took(self, epoch: int, began: float) -> int:
        """Return the number of ticks since `began`, a reading of `time.perf_counter`."""
        return round((time.perf_counter() - began) * 1e6)


@dataclass(frozen=True, eq=False)
class RecordedClock(SystemClock):
    """The arrival clock of recordings: at the end of each of their epochs, the end of its span.

    After the last epoch of the recordings, the clock advances by a tick each epoch.
    """

    cuts: Ticks

    def now(self, epoch: int) -> int:
        """Return the arrival clock at the end of epoch number `epoch`, in ticks."""
        last = len(self.cuts) - 1
        return (int(self.cuts[min(epoch, last)]) if last >= 0 else 0) + max(epoch - last, 0)


@dataclass(frozen=True)
class VirtualClock:
    """A clock for tests, which reads `start` in epoch 0 and advances by `per_epoch` each epoch."""

    start: Instant = "1970-01-01"
    per_epoch: Duration = "1 second"

    def now(self, epoch: int) -> int:
        """Return the time of epoch number `epoch`, in ticks."""
        return instant_ticks(self.start, name="start") + epoch * ticks(self.per_epoch)
