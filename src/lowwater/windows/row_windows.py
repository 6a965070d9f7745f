"""Windows that rows define: they end at rows, or where rows leave a gap.

They exist only after rows have arrived, so their ids are positions instead of counts. A pane is a
position, and a window may end at any position, so every watermark may close windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from lowwater.errors import SpecError
from lowwater.windows.sliding import Ticks, WindowClass, WindowKind, WindowSpec


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
            raise SpecError(f"lw.rows({self.rows!r}): give a whole number from 1")

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
class RowWindow(WindowSpec):
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

    kind: ClassVar[WindowKind] = "row"
    driven: ClassVar[bool] = True
    inclusive: ClassVar[bool] = True

    @property
    def wclass(self) -> WindowClass:
        """The context that a row's windows depend on: later rows."""
        return "FCU" if self.slide_on is None and self.slide > 1 else "FCB"

    def describe(self) -> str:
        """Return the name of the kind."""
        return "slide-by-tuple" if self.slide == 1 else "slide-by-rows"

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


@dataclass(frozen=True, kw_only=True)
class SessionWindow(WindowSpec):
    """Windows of rows with less than `gap` between neighbours, by group.

    extent = [first row, last row + gap); a window's id is the position of its first row.
    """

    gap: int

    kind: ClassVar[WindowKind] = "session"
    driven: ClassVar[bool] = True
    wclass: ClassVar[WindowClass] = "FCU"
    """The context that a row's windows depend on: all later rows."""

    def describe(self) -> str:
        """Return the name of the kind."""
        return "session"

    @property
    def range(self) -> int:
        """Length of the session of a single row."""
        return self.gap

    def start(self, wid: Ticks) -> Ticks:
        """Return where the session of a single row begins."""
        return wid

    def end(self, wid: Ticks) -> Ticks:
        """Return where the session of a single row ends (exclusive)."""
        return wid + self.gap

    def first(self, at: Ticks) -> Ticks:
        """Return the session that a row without neighbours begins."""
        return at

    def last(self, at: Ticks) -> Ticks:
        """Return the session that a row without neighbours belongs to."""
        return at

    def first_open(self, mark: Ticks) -> Ticks:
        """Return the first row whose session, without neighbours, `mark` does not complete."""
        return mark - self.gap + 1
