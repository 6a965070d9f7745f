"""Event time, as the system clock tells it between rows.

Rows say what time it is in the stream; between them, and while they are late, it goes on with the
system clock. A prod is decided at the end of an epoch and answered at the end of the next, after
that one's rows: so what counts is the time it will be then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class EventClock:
    """Estimates event time. `timed` says that it is measured in microseconds, as the clock is."""

    timed: bool = True

    def advance(self, memory: Mapping[str, Any], newest: int | None, now: int) -> dict[str, Any]:
        """Remember the newest time that was seen, and when."""
        known = memory.get("newest")
        kept = {**memory, "length": now - memory.get("now", now), "now": now}
        if newest is None or (known is not None and newest <= known):
            return {**kept, "step": 0}
        return {**kept, "newest": newest, "at": now, "step": newest - (known or newest)}

    def now(self, memory: Mapping[str, Any], now: int) -> int | None:
        """Return the time in the stream."""
        newest: int | None = memory.get("newest")
        if newest is None or not self.timed:
            return newest
        at: int = memory["at"]
        return newest + max(0, now - at)

    def at_next_answer(self, memory: Mapping[str, Any], now: int) -> int | None:
        """Return the time that it will be in the stream when the next epoch has ended."""
        known = self.now(memory, now)
        if known is None:
            return None
        length: int = memory["length"] if self.timed else 0
        step: int = memory["step"]
        return known + max(length, step)
