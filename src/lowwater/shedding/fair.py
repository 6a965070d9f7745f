"""Fair shares: which classes of groups lose windows, and how many (`fair_by=`).

The values of a key are divided into classes. All classes together must give up a share of their
work; each class is entitled to an equal part of the work that is left. A class that asks for less
loses nothing, and the others share what it does not use (max-min fairness).

Each class has decisions of its own: a share, and the state of its coin (`coin`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from lowwater.control.drop import CLASSES, ClassDrops, DropPlan, QueryDrops
from lowwater.intervals import Intervals, intersection, union
from lowwater.shedding.coin import Place, Rule, decide, dropped_runs
from lowwater.ticks import BEGIN

MEMORY = 0.9
"""The weight of the rows of past epochs is multiplied by this factor after every epoch."""
STEPS = 60
"""The number of halvings in the search for the equal part."""
REMEMBERED = 16
"""The number of past dropped intervals of a class in memory; their late rows count as shed."""
LEAST_SHARE = 1e-6
"""A class with a smaller share of drops loses nothing."""
Weighted: TypeAlias = tuple[tuple[float, Intervals], ...]
"""Dropped intervals of result times, each with the share of the work that it saves."""


@dataclass(frozen=True)
class FairMemory:
    """The memory of fair shares.

    - `column`: The key whose classes share the loss; None if queries share it, each of which is a
      class whose number is that of its operator.
    - `rows`: The recent rows of each class; older rows lose weight.
    - `places`: By class, the state of the decisions after all begun slots.
    - `rules`: By class, the rule of the decisions that have been made.
    - `windows`: By class, the number of windows dropped so far.
    """

    column: str | None
    rows: Mapping[int, float] = field(default_factory=dict)
    places: Mapping[int, Place] = field(default_factory=dict)
    rules: Mapping[int, Rule] = field(default_factory=dict)
    windows: Mapping[int, int] = field(default_factory=dict)

    def with_rows(self, counts: Sequence[Mapping[int, int]]) -> FairMemory:
        """Return the memory after an epoch, whose blocks have `counts` of rows by class."""
        rows = {n: MEMORY * count for n, count in self.rows.items() if MEMORY * count >= 1}
        for one in counts:
            for n, count in one.items():
                rows[n] = rows.get(n, 0.0) + count
        return replace(self, rows=dict(sorted(rows.items())))

    def begun(self, first: int, until: int) -> tuple[FairMemory, dict[int, Intervals]]:
        """Return the memory before slot `first`, and by class the dropped runs that have begun.

        Decisions were made on the slots before `until`.
        """
        places, runs = {}, {}
        for n, place in self.places.items():
            steps = []
            if first > place.slot:
                steps = list(decide(place, self.rules[n], min(first, until)))
            places[n] = (steps[-1][0] if steps else place).skipped_to(first)
            found = dropped_runs(place.slot, [drop for _, drop in steps])
            if self.rules[n].share > 0 and found:
                runs[n] = found
        return replace(self, places=places), runs

    def decided(
        self, shares: Mapping[int, float], rules: Mapping[int, Rule], first: int, until: int
    ) -> tuple[FairMemory, dict[int, Intervals]]:
        """Return the memory with `rules`, and by class the runs to drop from slot `first` on."""
        places = {n: self.places.get(n, Place(first)) for n in rules}
        ahead = {}
        for n in shares:
            chosen = [drop for _, drop in decide(places[n], rules[n], until)]
            ahead[n] = dropped_runs(places[n].slot, chosen)
        return replace(self, places=places, rules=dict(rules)), ahead

    def weighted(self, dropped: DropPlan) -> Weighted:
        """Return the dropped intervals of classes, each with the share of its class in the rows."""
        total = sum(self.rows.values())
        mine = [(one.number, one.intervals) for one in dropped.classes if one.column == self.column]
        if self.column is None:
            mine = [(one.operator, one.intervals) for one in dropped.queries]
        return tuple((self.rows.get(n, 0.0) / total, some) for n, some in mine if total)


def fair_shares(
    rows: Mapping[int, float],
    share: float,
    largest: float,
    weights: Mapping[int, float] | None = None,
) -> dict[int, float]:
    """Return the share of its rows that each class loses, if all together lose `share`.

    No class loses more than `largest`. Only classes that lose some are returned. With `weights`, a
    class is entitled to a part of the work by its weight.

    >>> fair_shares({0: 10, 1: 10, 2: 80}, 0.5, 1.0)
    {2: 0.625}
    >>> {n: round(lost, 3) for n, lost in fair_shares({0: 5, 1: 5}, 0.2, 1.0, {0: 3, 1: 1}).items()}
    {1: 0.4}
    >>> {n: round(lost, 3) for n, lost in fair_shares({0: 30, 1: 40, 2: 80}, 0.4, 0.5).items()}
    {0: 0.167, 1: 0.375, 2: 0.5}
    """
    each = {n: 1.0 if weights is None else weights.get(n, 1.0) for n in rows}
    total = sum(rows.values())
    most = max((count / each[n] for n, count in rows.items()), default=0.0)
    kept, low, high = (1 - share) * total, 0.0, most
    if share <= 0 or not total:
        return {}
    for _ in range(STEPS):
        part = (low + high) / 2
        used = sum(
            max(min(count, part * each[n]), (1 - largest) * count) for n, count in rows.items()
        )
        low, high = (part, high) if used <= kept else (low, part)
    lost = {n: min(largest, 1 - low * each[n] / count) for n, count in rows.items() if count > 0}
    return {n: one for n, one in lost.items() if one > LEAST_SHARE}


def class_seed(seed: int, number: int) -> int:
    """Return the seed of a class, so that classes do not all drop the same windows."""
    return seed * CLASSES + number


def with_classes(
    before: Sequence[ClassDrops],
    begun: tuple[int, int],
    column: str | None,
    ahead: Mapping[int, Intervals],
) -> tuple[ClassDrops, ...]:
    """Return the drops of classes that have begun, and those `ahead` of `column`.

    `begun` is (the watermark in force, the first result time of a window that has not begun); only
    the newest drops behind the watermark are remembered.
    """
    drops = {(one.column, one.number): _known(one.intervals, *begun) for one in before}
    for n, intervals in ahead.items():
        key = (str(column), n)
        drops[key] = union([*drops.get(key, ()), *intervals])
    return tuple(
        ClassDrops(name, n, intervals)
        for (name, n), intervals in sorted(drops.items())
        if intervals
    )


def with_queries(
    before: Sequence[QueryDrops], begun: tuple[int, int], ahead: Mapping[int, Intervals]
) -> tuple[QueryDrops, ...]:
    """Return the drops of operators that have begun, and those `ahead`, as `with_classes` does."""
    drops = {one.operator: _known(one.intervals, *begun) for one in before}
    for n, intervals in ahead.items():
        drops[n] = union([*drops.get(n, ()), *intervals])
    return tuple(QueryDrops(n, some) for n, some in sorted(drops.items()) if some)


def _known(intervals: Intervals, low: int, start: int) -> Intervals:
    """Return the intervals before `start` that end after `low` or are among the newest."""
    over = intersection(intervals, ((BEGIN, start),))
    return tuple(s for n, s in enumerate(over) if s[1] > low or len(over) - n <= REMEMBERED)
