"""The late-degree monitor: measured where rows are read, brought together on the driver.

Blocks of an epoch are read side by side. Each knows the newest time before the epoch and its own
rows, not the blocks before it. So it tells its late degrees in *stretches* of rows, short ones
first, each with the running maximum at its two ends; rows whose running maximum turns out to have
been behind that of an earlier block were later by the difference, and are moved there. A block
whose running maximum starts ahead of all blocks before it, as blocks in order do, is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from lowwater.control import Source
from lowwater.progress.late_degrees import EDGES, LateDegrees, Ticks, late_degrees

HALVINGS = 12
"""The first stretch of a block holds one in 2^12 of its rows, each further one as many as all
before it: what is behind earlier blocks comes first."""


def measure(ticks: Ticks, degrees: Ticks, granule: int) -> list[list[Any]]:
    """Return the stretches of a block: source, running at both ends, largest degree, counts.

    Called at ingest for every block, with degrees as far as the block knows them.

    >>> measure(np.array([10, 30, 21]), np.array([0, 0, 9]), 5)
    [[None, 10, 10, 0, [0], [1]], [None, 30, 30, 9, [0, 2], [1, 1]]]
    """
    n = len(ticks)
    if n > HALVINGS and not degrees.any():  # in order: running maxima are evenly spread enough
        return [[None, int(ticks[0]), int(ticks[-1]), 0, [0], [n]]]
    ends = sorted({max(1, n >> k) for k in range(HALVINGS + 1)} | {n})
    found = []
    for start, end in pairwise([0, *ends]):
        first, last = (int(ticks[i] + degrees[i]) for i in (start, end - 1))
        found.append([None, first, last, *_counted(degrees[start:end], granule)])
    return found


def measure_sources(
    sources: Sequence[Source], codes: np.ndarray, ticks: Ticks, granule: int
) -> list[list[Any]]:
    """Return one stretch for each source of a block, its degrees by its own rows alone."""
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(sources) + 1))
    found = []
    for source, (start, end) in zip(sources, pairwise(starts.tolist()), strict=True):
        mine = ticks[order[start:end]]
        degrees = late_degrees(mine, None)
        found.append([source, int(mine[0]), int(mine.max()), *_counted(degrees, granule)])
    return found


def _counted(degrees: Ticks, granule: int) -> tuple[int, list[int], list[int]]:
    """Count degrees by bin. Most rows of most streams are not late, and need no bin looked up."""
    late = degrees[degrees > 0]
    if not len(late):
        return 0, [0], [len(degrees)]
    told = LateDegrees.of(late, granule).to_json()
    bins, counts = told["bins"], [int(c) for c in told["counts"]]
    if len(late) < len(degrees):
        bins, counts = [0, *bins], [len(degrees) - len(late), *counts]
    return int(late.max()), bins, counts


@dataclass(frozen=True)
class Gathered:
    """What an epoch showed of each source: late degrees, the largest of them, the newest time."""

    degrees: Mapping[Source, LateDegrees]
    largest: Mapping[Source, int]
    newest: Mapping[Source, int]


def gathered(
    blocks: Iterable[Sequence[Sequence[Any]]], newest: Mapping[Source, int], granule: int
) -> Gathered:
    """Bring the stretches of an epoch's blocks together, in arrival order.

    `newest` are the newest times before the epoch, by source.

    >>> blocks = [[[None, 0, 100, 0, [0], [9]]], [[None, 60, 60, 0, [0], [1]]]]
    >>> found = gathered(blocks, {}, 10)
    >>> found.degrees[None].to_json()["bins"], found.largest[None], found.newest[None]
    ([0, 4], 40, 100)
    """
    blocks = list(blocks)
    if (plain := all_in_order(blocks, newest)) is not None:
        rows, last = plain
        return Gathered({None: LateDegrees(granule, np.array([rows]))}, {None: 0}, {None: last})
    after, largest = dict(newest), dict.fromkeys(newest, 0)
    parts: dict[Source, list[tuple[np.ndarray, np.ndarray]]] = {}
    for block in blocks:
        before = dict(after)
        for source, first, last, most, bins, counts in block:
            reached = max(before.get(source, first), first)
            held = np.asarray(counts, np.float64)
            at = parts.setdefault(source, [])
            at += _behind(EDGES[bins], held, (first, last), reached, granule)
            largest[source] = max(largest.get(source, 0), most + reached - first)
            after[source] = max(last, after.get(source, last))
    degrees = {source: _histogram(found, granule) for source, found in parts.items()}
    return Gathered(degrees, largest, after)


def all_in_order(
    blocks: Sequence[Sequence[Sequence[Any]]], newest: Mapping[Source, int]
) -> tuple[float, int] | None:
    """Return how many rows there are, and the newest time, if no row of any block is late."""
    rows, reached = 0.0, newest.get(None)
    for block in blocks:
        source, first, last, most, _, counts = block[0]
        ahead = reached is None or first >= reached
        if len(block) > 1 or source is not None or most or not ahead:
            return None
        rows, reached = rows + counts[0], last
    return None if reached is None or newest.keys() - {None} else (rows, reached)


def _behind(
    edges: Ticks, counts: np.ndarray, ends: tuple[int, int], newest: int, granule: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the rows of a stretch by degree, those behind the newest time moved to where they are.

    Running maxima are taken to be evenly spread between the ends of the stretch.
    """
    first, last = ends
    if newest <= first:
        return [(edges, counts)]
    if newest >= last:
        by = -(-(2 * newest - first - last) // (2 * granule))
        return [(edges + by, counts)]
    part = (newest - first) / (last - first)
    by = -(-(newest - first) // (2 * granule))
    return [(edges + by, counts * part), (edges, counts * (1 - part))]


def _histogram(parts: list[tuple[np.ndarray, np.ndarray]], granule: int) -> LateDegrees:
    edges, counts = (np.concatenate(one) for one in zip(*parts, strict=True))
    bins = np.searchsorted(EDGES, np.minimum(edges, EDGES[-1]))
    return LateDegrees(granule, np.bincount(bins, counts).astype(np.float64))
