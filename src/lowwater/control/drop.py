"""Windows that are dropped under overload (DROP)."""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.intervals import Intervals, union


@dataclass(frozen=True)
class DropPlan:
    """The windows that are dropped: those whose results lie in `intervals` of time.

    `closed` has the intervals for which single queries are shut down: (operator, start, end).
    """

    intervals: Intervals = ()
    closed: tuple[tuple[int, int, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.intervals or self.closed)

    def of(self, operator: int) -> Intervals:
        """Return the intervals in which the results of an operator are dropped."""
        mine = [(start, end) for number, start, end in self.closed if number == operator]
        return union([*self.intervals, *mine]) if mine else self.intervals
