"""The quality tracker: counts of the results that an operator produced and lost (QDJ 6.1.1).

Operators count rows in closed windows and rows that missed them, or pairs produced and lost. A
window counts as good when it closes. A good window becomes bad if late rows that missed it raise
its relative error above the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lowwater.control.measures import ShardMeasure
from lowwater.control.watermark import SourceKey

WATCHED = 512
"""The number of closed windows that are remembered, so that late rows can update their errors."""


Windows: TypeAlias = tuple[tuple[int, int, int], ...]
"""Closed windows, each as (wid, rows, missed rows)."""


@dataclass(frozen=True)
class TrackResult:
    """The quality counts of one epoch.

    - `counts`: Four numbers: produced items, lost items, results, and rows in results.
    - `unseen`: The number of losses that could not be counted exactly.
    - `windows`: The closed windows that are remembered after the epoch.
    """

    counts: tuple[int, int, int, int]
    unseen: int = 0
    windows: Windows = ()


def quality_of(
    what: str, measured: Sequence[ShardMeasure], windows: Windows, error: float
) -> TrackResult:
    """Return the counts of pairs, rows or windows that an operator produced and lost in an epoch.

    `what` is the kind of item, `windows` are the remembered closed windows, and `error` is the
    allowed relative error of a window.
    """
    results = _sum(measured, "results")
    if what == "pairs":
        # A join with order= emits pairs later than it makes them; losses occur when it makes them.
        made = sum(m.counts.get("made", m.counts.get("results", 0)) for m in measured)
        counts = (made, _sum(measured, "lost"), results, results)
        return TrackResult(counts, _sum(measured, "unseen"))
    closed = sum(rows for m in measured for _, rows in m.closed)
    if what == "rows":
        missed = sum(rows for m in measured for _, rows in m.missed)
        return TrackResult((closed, missed, results, closed))
    good, bad, unseen, windows = _windows(measured, windows, error)
    return TrackResult((good, bad, results, closed), unseen, windows)


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


def _windows(
    measured: Sequence[ShardMeasure], windows: Windows, error: float
) -> tuple[int, int, int, Windows]:
    """Return the changes in the numbers of good and bad windows, then `unseen` and `windows`.

    `unseen` is the number of late rows of forgotten windows, `windows` are the remembered windows.
    """
    known = {wid: [rows, missed] for wid, rows, missed in windows}
    for m in measured:
        for wid, rows in m.closed:
            known.setdefault(wid, [0, 0])[0] += rows
    good, bad, unseen = len(known) - len(windows), 0, 0
    for wid, late in (pair for m in measured for pair in m.missed):
        if wid not in known:
            unseen += late
            continue
        rows, missed = known[wid]
        known[wid][1] += late
        if missed <= error * (rows + missed) and missed + late > error * (rows + missed + late):
            good, bad = good - 1, bad + 1
    watched = sorted(known.items())[-WATCHED:]
    return good, bad, unseen, tuple((wid, rows, missed) for wid, (rows, missed) in watched)


def _sum(measured: Sequence[ShardMeasure], name: str) -> int:
    return sum(m.counts.get(name, 0) for m in measured)
