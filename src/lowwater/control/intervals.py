"""Stretches `[start, end)` of time, kept in order and apart from each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Stretches: TypeAlias = tuple[tuple[int, int], ...]


def joined(stretches: Iterable[tuple[int, int]]) -> Stretches:
    """Return stretches in order, those that touch joined into one.

    >>> joined([(5, 7), (1, 3), (3, 4), (9, 9)])
    ((1, 4), (5, 7))
    """
    found: list[tuple[int, int]] = []
    for start, end in sorted(s for s in stretches if s[0] < s[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)


def without(one: Stretches, other: Stretches) -> Stretches:
    """Return the parts of stretches that lie outside of others.

    >>> without(((0, 9),), ((2, 4), (6, 7)))
    ((0, 2), (4, 6), (7, 9))
    """
    found = list(one)
    for start, end in other:
        found = [part for a, b in found for part in ((a, min(b, start)), (max(a, end), b))]
    return joined(found)


def common(one: Stretches, other: Stretches) -> Stretches:
    """Return what two lists of stretches have in common.

    >>> common(((0, 5), (7, 9)), ((3, 8),))
    ((3, 5), (7, 8))
    """
    found, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        (a, b), (c, d) = one[i], other[j]
        found.append((max(a, c), min(b, d)))
        i, j = (i + 1, j) if b < d else (i, j + 1)
    return joined(found)
