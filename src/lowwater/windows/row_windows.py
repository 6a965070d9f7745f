"""Row windows, which end at rows, and the arguments `lw.arrival`, `lw.rank` and `lw.rows`.

A row window exists only after its last row has arrived, so its id is the position of that row. A
pane is a single position. Windows may end at any position, so every watermark may close windows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from lowwater.errors import SpecError
from lowwater.windows.sliding import Say, SingleWindow, Ticks, WindowClass

ARRIVAL = "__arrival"
"""The name of the column with row numbers in arrival order, for `slide_on`."""


class Arrival:
    """The type of `lw.arrival`."""

    def __repr__(self) -> str:
        return "lw.arrival"


arrival: Final = Arrival()
"""The row number in arrival order, for `on=` and `slide_on=`."""


@dataclass(frozen=True)
class Rank:
    """The row number in the order of `column`: `lw.rank("ts")`."""

    column: str

    def __repr__(self) -> str:
        return f"lw.rank({self.column!r})"


@dataclass(frozen=True)
class Rows:
    """A length in rows: `lw.rows(1000)`."""

    rows: int

    def __post_init__(self) -> None:
        if type(self.rows) is not int or self.rows < 1:
            raise SpecError(f"lw.rows({self.rows!r}): give a whole number, 1 or more")

    def __repr__(self) -> str:
        return f"lw.rows({self.rows})"


def rows(n: int) -> Rows:
    """Return a length of `n` rows, for `range` and `slide`.

    >>> rows(10)
    lw.rows(10)
    """
    return Rows(n)


def rank(column: str) -> Rank:
    """Return the row number in the order of `column`, for `on` and `slide_on`."""
    return Rank(column)


@dataclass(frozen=True, kw_only=True)
class RowWindow(SingleWindow):
    """Windows of length `range` that end at every row, or every `slide`-th row (WID 3.3, 6).

    extent(w) = (w − range, w]

    The id of a window is the position of its end. The window that ends at the watermark is open.
    With `slide_on`, a row ends a window if its value of that attribute is a multiple of `slide`;
    without `slide_on`, rows are counted by rank. Several rows at one position end only one window.

    >>> RowWindow(range=300).last(100)
    399
    """

    range: int
    slide: int = 1
    slide_on: str | None = None

    kind: ClassVar[str] = "row"
    driven: ClassVar[bool] = True
    inclusive: ClassVar[bool] = True

    @property
    def wclass(self) -> WindowClass:
        """The class of the window kind: a row's windows depend on later rows."""
        return "FCU" if self.slide_on is None and self.slide > 1 else "FCB"

    def describe(self) -> str:
        """Return the name of the window kind for `explain()`."""
        return "slide-by-tuple" if self.slide == 1 else "slide-by-rows"

    def sizes(self, say: Say, say_slide: Say) -> str:
        """Return the range, and the condition for a row to end a window, as text."""
        if self.slide_on == ARRIVAL:
            ends = f"every {self.slide}th row that arrives"
        elif self.slide_on is not None:
            ends = f"rows whose {self.slide_on} is a multiple of {say_slide(self.slide)}"
        else:
            ends = "every row" if self.slide == 1 else f"every {self.slide}th by rank"
        return f"range {say(self.range)}, ending at {ends}"

    def stored(self, say: Say) -> str:
        """Return a description of the state for `explain()`."""
        return "one partial per group and position, for one range"

    def extent(self, wid: int, positions: np.ndarray | None) -> tuple[int, int]:
        """Return the extent `(wid − range, wid]` of window `wid`, as `[start, end)`."""
        return wid - self.range + 1, wid + 1

    def ids(self, positions: np.ndarray, slide_values: Iterable[int] | None) -> np.ndarray:
        """Return the ids of windows: the positions at which a row ends a window."""
        if self.slide_on is None:
            return np.unique(np.sort(positions)[self.slide - 1 :: self.slide])
        if slide_values is None:
            raise SpecError(f"slide_values= is needed: the window slides over {self.slide_on!r}")
        values: np.ndarray = np.fromiter(slide_values, np.int64)
        return np.unique(positions[values % self.slide == 0])

    def start(self, wid: Ticks) -> Ticks:
        """Return the start of window `wid` (exclusive)."""
        return wid - self.range

    def end(self, wid: Ticks) -> Ticks:
        """Return the end of window `wid` (inclusive)."""
        return wid

    def first(self, at: Ticks) -> Ticks:
        """Return the id of the first window that may contain `at`: the window that ends at `at`."""
        return at

    def last(self, at: Ticks) -> Ticks:
        """Return the id of the last window that may contain position `at`."""
        return at + self.range - 1
