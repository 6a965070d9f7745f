"""The three functions that define windows (WID 3.3, 3.4): `window_ids`, `extent` and `wids`.

Each window kind implements them as methods of its spec.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lowwater.windows.sliding import SingleWindow, given


@dataclass(frozen=True)
class Extent:
    """The interval `[start, end)` of positions that belong to one window."""

    start: int
    end: int

    def __contains__(self, at: int) -> bool:
        return self.start <= at < self.end


def extent(spec: SingleWindow, wid: int, positions: Iterable[int] | None = None) -> Extent:
    """Return the positions that belong to window `wid`, as `[start, end)`.

    The extent of a session depends on the rows; `positions` are the positions of all rows.

    >>> from lowwater.windows.row_windows import RowWindow
    >>> from lowwater.windows.sliding import Sliding
    >>> extent(Sliding(range=10, slide=4), 2)
    Extent(start=8, end=18)
    >>> extent(RowWindow(range=10), 25)
    Extent(start=16, end=26)
    """
    return Extent(*spec.extent(wid, _array(positions)))


def wids(
    spec: SingleWindow,
    at: int,
    positions: Iterable[int] | None = None,
    slide_values: Iterable[int] | None = None,
) -> Sequence[int]:
    """Return the ids of the windows that contain position `at`: the inverse of `extent`.

    A position is in infinitely many landmark windows; their ids stop at the largest tick. For row
    and session windows, `positions` are the positions of all rows.

    >>> from lowwater.windows.row_windows import RowWindow
    >>> from lowwater.windows.sliding import Sliding
    >>> wids(Sliding(range=10, slide=4), 9)
    range(0, 3)
    >>> wids(RowWindow(range=10), 25, [20, 25, 30, 40])
    [25, 30]
    """
    if spec.driven:
        rows = given(_array(positions))
        return [w for w in spec.ids(rows, slide_values).tolist() if at in extent(spec, w, rows)]
    first, last = int(spec.first(at)), int(spec.last(at))
    return range(first, max(first, last + 1))


def window_ids(
    spec: SingleWindow, positions: Iterable[int], slide_values: Iterable[int] | None = None
) -> np.ndarray:
    """Return the ids, ascending, of the windows that contain at least one of `positions`.

    Ids of landmark windows stop at the first window that contains the last position.
    `slide_values` are the rows' values of the attribute that `slide_on` names.

    >>> from lowwater.windows.row_windows import RowWindow
    >>> from lowwater.windows.sliding import Sliding
    >>> window_ids(Sliding(range=10, slide=10), [3, 25]).tolist()
    [0, 2]
    >>> window_ids(RowWindow(range=10, slide=2), [3, 25, 30, 31]).tolist()
    [25, 31]
    """
    return spec.ids(given(_array(positions)), slide_values)


def _array(positions: Iterable[int] | None) -> np.ndarray | None:
    return None if positions is None else np.fromiter(positions, np.int64)
