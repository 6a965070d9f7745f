"""The record of the windows that are dropped under overload (DROP)."""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.intervals import Intervals, union


@dataclass(frozen=True)
class DropPlan:
    """The windows to drop: all windows with result times in `intervals`.

    `closed` has (operator, start, end) for each operator that drops all windows in `[start, end)`.
    """

    intervals: Intervals = ()
    closed: tuple[tuple[int, int, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.intervals or self.closed)

    def of(self, operator: int) -> Intervals:
        """Return the intervals of result times in which operator `operator` drops windows."""
        mine = [(start, end) for number, start, end in self.closed if number == operator]
        return union([*self.intervals, *mine]) if mine else self.intervals
