"""The quality tracker: the results of an operator, produced and lost (QDJ 6.1.1).

Operators count rows in windows, and pairs, when they produce and when they miss them. The error of
a window is known when it closes, and grows when late rows miss it; the window then no longer counts
as good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lowwater.control.measures import ShardMeasure
from lowwater.control.watermark import SourceKey

WATCHED = 512
"""The number of closed windows that are remembered, to update their errors."""


Windows: TypeAlias = tuple[tuple[int, int, int], ...]
"""Closed windows, each as (id, rows, missed rows)."""


@dataclass(frozen=True)
class TrackResult:
    """The counts of an epoch.

    - `counts`: The number of produced and of lost items, of results, and of the rows in results.
    - `unseen`: The number of losses that could not be counted exactly.
    - `windows`: The closed windows that are remembered.
    """

    counts: tuple[int, int, int, int]
    unseen: int = 0
    windows: Windows = ()


def quality_of(
    what: str, measured: Sequence[ShardMeasure], windows: Windows, error: float
) -> TrackResult:
    """Return the pairs, rows or windows that an operator produced and lost in an epoch.

    `windows` are the closed windows remembered so far, `error` is their allowed error.
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
    """Return by source the rows in closed windows, and the rows that missed their windows."""
    counts: dict[SourceKey, list[int]] = {}
    for m in measured:
        for place, pairs in enumerate((m.closed_of, m.missed_of)):
            for source, rows in pairs:
                counts.setdefault(source, [0, 0])[place] += rows
    return counts


def in_time(sides: Sequence[Sequence[ShardMeasure]]) -> tuple[float, float]:
    """Return the rows times the share of pairs with both rows in time, and the remaining rows."""
    rows, share = 0, 1.0
    for measured in sides:
        admitted, late = _sum(measured, "admitted"), _sum(measured, "late")
        rows += admitted + late
        share *= admitted / (admitted + late) if admitted + late else 1.0
    return rows * share, rows * (1.0 - share)


def _windows(
    measured: Sequence[ShardMeasure], windows: Windows, error: float
) -> tuple[int, int, int, Windows]:
    """Return how many windows are within the error, how many late rows pushed out, and the rest.

    The rest is the number of late rows whose windows are forgotten, and the remembered windows.
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
