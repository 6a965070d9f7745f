"""The late-degree monitor: ingest measures late degrees, the driver combines them.

Tasks read the blocks of an epoch in parallel. A task knows the newest time before the epoch and the
rows of its own block, but not the earlier blocks of the epoch. So the task measures late degrees by
*section*, a run of the block's rows, with the running maximum of time at both ends of the section.
If an earlier block has a newer time, the driver adds the difference to the late degrees of the
section. The result is exact for a block that begins ahead of all earlier blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lowwater.control.completeness import Ticks
from lowwater.control.measures import LatenessSection
from lowwater.control.watermark import SourceKey
from lowwater.watermarks.adaptive.lateness import EDGES, LatenessHistogram, late_degrees

HALVINGS = 12
"""The first section of a block has 1/2^12 of the block's rows; each further section doubles the
number of rows so far. Short sections come first: earlier blocks mostly affect the first rows."""


def measure(ticks: Ticks, degrees: Ticks, granule: int) -> tuple[LatenessSection, ...]:
    """Return the late degrees of a block by section; `ticks` and `degrees` are in arrival order.

    >>> for section in measure(np.array([10, 30, 21]), np.array([0, 0, 9]), 5):
    ...     print(section.first, section.last, section.largest, section.bins, section.counts)
    10 10 0 (0,) (1,)
    30 30 9 (0, 2) (1, 1)
    """
    n = len(ticks)
    if n > HALVINGS and not degrees.any():  # all rows in order: one section is enough
        return (LatenessSection(None, int(ticks[0]), int(ticks[-1]), 0, (0,), (n,)),)
    ends = sorted({max(1, n >> k) for k in range(HALVINGS + 1)} | {n})
    sections = []
    for start, end in pairwise([0, *ends]):
        first, last = (int(ticks[i] + degrees[i]) for i in (start, end - 1))
        sections.append(LatenessSection(None, first, last, *_counted(degrees[start:end], granule)))
    return tuple(sections)


def measure_sources(
    sources: Sequence[SourceKey], codes: np.ndarray, ticks: Ticks, granule: int
) -> tuple[LatenessSection, ...]:
    """Return one section per source of a block, with late degrees among the rows of the source."""
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(sources) + 1))
    sections = []
    for source, (start, end) in zip(sources, pairwise(starts.tolist()), strict=True):
        mine = ticks[order[start:end]]
        degrees = late_degrees(mine, None)
        counted = _counted(degrees, granule)
        sections.append(LatenessSection(source, int(mine[0]), int(mine.max()), *counted))
    return tuple(sections)


def _counted(degrees: Ticks, granule: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return (largest degree in ticks, non-empty bins, number of rows in each of these bins)."""
    late = degrees[degrees > 0]  # most rows are in order and need no lookup
    if not len(late):
        return 0, (0,), (len(degrees),)
    written = LatenessHistogram.of(late, granule).to_json()
    bins, counts = written["bins"], [int(c) for c in written["counts"]]
    if len(late) < len(degrees):
        bins, counts = [0, *bins], [len(degrees) - len(late), *counts]
    return int(late.max()), tuple(bins), tuple(counts)


@dataclass(frozen=True)
class SourceLateness:
    """The late degrees, the largest late degree and the newest time of each source in an epoch."""

    degrees: Mapping[SourceKey, LatenessHistogram]
    largest: Mapping[SourceKey, int]
    newest: Mapping[SourceKey, int]


def source_lateness(
    blocks: Sequence[Sequence[LatenessSection]], newest: Mapping[SourceKey, int], granule: int
) -> SourceLateness:
    """Return the lateness of each source in an epoch; `blocks` are in arrival order.

    A block is a list of sections (see `measure`). `newest` has the newest time of each source
    before the epoch.

    >>> first = LatenessSection(None, 0, 100, 0, (0,), (9,))
    >>> second = LatenessSection(None, 60, 60, 0, (0,), (1,))
    >>> epoch = source_lateness([[first], [second]], {}, 10)
    >>> epoch.degrees[None].to_json()["bins"], epoch.largest[None], epoch.newest[None]
    ([0, 4], 40, 100)
    """
    if (in_order := all_in_order(blocks, newest)) is not None:
        histogram = LatenessHistogram(granule, np.array(in_order[:1]))
        return SourceLateness({None: histogram}, {None: 0}, {None: in_order[1]})
    after, largest = dict(newest), dict.fromkeys(newest, 0)
    parts: dict[SourceKey, list[tuple[np.ndarray, np.ndarray]]] = {}
    for block in blocks:
        before = dict(after)
        for one in block:
            source, ends = one.source, (one.first, one.last)
            reached = max(before.get(source, one.first), one.first)
            rows = np.asarray(one.counts, np.float64)
            moved = _behind(EDGES[list(one.bins)], rows, ends, reached, granule)
            parts.setdefault(source, []).extend(moved)
            largest[source] = max(largest.get(source, 0), one.largest + reached - one.first)
            after[source] = max(one.last, after.get(source, one.last))
    degrees = {source: _histogram(mine, granule) for source, mine in parts.items()}
    return SourceLateness(degrees, largest, after)


def all_in_order(
    blocks: Sequence[Sequence[LatenessSection]], newest: Mapping[SourceKey, int]
) -> tuple[float, int] | None:
    """Return (number of rows, newest time); None if some rows are out of order."""
    rows, reached = 0.0, newest.get(None)
    for block in blocks:
        one = block[0]
        ahead = reached is None or one.first >= reached
        if len(block) > 1 or one.source is not None or one.largest or not ahead:
            return None
        rows, reached = rows + one.counts[0], one.last
    return None if reached is None or newest.keys() - {None} else (rows, reached)


def _behind(
    edges: Ticks, counts: np.ndarray, ends: tuple[int, int], newest: int, granule: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return a section's [(degrees, row counts)]; rows behind `newest` get larger degrees.

    `newest` is the newest time of earlier blocks. The running maximum of time is assumed to
    rise evenly from `ends[0]` to `ends[1]`.
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


def _histogram(parts: list[tuple[np.ndarray, np.ndarray]], granule: int) -> LatenessHistogram:
    edges, counts = (np.concatenate(one) for one in zip(*parts, strict=True))
    bins = np.searchsorted(EDGES, np.minimum(edges, EDGES[-1]))
    return LatenessHistogram(granule, np.bincount(bins, counts).astype(np.float64))
