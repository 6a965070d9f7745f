"""Which rows are the first of their kind, in order of arrival, and which repeat one."""

from __future__ import annotations

import numpy as np

from lowwater.aggregates import spread
from lowwater.kernels.bands import Band
from lowwater.kernels.matching import Sorted

_STRIDE = 8


def first_arrivals(
    code: np.ndarray, ticks: np.ndarray, near: Band, candidates: np.ndarray
) -> np.ndarray:
    """Return which candidates no earlier one of equal code repeats, greedily in arrival order.

    Each round lets through the first undecided row of every code and strikes out those near it. A
    row is near at most two that were let through, so all rounds together cost what the rows do.

    >>> code, ticks = np.zeros(4, int), np.array([5, 3, 1, 7])
    >>> first_arrivals(code, ticks, Band(-2, 2), np.ones(4, bool)).tolist()
    [True, False, True, False]
    """
    new = np.zeros(len(code), bool)
    rows = np.flatnonzero(candidates)
    by_time = Sorted(code, ticks, rows)
    if near.lo == near.hi == 0:
        new[by_time.order[by_time.begins()]] = True
        return new
    queue = rows[np.argsort(code[rows], kind="stable")]
    at = np.flatnonzero(np.diff(code[queue], prepend=-1))
    stop = np.append(at[1:], len(queue))
    decided = np.zeros(len(code), bool)
    while len(at):
        chosen = queue[at]
        new[chosen] = True
        t = ticks[chosen]
        struck, _ = spread(*by_time.between(code[chosen], near.first(t), near.last(t)))
        decided[by_time.order[struck]] = True
        at = _advanced(queue, decided, at, stop)
        left = at < stop
        at, stop = at[left], stop[left]
    return new


def _advanced(
    queue: np.ndarray, decided: np.ndarray, at: np.ndarray, stop: np.ndarray
) -> np.ndarray:
    """Move each place in the queue on to the next undecided row, or to its stop."""
    at = at.copy()
    moving, stride = np.arange(len(at)), _STRIDE
    while len(moving):
        ahead = at[moving, None] + np.arange(stride)
        ended = ahead >= stop[moving, None]
        found = ended | ~decided[queue[np.where(ended, 0, ahead)]]
        some = found.any(axis=1)
        at[moving] += np.where(some, found.argmax(axis=1), stride)
        moving, stride = moving[~some], 2 * stride
    return at


def came_after(
    code: np.ndarray, ticks: np.ndarray, near: Band, new: np.ndarray, asked: np.ndarray
) -> np.ndarray:
    """Return which of the rows `asked` for arrived after a row in `new` that is near them."""
    t = ticks[asked]
    by_time = Sorted(code, ticks, new)
    place, which = spread(*by_time.between(code[asked], near.first(t), near.last(t)))
    earlier = by_time.order[place] < asked[which]
    return np.bincount(which[earlier], minlength=len(asked)) > 0
