"""Event time, as the system clock tells it between rows.

Rows say what time it is in the stream; between them, and while they are late, it goes on with the
system clock. How far the two are apart is taken from when the stream was least behind: a stream
that is worked off too slowly, or has gone silent, does not hold the clock.

A prod is decided at the end of an epoch and answered at the end of the next, after that one's rows:
so what counts is the time it will be then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REMEMBERED = 64
"""For how many epochs at least it is remembered how little the stream was behind."""


@dataclass(frozen=True)
class EventClock:
    """Estimates event time. `timed` says that it is measured in microseconds, as the clock is."""

    timed: bool = True

    def advance(self, memory: Mapping[str, Any], newest: int | None, now: int) -> dict[str, Any]:
        """Remember the newest time that was seen, and by how much it is ahead of the clock."""
        known, last = memory.get("newest"), memory.get("now", now)
        kept = {**memory, "newest": newest, "now": now, "length": now - last}
        kept["step"] = 0 if newest is None or known is None else newest - known
        if newest is None:
            return kept
        ahead, epochs = memory.get("ahead", []), memory.get("epochs", 0) + 1
        if not ahead or epochs > REMEMBERED:
            return {**kept, "ahead": [*ahead[-1:], newest - now], "epochs": 0}
        return {**kept, "ahead": [*ahead[:-1], max(ahead[-1], newest - now)], "epochs": epochs}

    def now(self, memory: Mapping[str, Any], now: int) -> int | None:
        """Return the time in the stream."""
        newest: int | None = memory.get("newest")
        if newest is None or not self.timed:
            return newest
        ahead: int = max(memory["ahead"])
        return max(newest, now + ahead)

    def at_next_answer(self, memory: Mapping[str, Any], now: int) -> int | None:
        """Return the time that it will be in the stream when the next epoch has ended."""
        known = self.now(memory, now)
        return None if known is None else known + self.epoch(memory)

    def epoch(self, memory: Mapping[str, Any]) -> int:
        """Return how far event time comes in an epoch."""
        length: int = memory["length"] if self.timed else 0
        step: int = memory["step"]
        return max(length, step)
