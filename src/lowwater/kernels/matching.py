"""Rows by (key, time) in one array of int64: ranges of partners are found by binary search."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from lowwater.kernels.bands import MAX, MIN, Reach
from lowwater.kernels.row_buckets import RowBucket

_ROOM = 1 << 62


class Sorted:
    """Some rows of an array of (code, tick), in the order of (code, tick, arrival)."""

    def __init__(self, codes: np.ndarray, ticks: np.ndarray, rows: np.ndarray) -> None:
        mine, at = codes[rows], ticks[rows]
        groups = int(codes.max(initial=-1)) + 1
        low, high = int(at.min(initial=MAX)), int(at.max(initial=MIN))
        self._known: np.ndarray | None = None
        self._low, self._high, self._width = low, high, high - low + 2
        if not MIN < low <= high < MAX or self._width * groups >= _ROOM:
            # Times too far apart for one number: their ranks are not.
            self._known = np.unique(at)
            self._width = len(self._known) + 2
        key = mine * self._width + self._upto(at)
        order = np.argsort(key, kind="stable")
        self.order = rows[order]
        """The rows, sorted."""
        self.key = key[order]
        """Their codes and times, as one number."""

    def _since(self, at: np.ndarray) -> np.ndarray:
        """Return the place of the first time ≥ `at`."""
        if self._known is not None:
            return np.searchsorted(self._known, at)
        return np.asarray(np.clip(at, self._low, self._high + 1) - self._low)

    def _upto(self, at: np.ndarray) -> np.ndarray:
        """Return the place of the last time ≤ `at`; −1 if there is none."""
        if self._known is not None:
            return np.searchsorted(self._known, at, "right") - 1
        return np.asarray(np.clip(at, self._low - 1, self._high) - self._low)

    def between(
        self, codes: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return where in `order` the rows with a code and a time in [first, last] lie."""
        if not len(self.key):
            none = np.zeros(len(codes), np.int64)
            return none, none
        base = codes * self._width
        start = np.searchsorted(self.key, base + self._since(first))
        return start, np.searchsorted(self.key, base + self._upto(last), "right")

    def begins(self) -> np.ndarray:
        """Return where in `order` a code and time stand first."""
        return np.flatnonzero(np.diff(self.key, prepend=-1))

    def only(self, chosen: np.ndarray) -> Sorted:
        """Return the same without the rows outside a mask over all rows."""
        some = copy(self)
        kept = chosen[self.order]
        some.order, some.key = self.order[kept], self.key[kept]
        return some


def reached(buckets: Sequence[RowBucket], reach: Reach, partners: np.ndarray) -> list[RowBucket]:
    """Return the buckets with rows that may have one of `partners`, by `reach` of their rows.

    Buckets are in the order of time, and so are the stretches that they reach into.
    """
    if not buckets or not len(partners):
        return []
    low = reach.first(np.array([b.low for b in buckets], np.int64))
    high = reach.last(np.array([b.high for b in buckets], np.int64))
    first, end = np.searchsorted(high, partners), np.searchsorted(low, partners, "right")
    met = first < end
    n = len(buckets) + 1
    begin, stop = (np.bincount(at[met], minlength=n) for at in (first, end))
    hits = np.cumsum(begin - stop)[:-1] > 0
    return [b for b, hit in zip(buckets, hits.tolist(), strict=True) if hit]
