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
class QueryDrops:
    """Dropped windows of the operator `operator` alone; `intervals` are result times."""

    operator: int
    intervals: Intervals


@dataclass(frozen=True)
class SampledRows:
    """Rows with times in [start, end), of which one in 2^`power` is read."""

    start: int
    end: int
    power: int


@dataclass(frozen=True)
class DropPlan:
    """The windows to drop: all windows with result times in `intervals`.

    `closed` has (operator, start, end) for each operator that drops all windows in `[start, end)`.
    `classes` are the drops of single classes, and `queries` those of single operators, beside those
    of all groups. `samples` are the times of which a share of the rows is read; the choice of rows
    depends on `salt`.
    """

    intervals: Intervals = ()
    closed: tuple[tuple[int, int, int], ...] = ()
    classes: tuple[ClassDrops, ...] = ()
    samples: tuple[SampledRows, ...] = ()
    salt: int = 0
    queries: tuple[QueryDrops, ...] = ()

    def __bool__(self) -> bool:
        several = self.intervals, self.closed, self.classes, self.samples, self.queries
        return any(map(bool, several))

    def of(self, operator: int) -> Intervals:
        """Return the intervals of result times in which operator `operator` drops windows."""
        mine = [(start, end) for number, start, end in self.closed if number == operator]
        mine += [one for q in self.queries if q.operator == operator for one in q.intervals]
        return union([*self.intervals, *mine]) if mine else self.intervals

    def by_class(self) -> Iterator[tuple[ClassDrops, DropPlan]]:
        """Yield (drops of a class, the plan of the groups of that class) for each class."""
        for one in self.classes:
            every = union([*self.intervals, *one.intervals])
            yield one, replace(self, intervals=every, classes=())
