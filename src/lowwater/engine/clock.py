"""Clocks: the time at which epochs are decided, in ticks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from lowwater.ticks import Duration, Instant, instant_ticks, ticks


class Clock(Protocol):
    """Returns the time of an epoch, in ticks."""

    def now(self, epoch: int) -> int:
        """Return the time at which an epoch is decided."""


class SystemClock:
    """The wall clock."""

    def now(self, epoch: int) -> int:
        """Return the time, in ticks."""
        return time.time_ns() // 1_000

    def took(self, epoch: int, began: float) -> int:
        """Return the ticks since `began`, a reading of `time.perf_counter`."""
        return round((time.perf_counter() - began) * 1e6)


@dataclass(frozen=True)
class VirtualClock:
    """A clock for tests: it stands at `start` in epoch 0 and advances by `per_epoch`."""

    start: Instant = "1970-01-01"
    per_epoch: Duration = "1 second"

    def now(self, epoch: int) -> int:
        """Return the time of an epoch."""
        return instant_ticks(self.start, name="start") + epoch * ticks(self.per_epoch)
