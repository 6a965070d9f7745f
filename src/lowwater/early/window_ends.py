"""The windows that policies request: their ends and beginnings, known before rows arrive."""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.intervals import Intervals, union
from lowwater.windows.sliding import ScheduledWindow, Sliding

_SOME = 16


@dataclass(frozen=True)
class WindowEnds:
    """The window ends of one or more window specs whose ends are known in advance."""

    windows: tuple[ScheduledWindow, ...]

    @property
    def slide(self) -> int:
        """The smallest slide of the windows."""
        return min(w.slide for w in self.windows)

    @property
    def span(self) -> int:
        """The largest range of the windows, where a landmark window is taken as 16 slides long."""
        return max(w.range if isinstance(w, Sliding) else _SOME * w.slide for w in self.windows)

    def next_end(self, at: int) -> int:
        """Return the first window end at or after `at`.

        >>> WindowEnds((Sliding(range=30, slide=10),)).next_end(21)
        30
        """
        return min(int(w.end(w.first_open(at - 1))) for w in self.windows)

    def last_end(self, at: int) -> int:
        """Return the last window end at or before `at`."""
        return max(w.align(at) for w in self.windows)

    def last_begun(self, at: int) -> int:
        """Return the last end of the windows that begin at or before the row time `at`.

        Landmark windows without end begin together, so any later time may be returned.

        >>> WindowEnds((Sliding(range=30, slide=10),)).last_begun(21)
        50
        """
        return max(_last_begun(w, at) for w in self.windows)

    def reached(self, times: Intervals) -> Intervals:
        """Return the ends, as intervals, of the windows that may hold a row in `times`.

        >>> WindowEnds((Sliding(range=30, slide=10),)).reached(((21, 22),))
        ((22, 51),)
        """
        return union((start + 1, self.last_begun(end - 1) + 1) for start, end in times)

    def any_end(self, since: int, upto: int) -> bool:
        """Return whether a window ends after `since` and up to `upto`."""
        return since < upto and self.last_end(upto) > since


def _last_begun(window: ScheduledWindow, at: int) -> int:
    """Return the last end of the windows of one spec that begin at or before `at`."""
    if isinstance(window, Sliding):
        return int(window.end(window.last(at)))
    last = int(window.last(at))
    return last if last > at else window.align(at)
