"""The quality tracker: what an operator has produced, and what it should have (QDJ 6.1.1).

Rows in windows and pairs are counted where they are made and where they are missed. A window's
error is known when it closes and grows when late rows miss it: it then no longer counts as good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowwater.control import Source

WATCHED = 512
"""How many windows are remembered, to know their errors when late rows come."""


@dataclass(frozen=True)
class Windowed:
    """Windows that were closed: (id, rows, rows missed), and the error that is allowed."""

    known: Sequence[Sequence[int]]
    error: float


@dataclass(frozen=True)
class Found:
    """Produced, lost, results and rows in them; what could not be counted; windows to remember."""

    counts: tuple[int, int, int, int]
    unseen: int = 0
    windows: Sequence[Sequence[int]] = field(default_factory=list)


def quality_of(what: str, measured: Sequence[Mapping[str, Any]], windows: Windowed) -> Found:
    """Return what an epoch of an operator produced and lost, of pairs, rows or windows."""
    results = _sum(measured, "results")
    if what == "pairs":
        # Pairs that leave in order are made before: that is when others are lost.
        made = sum(m.get("made", m.get("results", 0)) for m in measured)
        return Found((made, _sum(measured, "lost"), results, results), _sum(measured, "unseen"))
    closed = _rows(measured, "closed")
    if what == "rows":
        return Found((closed, _rows(measured, "missed"), results, closed))
    return _windows(measured, windows, (results, closed))


def by_source(measured: Sequence[Mapping[str, Any]]) -> dict[Source, tuple[int, int]]:
    """Return the rows that windows had, and that missed them, of each source."""
    found: dict[Source, tuple[int, int]] = {}
    for m in measured:
        for source, rows in m.get("closed_of", ()):
            given, lost = found.get(source, (0, 0))
            found[source] = given + rows, lost
        for source, rows in m.get("missed_of", ()):
            given, lost = found.get(source, (0, 0))
            found[source] = given, lost + rows
    return found


def in_time(sides: Sequence[Sequence[Mapping[str, Any]]]) -> tuple[float, float]:
    """Return the share of pairs of which both rows were in time, and the rest, weighed by rows."""
    rows, share = 0, 1.0
    for measured in sides:
        admitted, late = _sum(measured, "admitted"), _sum(measured, "late")
        rows += admitted + late
        share *= admitted / (admitted + late) if admitted + late else 1.0
    return rows * share, rows * (1.0 - share)


def _windows(
    measured: Sequence[Mapping[str, Any]], windows: Windowed, held: tuple[int, int]
) -> Found:
    """Count windows within the error; one that late rows push out of it is taken back."""
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
    kept = sorted(known.items())[-WATCHED:]
    return Found((good, bad, *held), unseen, [[w, *one] for w, one in kept])


def _within(one: Sequence[int], error: float) -> bool:
    rows, missed = one
    return missed <= error * (rows + missed)


def _sum(measured: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(m.get(name, 0) for m in measured)


def _rows(measured: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(rows for m in measured for _, rows in m.get(name, ()))
