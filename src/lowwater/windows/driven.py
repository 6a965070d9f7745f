"""Windows that the data drive: they end at rows, or begin and end where rows leave a gap.

Which of them exist is known only when rows have come, so their ids are positions instead of counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lowwater.errors import SpecError
from lowwater.windows.spec import Ticks


class Arrival:
    """The type of `lw.arrival`."""

    def __repr__(self) -> str:
        return "lw.arrival"


arrival: Final = Arrival()
"""The place of a row in the order of arrival: what `on=` and `slide_on=` take for row numbers."""


@dataclass(frozen=True)
class Rank:
    """The place of a row in the order of an attribute: `lw.rank("ts")` (semantics 13)."""

    column: str

    def __repr__(self) -> str:
        return f"lw.rank({self.column!r})"


@dataclass(frozen=True)
class RowCount:
    """A number of rows: `lw.rows(1000)`."""

    rows: int

    def __post_init__(self) -> None:
        if type(self.rows) is not int or self.rows < 1:
            raise SpecError(f"lw.rows({self.rows!r}): give a whole number from 1")

    def __repr__(self) -> str:
        return f"lw.rows({self.rows})"


def rows(n: int) -> RowCount:
    """Return a length in rows, for `range` and `slide`.

    >>> rows(10)
    lw.rows(10)
    """
    return RowCount(n)


def rank(column: str) -> Rank:
    """Return the order of rows by an attribute, for `on` and `slide_on`."""
    return Rank(column)


@dataclass(frozen=True, kw_only=True)
class SlideByRow:
    """Windows of length `range` that end at rows: at each, or at every `slide`-th (WID 3.3, 6).

    extent(w) = (w − range, w]

    A window's id is the position it ends at. `slide_on` names the attribute whose multiples of
    `slide` make a row end a window; without it rows are counted in the order of their position
    (rank). Rows at one position end one window (semantics 13).

    >>> SlideByRow(range=300).last(100)
    399
    """

    range: int
    slide: int = 1
    slide_on: str | None = None

    has_gaps = False
    panes_per_slide = 1

    @property
    def pane(self) -> int:
        """Length of a pane: a position."""
        return 1

    def start(self, wid: Ticks) -> Ticks:
        """Where window `wid` begins (exclusive)."""
        return wid - self.range

    def end(self, wid: Ticks) -> Ticks:
        """Where window `wid` ends (inclusive)."""
        return wid

    def first(self, at: Ticks) -> Ticks:
        """The first window that may hold position `at`: the one that ends there."""
        return at

    def last(self, at: Ticks) -> Ticks:
        """The last window that may hold position `at`."""
        return at + self.range - 1

    def first_open(self, mark: Ticks) -> Ticks:
        """The first window that mark `mark` does not complete: the mark itself is still open."""
        return mark

    def align(self, mark: int) -> int:
        """A window may end at any position, so no mark is too fine."""
        return mark

    def pane_of(self, at: Ticks) -> Ticks:
        """The pane that holds position `at`."""
        return at


@dataclass(frozen=True, kw_only=True)
class Session:
    """Windows of rows with less than `gap` between neighbours, by group.

    extent = [first row, last row + gap); a window's id is the position of its first row.
    """

    gap: int

    has_gaps = False
    panes_per_slide = 1

    @property
    def range(self) -> int:
        """Length of the session of a single row."""
        return self.gap

    @property
    def pane(self) -> int:
        """Length of a pane: a position."""
        return 1

    def start(self, wid: Ticks) -> Ticks:
        """Where the session of a single row begins."""
        return wid

    def end(self, wid: Ticks) -> Ticks:
        """Where the session of a single row ends (exclusive)."""
        return wid + self.gap

    def first(self, at: Ticks) -> Ticks:
        """The session that a row begins if it stands alone."""
        return at

    def last(self, at: Ticks) -> Ticks:
        """The session that a row belongs to if it stands alone."""
        return at

    def first_open(self, mark: Ticks) -> Ticks:
        """The first single row whose session mark `mark` does not complete."""
        return mark - self.gap + 1

    def align(self, mark: int) -> int:
        """A session may end at any position, so no mark is too fine."""
        return mark

    def pane_of(self, at: Ticks) -> Ticks:
        """The pane that holds position `at`."""
        return at
