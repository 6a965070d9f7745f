"""Session windows: they end where rows leave a gap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lowwater.windows.sliding import Say, SingleWindow, Ticks, WindowClass, given


@dataclass(frozen=True, kw_only=True)
class SessionWindow(SingleWindow):
    """Windows of rows with less than `gap` between neighbours, by group.

    extent = [first row, last row + gap); a window's id is the position of its first row.
    """

    gap: int

    kind: ClassVar[str] = "session"
    driven: ClassVar[bool] = True
    wclass: ClassVar[WindowClass] = "FCU"
    """The context that a row's windows depend on: all later rows."""

    def describe(self) -> str:
        """Return the name of the kind."""
        return self.kind

    def sizes(self, say: Say, say_slide: Say) -> str:
        """Return the gap as text."""
        return f"gap {say(self.gap)}"

    def stored(self, say: Say) -> str:
        """Return the content of the state as text."""
        return "one partial per open session"

    def extent(self, wid: int, positions: np.ndarray | None) -> tuple[int, int]:
        """Return the session that begins at `wid`, given the positions of all rows."""
        last, at = wid, np.unique(given(positions))
        for position in at[at >= wid].tolist():
            if position - last >= self.gap:
                break
            last = position
        return wid, last + self.gap

    def ids(self, positions: np.ndarray, slide_values: Iterable[int] | None) -> np.ndarray:
        """Return the positions that begin a session."""
        at = np.unique(positions)
        return np.asarray(at[np.diff(at, prepend=at[:1] - self.gap) >= self.gap])

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
