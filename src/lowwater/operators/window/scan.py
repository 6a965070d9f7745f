"""Scans over runs of neighbouring cells: running totals, and totals of intervals of cells.

Both work for every accumulator. Running totals take log2(longest run) passes over all cells, so
short runs cost little more than one pass. Accumulators that grow with their rows are merged
instead, because running totals would copy their content again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lowwater.aggregates.accumulators.base import Accumulator, AccumulatorColumns
from lowwater.aggregates.accumulators.values import spread

PORTION = 4_000_000
"""Cells are merged in portions of about this many results and values, to bound memory."""


def running(
    part: Accumulator, cells: AccumulatorColumns, others: np.ndarray, *, up: bool = False
) -> AccumulatorColumns:
    """Return the running totals: each cell combined with all earlier cells of its run.

    With `up`, all later cells are used instead. Cell i is combined with `others[i]` other cells.
    """
    out = AccumulatorColumns(tuple(a.copy() for a in cells.arrays), cells.values)
    step, longest = 1, int(others.max(initial=0))
    while step <= longest:
        reached = np.flatnonzero(others >= step)
        first, second = (reached, reached + step) if up else (reached - step, reached)
        out.put(reached, part.combine(out.take(first), out.take(second)))
        step *= 2
    return out


def merged(
    part: Accumulator, cells: AccumulatorColumns, first: np.ndarray, end: np.ndarray
) -> AccumulatorColumns:
    """Return the total of the cells [first[i], end[i]) for every i."""
    index, which = spread(first, end)
    return part.merge(cells.take(index), which, len(first))


def portions(
    parts: Sequence[Accumulator],
    cells: Sequence[AccumulatorColumns],
    first: np.ndarray,
    end: np.ndarray,
    limit: int,
) -> Iterator[np.ndarray]:
    """Yield the indices of `first` in portions of about `limit` results and values."""
    content = np.ones(len(first), np.int64)
    for part, stored in zip(parts, cells, strict=True):
        if not part.bounded:
            upto = np.append(0, np.cumsum(stored.sizes))
            content += upto[end] - upto[first]
    return slices(content, limit)


def slices(sizes: np.ndarray, limit: int) -> Iterator[np.ndarray]:
    """Yield portions of consecutive indices. A portion above the size `limit` has one index."""
    total = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = total[start - 1] if start else 0
        end = max(int(np.searchsorted(total, before + limit, "right")), start + 1)
        yield np.arange(start, end)
        start = end


def places(segment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many cells of the same segment are before, and how many after, each cell.

    >>> [x.tolist() for x in places(np.array([4, 4, 4, 7]))]
    [[0, 1, 2, 0], [2, 1, 0, 0]]
    """
    if not len(segment):
        return segment, segment
    starts = np.flatnonzero(np.diff(segment, prepend=segment[0] - 1))
    sizes = np.diff(np.append(starts, len(segment)))
    place = np.arange(len(segment)) - np.repeat(starts, sizes)
    return place, np.repeat(sizes, sizes) - 1 - place
