"""Combining stretches of cells that lie side by side: running totals, and any range.

Both work for every part. Running totals take log2(longest stretch) steps over all cells, so many
short stretches cost what one pass costs; ranges are merged cell by cell, for parts whose content
grows with the rows and that running totals would copy again and again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lowwater.aggregates import Part, Partial

PAIRS = 4_000_000
"""Ranges are merged in slices of about this many (range, cell) pairs, to bound memory."""


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
    out = part.empty(len(first), cells)
    for chosen in slices(end - first, PAIRS):
        index, which = spread(first[chosen], end[chosen])
        whole = part.merge(cells.take(index), which, len(chosen))
        out.put(chosen, whole)
    return out


def spread(first: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (element, number of its range) for all elements of the ranges [first, end).

    >>> [x.tolist() for x in spread(np.array([3, 9]), np.array([5, 10]))]
    [[3, 4, 9], [0, 0, 1]]
    """
    copies = end - first
    which = np.repeat(np.arange(len(first)), copies)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(copies) - copies, copies)
    return first[which] + nth, which


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
    sizes = np.diff([*starts, len(segment)])
    place = np.arange(len(segment)) - np.repeat(starts, sizes)
    return place, np.repeat(sizes, sizes) - 1 - place
