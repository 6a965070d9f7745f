"""Brute force for windows that the data drive, from the definitions (semantics 1, 2, 12, 13).

Rows carry `t`. A row of epoch n finds in force the mark that was decided after epoch n−2: it acted
at the end of n−1. Nothing here uses Lowwater.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.oracle import AGGREGATES, TIME, Row, group

Cells = dict[tuple[Any, ...], list["Came"]]


@dataclass(frozen=True)
class Came:
    """A row, its place in the order of arrival (from 1), and the mark in force when it came."""

    row: Row
    arrival: int
    closed: float

    @property
    def t(self) -> int:
        return self.row[TIME]

    @property
    def in_time(self) -> bool:
        return self.t >= self.closed


def arrivals(
    epochs: Sequence[Sequence[Row]], span: int, partition: Sequence[str] = ()
) -> list[list[Came]]:
    """Say of each row when it came, in its partition, under a slack of `span`."""
    out, newest = [], -math.inf
    counts: dict[Any, int] = {}
    decided = [-math.inf, -math.inf]
    for rows in epochs:
        came = []
        for row in rows:
            part = group(row, partition)
            counts[part] = counts.get(part, 0) + 1
            came.append(Came(row, counts[part], decided[-2]))
            newest = max(newest, row[TIME])
        decided.append(newest - span)
        out.append(came)
    return out


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
                if max(r.t, r.closed) <= w < r.t + size:
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
    epochs: list[list[Came]], gap: int, span: int, keys: Sequence[str]
) -> tuple[Cells, list[Came]]:
    """Return sessions by (start, *group), and the late rows: those whose session was complete."""
    found: Cells = {}
    late: list[Came] = []
    open_: dict[Any, list[list[Came]]] = {}
    newest, decided = -math.inf, [-math.inf]
    for rows in epochs:
        for r in rows:
            open_.setdefault(group(r.row, keys), []).append([r])
        for by, pieces in open_.items():
            kept = []
            for session in _joined(pieces, gap):
                closed = rows[0].closed if rows else -math.inf
                if max(r.t for r in session) + gap <= closed:
                    late += session
                else:
                    kept.append(session)
            acting = decided[-1]
            open_[by] = [s for s in kept if max(r.t for r in s) + gap > acting]
            for s in kept:
                if max(r.t for r in s) + gap <= acting:
                    found[min(r.t for r in s), *by] = s
        newest = max([newest, *(r.t for r in rows)])
        decided.append(newest - span)
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
