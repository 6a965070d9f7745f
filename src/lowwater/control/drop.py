"""The record of the windows that are dropped under overload (DROP)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lowwater.intervals import Intervals, union

CLASSES = 64
"""The number of classes into which the values of a column are divided, to drop windows fairly."""


@dataclass(frozen=True)
class ClassDrops:
    """Dropped windows of some groups: those whose key `column` has a value of the class `number`.

    `intervals` are result times.
    """

    column: str
    number: int
    intervals: Intervals


@dataclass(frozen=True)
class DropPlan:
    """The windows to drop: all windows with result times in `intervals`.

    `closed` has (operator, start, end) for each operator that drops all windows in `[start, end)`.
    `classes` are the drops of single classes, beside those of all groups.
    """

    intervals: Intervals = ()
    closed: tuple[tuple[int, int, int], ...] = ()
    classes: tuple[ClassDrops, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.intervals or self.closed or self.classes)

    def of(self, operator: int) -> Intervals:
        """Return the intervals of result times in which operator `operator` drops windows."""
        mine = [(start, end) for number, start, end in self.closed if number == operator]
        return union([*self.intervals, *mine]) if mine else self.intervals

    def by_class(self) -> Iterator[tuple[ClassDrops, DropPlan]]:
        """Yield (drops of a class, the plan of the groups of that class) for each class."""
        for one in self.classes:
            every = union([*self.intervals, *one.intervals])
            yield one, replace(self, intervals=every, classes=())
