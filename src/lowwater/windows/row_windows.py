"""Windows that end at rows, and lengths in rows.

These windows exist only after rows have arrived, so their ids are positions instead of counts. A
pane is a position, and a window may end at any position, so every watermark may close windows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from lowwater.errors import SpecError
from lowwater.windows.sliding import Say, SingleWindow, Ticks, WindowClass

ARRIVAL = "__arrival"
"""The column of row numbers in the order of arrival, for `slide_on`."""


class Arrival:
    """The type of `lw.arrival`."""

    def __repr__(self) -> str:
        return "lw.arrival"


arrival: Final = Arrival()
"""The row number in the order of arrival, for `on=` and `slide_on=`."""


@dataclass(frozen=True)
class Rank:
    """The row number in the order of an attribute: `lw.rank("ts")` (semantics 13)."""

    column: str

    def __repr__(self) -> str:
        return f"lw.rank({self.column!r})"


@dataclass(frozen=True)
class Rows:
    """A number of rows: `lw.rows(1000)`."""

    rows: int

    def __post_init__(self) -> None:
        if type(self.rows) is not int or self.rows < 1:
            raise SpecError(f"lw.rows({self.rows!r}): give a whole number, 1 or more")

    def __repr__(self) -> str:
        return f"lw.rows({self.rows})"


def rows(n: int) -> Rows:
    """Return a length in rows, for `range` and `slide`.

    >>> rows(10)
    lw.rows(10)
    """
    return Rows(n)


def rank(column: str) -> Rank:
    """Return the order of rows by an attribute, for `on` and `slide_on`."""
    return Rank(column)


@dataclass(frozen=True, kw_only=True)
class RowWindow(SingleWindow):
    """Windows of length `range` that end at rows: at each, or at every `slide`-th (WID 3.3, 6).

    extent(w) = (w − range, w]

    A window's id is the position it ends at; the one that ends at a watermark is open. With
    `slide_on`, a row ends a window if its value of that attribute is a multiple of `slide`; else
    rows are counted in the order of their position (rank). Rows at one position end one window
    (semantics 13).

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
        """The context that a row's windows depend on: later rows."""
        return "FCU" if self.slide_on is None and self.slide > 1 else "FCB"

    def describe(self) -> str:
        """Return the name of the kind."""
        return "slide-by-tuple" if self.slide == 1 else "slide-by-rows"

    def sizes(self, say: Say, say_slide: Say) -> str:
        """Return the range, and the rows that end a window, as text."""
        if self.slide_on == ARRIVAL:
            ends = f"every {self.slide}th row that arrives"
        elif self.slide_on is not None:
            ends = f"rows whose {self.slide_on} is a multiple of {say_slide(self.slide)}"
        else:
            ends = "every row" if self.slide == 1 else f"every {self.slide}th by rank"
        return f"range {say(self.range)}, ending at {ends}"

    def stored(self, say: Say) -> str:
        """Return the content of the state as text."""
        return "one partial per group and position, for one range"

    def extent(self, wid: int, positions: np.ndarray | None) -> tuple[int, int]:
        """Return the window `(wid − range, wid]` in whole ticks, as `[start, end)`."""
        return wid - self.range + 1, wid + 1

    def ids(self, positions: np.ndarray, slide_values: Iterable[int] | None) -> np.ndarray:
        """Return the positions at which a row ends a window."""
        if self.slide_on is None:
            return np.unique(np.sort(positions)[self.slide - 1 :: self.slide])
        if slide_values is None:
            raise SpecError(f"slide_values= is needed: the window slides over {self.slide_on!r}")
        values: np.ndarray = np.fromiter(slide_values, np.int64)
        return np.unique(positions[values % self.slide == 0])

    def start(self, wid: Ticks) -> Ticks:
        """Return where window `wid` begins (exclusive)."""
        return wid - self.range

    def end(self, wid: Ticks) -> Ticks:
        """Return where window `wid` ends (inclusive)."""
        return wid

    def first(self, at: Ticks) -> Ticks:
        """Return the first window that may hold position `at`: the one that ends there."""
        return at

    def last(self, at: Ticks) -> Ticks:
        """Return the last window that may hold position `at`."""
        return at + self.range - 1
