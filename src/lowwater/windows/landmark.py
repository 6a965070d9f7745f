"""Landmark windows: windows with a fixed start and a moving end (WID 3.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from lowwater.ticks import BEGIN, END
from lowwater.windows.sliding import Say, ScheduledWindow, Ticks, positive_span


class Unbounded:
    """The type of `lw.unbounded`."""

    def __repr__(self) -> str:
        return "lw.unbounded"


unbounded: Final = Unbounded()
"""The `range` of a landmark window: all rows since the beginning of the stream."""


@dataclass(frozen=True, kw_only=True)
class Landmark(ScheduledWindow):
    """Windows that begin at `landmark`, or with the stream, and end every `slide` (WID 3.3).

    extent(w) = [landmark, origin + (w+1)·slide)

    >>> Landmark(slide="1 hour").first(0)
    0
    """

    slide: int
    origin: int = 0
    landmark: int | None = None

    def __init__(self, *, slide: Any, origin: int = 0, landmark: int | None = None) -> None:
        object.__setattr__(self, "slide", positive_span("slide", slide))
        object.__setattr__(self, "origin", origin if landmark is None else landmark)
        object.__setattr__(self, "landmark", landmark)

    kind: ClassVar[str] = "landmark"

    @property
    def scheduled(self) -> tuple[ScheduledWindow, ...]:
        """A tuple of this spec, because its window ends are known before rows arrive."""
        return (self,)

    def outside(self, at: np.ndarray) -> np.ndarray:
        """Return a mask of the positions before the landmark, which belong to no window."""
        return np.asarray(self.last(at) < self.first(at))

    def stop(self, newest: int) -> int | None:
        """Return the end of the stream's last window: the first window that contains `newest`."""
        return int(self.end(self.first(newest)))

    def describe(self) -> str:
        """Return the name of the window kind for `explain()`."""
        return self.kind

    def sizes(self, say: Say, say_slide: Say) -> str:
        """Return the range and the slide as text."""
        return f"range unbounded, slide {say_slide(self.slide)}"

    def stored(self, say: Say) -> str:
        """Return a description of the state for `explain()`."""
        return "one partial per group for closed panes, and open panes of one slide"

    def ids(self, positions: np.ndarray, slide_values: Iterable[int] | None) -> np.ndarray:
        """Return all ids from `first(smallest position)` to `first(largest position)`."""
        at = np.asarray(positions[self.last(positions) == END])
        return np.arange(self.first(at.min()), self.first(at.max()) + 1) if len(at) else at

    @property
    def pane(self) -> int:
        """The length of a pane: one slide."""
        return self.slide

    @property
    def has_gaps(self) -> bool:
        """Whether some positions belong to no window, because they are before the landmark."""
        return self.landmark is not None

    def start(self, wid: Ticks) -> Ticks:
        """Return the start of window `wid`: the landmark, or BEGIN without a landmark."""
        return wid * 0 + (BEGIN if self.landmark is None else self.landmark)

    def end(self, wid: Ticks) -> Ticks:
        """Return the end of window `wid` (exclusive)."""
        return self.origin + (wid + 1) * self.slide

    def first(self, at: Ticks) -> Ticks:
        """Return the id of the first window that contains position `at`."""
        return (at - self.origin) // self.slide

    def last(self, at: Ticks) -> Ticks:
        """Return END (all later windows contain `at`), or BEGIN if `at` is before the landmark."""
        if self.landmark is None:
            return at * 0 + END
        return np.where(np.asarray(at) < self.landmark, BEGIN, END)[()]

    def first_open(self, mark: Ticks) -> Ticks:
        """Return the id of the first window that is open at watermark `mark`."""
        return (mark - self.origin) // self.slide

    def align(self, mark: int) -> int:
        """Return the largest window end ≤ watermark `mark`."""
        return int(self.end(self.first_open(mark) - 1))

    def pane_of(self, at: Ticks) -> Ticks:
        """Return the number of the pane that contains position `at`."""
        return (at - self.origin) // self.slide
