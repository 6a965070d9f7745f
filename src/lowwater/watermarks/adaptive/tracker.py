"""The quality tracker: counts of the results that an operator produced and lost (QDJ 6.1.1).

Operators count rows in closed windows and rows that missed them, or pairs produced and lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowwater.control.measures import ShardMeasure
from lowwater.control.watermark import SourceKey


def quality_of(what: str, measured: Sequence[ShardMeasure]) -> tuple[int, int, int, int]:
    """Return the numbers of produced items, lost items, results, and rows in results of an epoch.

    `what` is the kind of item.
    """
    results = _sum(measured, "results")
    if what == "pairs":
        # A join with order= emits pairs later than it makes them; losses occur when it makes them.
        made = sum(m.counts.get("made", m.counts.get("results", 0)) for m in measured)
        return made, _sum(measured, "lost"), results, results
    closed = sum(rows for m in measured for _, rows in m.closed)
    missed = sum(rows for m in measured for _, rows in m.missed)
    return closed, missed, results, closed


def by_source(measured: Sequence[ShardMeasure]) -> dict[SourceKey, list[int]]:
    """Return {source: [number of rows in closed windows, number of rows that missed windows]}."""
    counts: dict[SourceKey, list[int]] = {}
    for m in measured:
        for place, pairs in enumerate((m.closed_of, m.missed_of)):
            for source, rows in pairs:
                counts.setdefault(source, [0, 0])[place] += rows
    return counts


def in_time(sides: Sequence[Sequence[ShardMeasure]]) -> tuple[float, float]:
    """Return (rows · s, rows · (1 - s)), where s is the share of pairs with both rows in time."""
    rows, share = 0, 1.0
    for measured in sides:
        admitted, late = _sum(measured, "admitted"), _sum(measured, "late")
        rows += admitted + late
        share *= admitted / (admitted + late) if admitted + late else 1.0
    return rows * share, rows * (1.0 - share)


def _sum(measured: Sequence[ShardMeasure], name: str) -> int:
    return sum(m.counts.get(name, 0) for m in measured)
