"""Combining stretches of cells that lie side by side: running totals, and any range.

Both work for every part. Running totals take log2(longest stretch) steps over all cells, so many
short stretches cost what one pass costs; ranges are merged cell by cell, for parts whose content
grows with the rows and that running totals would copy again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lowwater.aggregates import Part, Partial, spread

PORTION = 4_000_000
"""Ranges are merged in runs that hold about this many results and values, to bound memory."""


def running(part: Part, cells: Partial, place: np.ndarray) -> Partial:
    """Combine each cell with those before it in its stretch; `place` is its place there, from 0."""
    out = Partial(tuple(a.copy() for a in cells.arrays), cells.values)
    step, longest = 1, int(place.max(initial=0))
    while step <= longest:
        reached = np.flatnonzero(place >= step)
        out.put(reached, part.combine(out.take(reached - step), out.take(reached)))
        step *= 2
    return out


def running_up(part: Part, cells: Partial, left: np.ndarray) -> Partial:
    """Combine each cell with those after it in its stretch; `left` is how many there are."""
    out = Partial(tuple(a.copy() for a in cells.arrays), cells.values)
    step, longest = 1, int(left.max(initial=0))
    while step <= longest:
        reached = np.flatnonzero(left >= step)
        out.put(reached, part.combine(out.take(reached), out.take(reached + step)))
        step *= 2
    return out


def merged(part: Part, cells: Partial, first: np.ndarray, end: np.ndarray) -> Partial:
    """Combine the cells [first, end) of every range."""
    index, which = spread(first, end)
    return part.merge(cells.take(index), which, len(first))


def portions(
    parts: Sequence[Part],
    cells: Sequence[Partial],
    first: np.ndarray,
    end: np.ndarray,
    limit: int,
) -> Iterator[np.ndarray]:
    """Cut ranges of cells into runs that hold about `limit`, by what parts that grow keep there."""
    content = np.ones(len(first), np.int64)
    for part, kept in zip(parts, cells, strict=True):
        if not part.bounded:
            upto = np.append(0, np.cumsum(kept.sizes))
            content += upto[end] - upto[first]
    return slices(content, limit)


def slices(sizes: np.ndarray, limit: int) -> Iterator[np.ndarray]:
    """Cut things of some sizes into runs of at most `limit`, at least one thing each."""
    total = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = total[start - 1] if start else 0
        end = max(int(np.searchsorted(total, before + limit, "right")), start + 1)
        yield np.arange(start, end)
        start = end


def places(segment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of each cell in its segment, and how many follow; segments are sorted.

    >>> [x.tolist() for x in places(np.array([4, 4, 4, 7]))]
    [[0, 1, 2, 0], [2, 1, 0, 0]]
    """
    if not len(segment):
        return segment, segment
    starts = np.flatnonzero(np.diff(segment, prepend=segment[0] - 1))
    sizes = np.diff(np.append(starts, len(segment)))
    place = np.arange(len(segment)) - np.repeat(starts, sizes)
    return place, np.repeat(sizes, sizes) - 1 - place
