"""Session windows: a gap between two rows ends a session."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lowwater.windows.sliding import Say, SingleWindow, Ticks, WindowClass, given


@dataclass(frozen=True, kw_only=True)
class SessionWindow(SingleWindow):
    """Sessions: in each group, windows of rows with less than `gap` between neighbours.

    extent = [first row, last row + gap); the id of a session is the position of its first row.
    """

    gap: int

    kind: ClassVar[str] = "session"
    driven: ClassVar[bool] = True
    wclass: ClassVar[WindowClass] = "FCU"
    """The class of the window kind: a row's sessions depend on all later rows."""

    def describe(self) -> str:
        """Return the name of the window kind for `explain()`."""
        return self.kind

    def sizes(self, say: Say, say_slide: Say) -> str:
        """Return the gap as text."""
        return f"gap {say(self.gap)}"

    def stored(self, say: Say) -> str:
        """Return a description of the state for `explain()`."""
        return "one partial per open session"

    def extent(self, wid: int, positions: np.ndarray | None) -> tuple[int, int]:
        """Return the extent of session `wid`; `positions` are the positions of all rows."""
        last, at = wid, np.unique(given(positions))
        for position in at[at >= wid].tolist():
            if position - last >= self.gap:
                break
            last = position
        return wid, last + self.gap

    def ids(self, positions: np.ndarray, slide_values: Iterable[int] | None) -> np.ndarray:
        """Return the ids of sessions: the positions at which a session begins."""
        at = np.unique(positions)
        return np.asarray(at[np.diff(at, prepend=at[:1] - self.gap) >= self.gap])

    @property
    def range(self) -> int:
        """The length of a session with a single row."""
        return self.gap

    def start(self, wid: Ticks) -> Ticks:
        """Return the start of a session with a single row at `wid`."""
        return wid

    def end(self, wid: Ticks) -> Ticks:
        """Return the end (exclusive) of a session with a single row at `wid`."""
        return wid + self.gap

    def first(self, at: Ticks) -> Ticks:
        """Return `at`, the id of a session with a single row at position `at`."""
        return at

    def last(self, at: Ticks) -> Ticks:
        """Return `at`, the id of a session with a single row at position `at`."""
        return at

    def first_open(self, mark: Ticks) -> Ticks:
        """Return the first position whose single-row session is open at watermark `mark`."""
        return mark - self.gap + 1
