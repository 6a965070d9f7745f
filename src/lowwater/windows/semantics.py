"""The three functions that give a window its meaning (WID 3.3, 3.4): windows, extent, wids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from lowwater.errors import SpecError
from lowwater.ticks import END
from lowwater.windows.row_windows import RowWindow, SessionWindow
from lowwater.windows.sliding import Landmark, Sliding

OneWindow: TypeAlias = Sliding | Landmark | RowWindow | SessionWindow


@dataclass(frozen=True)
class Extent:
    """The interval `[start, end)` of positions that belong to one window."""

    start: int
    end: int

    def __contains__(self, at: int) -> bool:
        return self.start <= at < self.end


def extent(spec: OneWindow, wid: int, positions: Iterable[int] | None = None) -> Extent:
    """Return the positions that belong to window `wid`, as `[start, end)`.

    The extent of a session depends on the rows: give their `positions`.

    >>> extent(Sliding(range=10, slide=4), 2)
    Extent(start=8, end=18)
    >>> extent(RowWindow(range=10), 25)
    Extent(start=16, end=26)
    """
    if isinstance(spec, RowWindow):  # (w − range, w] in whole ticks
        return Extent(wid - spec.range + 1, wid + 1)
    if isinstance(spec, SessionWindow):
        at = np.unique(_given(positions))
        last = wid
        for position in at[at >= wid].tolist():
            if position - last >= spec.gap:
                break
            last = position
        return Extent(wid, last + spec.gap)
    return Extent(int(spec.start(wid)), int(spec.end(wid)))


def wids(
    spec: OneWindow,
    at: int,
    positions: Iterable[int] | None = None,
    slide_values: Iterable[int] | None = None,
) -> Sequence[int]:
    """Return the ids of the windows that hold position `at`: the inverse of `extent`.

    A landmark window's ids have no end; the range then stops at the largest tick. Row and session
    windows depend on the rows: give their `positions`.

    >>> wids(Sliding(range=10, slide=4), 9)
    range(0, 3)
    >>> wids(RowWindow(range=10), 25, [20, 25, 30, 40])
    [25, 30]
    """
    if isinstance(spec, RowWindow):
        ids = window_ids(spec, _given(positions), slide_values)
        return [int(w) for w in ids if at <= w < at + spec.range]
    if isinstance(spec, SessionWindow):
        rows = _given(positions)
        return [int(w) for w in window_ids(spec, rows) if at in extent(spec, int(w), rows)]
    first, last = int(spec.first(at)), int(spec.last(at))
    return range(first, max(first, last + 1))


def window_ids(
    spec: OneWindow, positions: Iterable[int], slide_values: Iterable[int] | None = None
) -> np.ndarray:
    """Return the ids, ascending, of the windows that hold at least one of `positions`.

    Landmark windows stop at the window of the last position: every later one would hold it, too.
    `slide_values` are the values of the attribute that `slide_on` names.

    >>> window_ids(Sliding(range=10, slide=10), [3, 25]).tolist()
    [0, 2]
    >>> window_ids(RowWindow(range=10, slide=2), [3, 25, 30, 31]).tolist()
    [25, 31]
    """
    at: np.ndarray = np.fromiter(positions, np.int64)
    if isinstance(spec, RowWindow):
        return _ends(spec, at, slide_values)
    if isinstance(spec, SessionWindow):
        at = np.unique(at)
        return np.asarray(at[np.diff(at, prepend=at[:1] - spec.gap) >= spec.gap])
    if isinstance(spec, Landmark):
        at = np.asarray(at[spec.last(at) == END])
        return np.arange(spec.first(at.min()), spec.first(at.max()) + 1) if len(at) else at
    ids = [np.arange(spec.first(p), spec.last(p) + 1) for p in np.unique(at)]
    return np.asarray(np.unique(np.concatenate(ids or [at])))


def _ends(spec: RowWindow, at: np.ndarray, slide_values: Iterable[int] | None) -> np.ndarray:
    if spec.slide_on is not None:
        if slide_values is None:
            raise SpecError(f"slide_values= is needed: the window slides over {spec.slide_on!r}")
        values: np.ndarray = np.fromiter(slide_values, np.int64)
        return np.unique(at[values % spec.slide == 0])
    return np.unique(np.sort(at)[spec.slide - 1 :: spec.slide])


def _given(positions: Iterable[int] | None) -> np.ndarray:
    if positions is None:
        raise SpecError("positions= is needed: these windows depend on the positions of rows")
    return np.fromiter(positions, np.int64)
