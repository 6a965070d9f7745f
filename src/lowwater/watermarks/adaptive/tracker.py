"""The quality tracker: the results of an operator, produced and lost (QDJ 6.1.1).

Operators count rows in windows, and pairs, when they produce and when they miss them. The error of
a window is known when it closes, and grows when late rows miss it; the window then no longer counts
as good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lowwater.control.watermark import SourceKey

WATCHED = 512
"""The number of closed windows that are remembered, to update their errors."""


@dataclass(frozen=True)
class ClosedWindows:
    """Closed windows as (id, rows, missed rows), and the allowed error."""

    known: Sequence[tuple[int, int, int]]
    error: float


@dataclass(frozen=True)
class TrackResult:
    """Produced, lost, results and their rows; losses not counted exactly; closed windows."""

    counts: tuple[int, int, int, int]
    unseen: int = 0
    windows: tuple[tuple[int, int, int], ...] = ()


def quality_of(
    what: str, measured: Sequence[Mapping[str, Any]], windows: ClosedWindows
) -> TrackResult:
    """Return the pairs, rows or windows that an operator produced and lost in an epoch."""
    results = _sum(measured, "results")
    if what == "pairs":
        # A join with order= emits pairs later than it makes them; losses occur when it makes them.
        made = sum(m.get("made", m.get("results", 0)) for m in measured)
        return TrackResult(
            (made, _sum(measured, "lost"), results, results), _sum(measured, "unseen")
        )
    closed = _rows(measured, "closed")
    if what == "rows":
        return TrackResult((closed, _rows(measured, "missed"), results, closed))
    return _windows(measured, windows, (results, closed))


def by_source(measured: Sequence[Mapping[str, Any]]) -> dict[SourceKey, tuple[int, int]]:
    """Return by source the rows in closed windows, and the rows that missed their windows."""
    found: dict[SourceKey, tuple[int, int]] = {}
    for m in measured:
        for source, rows in m.get("closed_of", ()):
            given, lost = found.get(source, (0, 0))
            found[source] = given + rows, lost
        for source, rows in m.get("missed_of", ()):
            given, lost = found.get(source, (0, 0))
            found[source] = given, lost + rows
    return found


def in_time(sides: Sequence[Sequence[Mapping[str, Any]]]) -> tuple[float, float]:
    """Return the rows times the share of pairs with both rows in time, and the remaining rows."""
    rows, share = 0, 1.0
    for measured in sides:
        admitted, late = _sum(measured, "admitted"), _sum(measured, "late")
        rows += admitted + late
        share *= admitted / (admitted + late) if admitted + late else 1.0
    return rows * share, rows * (1.0 - share)


def _windows(
    measured: Sequence[Mapping[str, Any]], windows: ClosedWindows, held: tuple[int, int]
) -> TrackResult:
    """Return the windows within the error; a window that late rows push out is subtracted."""
    known = {wid: [rows, missed] for wid, rows, missed in windows.known}
    good = bad = unseen = 0
    for m in measured:
        for wid, rows in m.get("closed", ()):
            known[wid] = [rows + known.get(wid, [0, 0])[0], known.get(wid, [0, 0])[1]]
    new = known.keys() - {wid for wid, *_ in windows.known}
    good += len(new)
    for m in measured:
        for wid, rows in m.get("missed", ()):
            if wid not in known:
                unseen += rows
                continue
            one = known[wid]
            was = _within(one, windows.error)
            one[1] += rows
            if was and not _within(one, windows.error):
                good, bad = good - 1, bad + 1
    watched = sorted(known.items())[-WATCHED:]
    closed = tuple((wid, rows, missed) for wid, (rows, missed) in watched)
    return TrackResult((good, bad, *held), unseen, closed)


def _within(one: Sequence[int], error: float) -> bool:
    rows, missed = one
    return missed <= error * (rows + missed)


def _sum(measured: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(m.get(name, 0) for m in measured)


def _rows(measured: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(rows for m in measured for _, rows in m.get(name, ()))
