"""The three functions that give a window its meaning (WID 3.3, 3.4): windows, extent, wids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lowwater.windows.spec import FOREVER, Landmark, WindowSpec

WindowClass = Literal["CF", "FCF", "FCA"]


@dataclass(frozen=True)
class Extent:
    """The stretch `[start, end)` of positions that belong to one window."""

    start: int
    end: int

    def __contains__(self, at: int) -> bool:
        return self.start <= at < self.end


def extent(spec: WindowSpec, wid: int) -> Extent:
    """Return the positions that belong to window `wid`, as `[start, end)`.

    >>> from lowwater.windows import Sliding
    >>> extent(Sliding(range=10, slide=4), 2)
    Extent(start=8, end=18)
    """
    return Extent(int(spec.start(wid)), int(spec.end(wid)))


def wids(spec: WindowSpec, at: int) -> range:
    """Return the ids of the windows that hold position `at`: the inverse of `extent`.

    A landmark window's ids have no end; the range then stops at the largest tick.

    >>> from lowwater.windows import Sliding
    >>> wids(Sliding(range=10, slide=4), 9)
    range(0, 3)
    """
    first, last = int(spec.first(at)), int(spec.last(at))
    return range(first, max(first, last + 1))


def windows(spec: WindowSpec, positions: Iterable[int]) -> np.ndarray:
    """Return the ids, ascending, of the windows that hold at least one of `positions`.

    Landmark windows stop at the window of the last position: every later one would hold it, too.

    >>> from lowwater.windows import Sliding
    >>> windows(Sliding(range=10, slide=10), [3, 25]).tolist()
    [0, 2]
    """
    at: np.ndarray = np.fromiter(positions, np.int64)
    if isinstance(spec, Landmark):
        at = np.asarray(at[spec.last(at) == FOREVER])
        if not len(at):
            return at
        return np.arange(spec.first(at.min()), spec.first(at.max()) + 1)
    found = [np.arange(spec.first(p), spec.last(p) + 1) for p in np.unique(at)]
    held: np.ndarray = np.unique(np.concatenate(found or [at]))
    return held


def classify(spec: WindowSpec) -> WindowClass:
    """Say what context `wids` needs (WID 4): CF none, FCF past rows, FCA future rows.

    Ids of windows over an attribute follow from the row alone, so they are context free.
    """
    del spec
    return "CF"
