"""Sorted tuples of disjoint time intervals `[start, end)`, and operations on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Intervals: TypeAlias = tuple[tuple[int, int], ...]


def union(intervals: Iterable[tuple[int, int]]) -> Intervals:
    """Return `intervals` sorted; intervals that overlap or touch are merged.

    >>> union([(5, 7), (1, 3), (3, 4), (9, 9)])
    ((1, 4), (5, 7))
    """
    merged: list[tuple[int, int]] = []
    for start, end in sorted(one for one in intervals if one[0] < one[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def difference(one: Intervals, other: Intervals) -> Intervals:
    """Return the parts of the intervals `one` that are not in `other`.

    >>> difference(((0, 9),), ((2, 4), (6, 7)))
    ((0, 2), (4, 6), (7, 9))
    """
    parts = list(one)
    for start, end in other:
        parts = [part for a, b in parts for part in ((a, min(b, start)), (max(a, end), b))]
    return union(parts)


def intersection(one: Intervals, other: Intervals) -> Intervals:
    """Return the parts of the intervals `one` that are also in `other`.

    >>> intersection(((0, 5), (7, 9)), ((3, 8),))
    ((3, 5), (7, 8))
    """
    parts, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        (a, b), (c, d) = one[i], other[j]
        parts.append((max(a, c), min(b, d)))
        i, j = (i + 1, j) if b < d else (i, j + 1)
    return union(parts)
