"""Scans over runs of cells that lie side by side: running totals, and merges of any range.

Both work for every part. Running totals take log2(longest run) steps over all cells, so a lot of
short runs cost as much as one pass. Ranges are merged cell by cell, for parts whose content
grows with the rows: running totals would copy it again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lowwater.aggregates.accumulators.base import Accumulator, AccumulatorColumns
from lowwater.aggregates.accumulators.values import spread

PORTION = 4_000_000
"""Ranges are merged in portions of about this many results and values, to bound memory."""


def running(part: Accumulator, cells: AccumulatorColumns, place: np.ndarray) -> AccumulatorColumns:
    """Return each cell combined with those before it in its run; `place` is its place there."""
    out = AccumulatorColumns(tuple(a.copy() for a in cells.arrays), cells.values)
    step, longest = 1, int(place.max(initial=0))
    while step <= longest:
        reached = np.flatnonzero(place >= step)
        out.put(reached, part.combine(out.take(reached - step), out.take(reached)))
        step *= 2
    return out


def running_up(
    part: Accumulator, cells: AccumulatorColumns, left: np.ndarray
) -> AccumulatorColumns:
    """Return each cell combined with those after it in its run; `left` is the number of those."""
    out = AccumulatorColumns(tuple(a.copy() for a in cells.arrays), cells.values)
    step, longest = 1, int(left.max(initial=0))
    while step <= longest:
        reached = np.flatnonzero(left >= step)
        out.put(reached, part.combine(out.take(reached), out.take(reached + step)))
        step *= 2
    return out


def merged(
    part: Accumulator, cells: AccumulatorColumns, first: np.ndarray, end: np.ndarray
) -> AccumulatorColumns:
    """Return the cells [first, end) of every range combined."""
    index, which = spread(first, end)
    return part.merge(cells.take(index), which, len(first))


def portions(
    parts: Sequence[Accumulator],
    cells: Sequence[AccumulatorColumns],
    first: np.ndarray,
    end: np.ndarray,
    limit: int,
) -> Iterator[np.ndarray]:
    """Yield portions of ranges of cells that hold about `limit` values in parts that grow."""
    content = np.ones(len(first), np.int64)
    for part, kept in zip(parts, cells, strict=True):
        if not part.bounded:
            upto = np.append(0, np.cumsum(kept.sizes))
            content += upto[end] - upto[first]
    return slices(content, limit)


def slices(sizes: np.ndarray, limit: int) -> Iterator[np.ndarray]:
    """Yield the indices of consecutive elements whose sizes add up to at most `limit`, or one."""
    total = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = total[start - 1] if start else 0
        end = max(int(np.searchsorted(total, before + limit, "right")), start + 1)
        yield np.arange(start, end)
        start = end


def places(segment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of each cell in its segment, and the number after it; segments are sorted.

    >>> [x.tolist() for x in places(np.array([4, 4, 4, 7]))]
    [[0, 1, 2, 0], [2, 1, 0, 0]]
    """
    if not len(segment):
        return segment, segment
    starts = np.flatnonzero(np.diff(segment, prepend=segment[0] - 1))
    sizes = np.diff(np.append(starts, len(segment)))
    place = np.arange(len(segment)) - np.repeat(starts, sizes)
    return place, np.repeat(sizes, sizes) - 1 - place
