"""Brute force for windows that the data drive, from the definitions.

Rows carry `t`. A row of epoch n finds in force the mark that was decided after epoch n−2: it acted
at the end of n−1. Nothing here uses Lowwater.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.reference.windows import AGGREGATES, TIME, Row, Rule, group

Cells = dict[tuple[Any, ...], list["Came"]]


@dataclass(frozen=True)
class Came:
    """A row, its place in the order of arrival (from 1), and the mark in force when it came.

    `dead` rows miss all windows, since they are behind the mark over all epochs before theirs.
    """

    row: Row
    arrival: int
    closed: float
    dead: bool = False

    @property
    def t(self) -> int:
        return self.row[TIME]

    @property
    def in_time(self) -> bool:
        return self.t >= self.closed and not self.dead


def arrivals(
    epochs: Sequence[Sequence[Row]],
    rule: Rule,
    partition: Sequence[str] = (),
    *,
    consistent: bool = False,
    rounded: Callable[[float], float] = float,
) -> list[list[Came]]:
    """Say of each row when it came, in its partition, and what was closed; punctuations are none.

    The controller's mark acts at the end of the epoch after the one that it was decided over; what
    rows themselves say acts at the end of their own. `rounded` is how marks are rounded down.
    """
    out: list[list[Came]] = []
    counts: dict[Any, int] = {}
    rules = _rules(epochs, rule)
    for n, rows in enumerate(epochs):
        came = []
        for row in rows:
            if rule.says(row):
                continue
            part = group(row, partition)
            counts[part] = counts.get(part, 0) + 1
            closed = max(rules[max(n - 1, 0)].mark(row), rules[n].prompt(row))
            dead = consistent and row[TIME] < rounded(rules[n].mark(row))
            came.append(Came(row, counts[part], closed, dead))
        out.append(came)
    return out


def _rules(epochs: Sequence[Sequence[Row]], rule: Rule) -> list[Rule]:
    """What is known before each epoch, and after the last."""
    known = [copy.deepcopy(rule)]
    for rows in epochs:
        following = copy.deepcopy(known[-1])
        following.after(rows)
        known.append(following)
    return known


def evaluated(
    cells: Cells, named: dict[str, tuple[str, str | None]]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the aggregates of cells, their rows in the order of (time, arrival)."""
    return {
        cell: {
            name: AGGREGATES[function](
                [1 if c is None else r.row[c] for r in sorted(rows, key=lambda r: (r.t, r.arrival))]
            )
            for name, (function, c) in named.items()
        }
        for cell, rows in cells.items()
    }


# -- windows that rows end -----------------------------------------------------------------------


def every_row(rows: list[Came]) -> set[int]:
    return {r.t for r in rows}


def every_rank(n: int) -> Callable[[list[Came]], set[int]]:
    def ends(rows: list[Came]) -> set[int]:
        ranked = sorted(rows, key=lambda r: (r.t, r.arrival))
        return {r.t for rank, r in enumerate(ranked, 1) if rank % n == 0}

    return ends


def every_arrival(n: int) -> Callable[[list[Came]], set[int]]:
    return lambda rows: {r.t for r in rows if r.arrival % n == 0}


def multiples(column: str, n: int) -> Callable[[list[Came]], set[int]]:
    return lambda rows: {r.t for r in rows if r.row[column] is not None and r.row[column] % n == 0}


def slide_by_row(
    rows: list[Came],
    size: int,
    ends: Callable[[list[Came]], set[int]],
    keys: Sequence[str],
    partition: Sequence[str] = (),
) -> Cells:
    """extent(w) = (w − size, w]; windows of the whole stream, or of each partition."""
    cells: Cells = {}
    for mine in _parted(rows, partition):
        for w in ends([r for r in mine if r.in_time]):
            for r in mine:
                if not r.dead and max(r.t, r.closed) <= w < r.t + size:
                    cells.setdefault((w, *group(r.row, keys)), []).append(r)
    return cells


def _parted(rows: list[Came], partition: Sequence[str]) -> Iterator[list[Came]]:
    parts: dict[Any, list[Came]] = {}
    for r in rows:
        parts.setdefault(group(r.row, partition), []).append(r)
    yield from parts.values()


# -- windows over row numbers --------------------------------------------------------------------


def numbered(
    rows: list[Came],
    size: int,
    slide: int,
    keys: Sequence[str],
    partition: Sequence[str] = (),
    *,
    by_rank: bool = False,
) -> Cells:
    """extent(w) = rows number w·slide to w·slide + size − 1 of a partition."""
    cells: Cells = {}
    for mine in _parted(rows, partition):
        ordered = mine
        if by_rank:
            ordered = sorted((r for r in mine if r.in_time), key=lambda r: (r.t, r.arrival))
        for number, r in enumerate(ordered):
            for w in range((number - size) // slide - 1, number // slide + 2):
                if w * slide <= number < w * slide + size:
                    cells.setdefault((w, *group(r.row, keys)), []).append(r)
    return cells


# -- sessions ------------------------------------------------------------------------------------


def sessions(
    epochs: Sequence[Sequence[Row]],
    gap: int,
    rule: Rule,
    keys: Sequence[str],
    *,
    consistent: bool = False,
) -> tuple[Cells, list[Came]]:
    """Return sessions by (start, *group), and the late rows: those whose session was complete."""
    found: Cells = {}
    late: list[Came] = []
    open_: dict[Any, list[list[Came]]] = {}
    rules = _rules(epochs, rule)
    for n, rows in enumerate(arrivals(epochs, rule, consistent=consistent)):
        late += [r for r in rows if r.dead]
        for r in rows:
            if not r.dead:
                open_.setdefault(group(r.row, keys), []).append([r])
        for by, pieces in open_.items():
            left = []
            for session in _joined(pieces, gap):
                end, row = max(r.t for r in session) + gap, session[0].row
                if end <= max(rules[max(n - 1, 0)].mark(row), rules[n].prompt(row)):
                    late += session
                elif end <= max(rules[n].mark(row), rules[n + 1].prompt(row)):
                    found[min(r.t for r in session), *by] = session
                else:
                    left.append(session)
            open_[by] = left
    for by, pieces in open_.items():
        for s in pieces:
            found[min(r.t for r in s), *by] = s
    return found, late


def _joined(pieces: list[list[Came]], gap: int) -> list[list[Came]]:
    out: list[list[Came]] = []
    for piece in sorted(pieces, key=lambda p: min(r.t for r in p)):
        if out and min(r.t for r in piece) - max(r.t for r in out[-1]) < gap:
            out[-1] = out[-1] + piece
        else:
            out.append(piece)
    return out


# -- several windows -----------------------------------------------------------------------------

Several = dict[str, tuple[int, int]]
"""name -> (range, slide)."""


def latest_end(several: Several) -> Callable[[float], float]:
    """Return the function to the latest end of any window that is not after a mark."""

    def rounded(mark: float) -> float:
        if math.isinf(mark):
            return mark
        return max((mark - size) // slide * slide + size for size, slide in several.values())

    return rounded


def held_and_missed(r: Came, size: int, slide: int) -> tuple[list[int], list[int]]:
    """Return the windows that a row is in, and those it came too late for."""
    near = range((r.t - size) // slide, r.t // slide + 1)
    mine = [w for w in near if w * slide <= r.t < w * slide + size]
    missed = [w for w in mine if r.dead or w * slide + size <= r.closed]
    return [w for w in mine if w not in missed], missed


def sliding(rows: list[Came], size: int, slide: int, keys: Sequence[str]) -> Cells:
    """extent(w) = [w·slide, w·slide + size)."""
    cells: Cells = {}
    for r in rows:
        for w in held_and_missed(r, size, slide)[0]:
            cells.setdefault((w, *group(r.row, keys)), []).append(r)
    return cells
