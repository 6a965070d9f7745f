"""How what is complete is given out: at once, or little by little within a delay (OOP 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from lowwater.windows import Axis

Plan = TypeVar("Plan")


@dataclass(frozen=True)
class Smooth:
    """How results are given out little by little, within a delay (in ticks) of their completion.

    `room` makes the flush lazy: results wait until more than that, cells or rows, is kept. The
    groups of windows are cut into `slices`, which are given out one after the other.
    """

    delay: int
    room: int | None = None
    slices: int = 16

    @property
    def idle(self) -> int:
        """How long results wait, while there is room, before any is given out."""
        return 0 if self.room is None else self.delay // 2

    @cached_property
    def lags(self) -> tuple[int, ...]:
        """How far the mark of each slice is behind the mark in force."""
        turns = self.delay - self.idle
        slices = max(1, min(self.slices, turns))
        return tuple(self.idle + i * turns // slices for i in range(slices))

    def say(self, axis: Axis) -> str:
        """Say it in words."""
        if self.room is None:
            return f"little by little, within {axis.say(self.delay)}"
        return f"when more than {self.room} are kept, at the latest after {axis.say(self.delay)}"


def at_once(plan: Plan) -> Plan:
    """Return a plan as it is if all that is complete is given out at once.

    What is late is decided by that plan: that results wait makes no row late.
    """
    given: Any = plan
    return plan if getattr(plan, "smooth", None) is None else replace(given, smooth=None)
