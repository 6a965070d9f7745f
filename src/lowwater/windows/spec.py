"""Window specifications: what a window is, apart from any way to compute it (WID 3).

A spec is a pure function between positions on an axis and window ids. All arithmetic is on ticks
and works on plain integers and on numpy arrays alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any, Final, TypeAlias

import numpy as np

from lowwater.durations import ticks
from lowwater.errors import SpecError

Ticks: TypeAlias = Any
"""An int or an int64 numpy array."""

MAX_SLIDES_PER_RANGE = 1_000_000
FOREVER = 2**62
"""The mark that says that a stream has ended: no window ends after it."""


class Unbounded:
    """The type of `lw.unbounded`."""

    def __repr__(self) -> str:
        return "lw.unbounded"


unbounded: Final = Unbounded()
"""The range of a landmark window, which reaches back to the beginning of the stream."""


def _checked(name: str, value: Any) -> int:
    span = (
        value if isinstance(value, int) and not isinstance(value, bool) else ticks(value, name=name)
    )
    if span <= 0:
        raise SpecError(f"{name}={value!r} must be greater than zero")
    return span


@dataclass(frozen=True, kw_only=True)
class Sliding:
    """Windows of length `range` that start every `slide`, counted from `origin` (WID 3.3).

    extent(w) = [origin + w·slide, origin + w·slide + range)

    `slide` = `range` gives tumbling windows; `slide` > `range` leaves gaps whose rows belong to no
    window. Window ids may be negative: windows that straddle the first row exist as in Spark's
    `window()`. (WID numbers windows by their end: its id is ours + range/slide - 1.)

    >>> Sliding(range="5 minutes", slide="1 minute").panes
    5
    """

    range: int
    slide: int
    origin: int = 0

    def __init__(self, *, range: Any, slide: Any = None, origin: int = 0) -> None:
        size = _checked("range", range)
        step = size if slide is None else _checked("slide", slide)
        if size // step > MAX_SLIDES_PER_RANGE:
            raise SpecError(
                f"range={range!r} is {size // step:,} slides of slide={slide!r}: each row would "
                f"belong to as many windows. The limit is {MAX_SLIDES_PER_RANGE:,}; take a larger "
                f"slide, or range=lw.unbounded for windows since the beginning"
            )
        object.__setattr__(self, "range", size)
        object.__setattr__(self, "slide", step)
        object.__setattr__(self, "origin", origin)

    @property
    def pane(self) -> int:
        """Length of a pane: the longest stretch that no window boundary cuts."""
        return gcd(self.range, self.slide)

    @property
    def panes(self) -> int:
        """Panes in a window."""
        return self.range // self.pane

    @property
    def panes_per_slide(self) -> int:
        """Panes from the start of a window to the start of the next."""
        return self.slide // self.pane

    @property
    def has_gaps(self) -> bool:
        """Whether some positions belong to no window."""
        return self.slide > self.range

    def start(self, wid: Ticks) -> Ticks:
        """Where window `wid` begins (inclusive)."""
        return self.origin + wid * self.slide

    def end(self, wid: Ticks) -> Ticks:
        """Where window `wid` ends (exclusive)."""
        return self.origin + wid * self.slide + self.range

    def first(self, at: Ticks) -> Ticks:
        """The first window that holds position `at`."""
        return (at - self.origin - self.range) // self.slide + 1

    def last(self, at: Ticks) -> Ticks:
        """The last window that holds position `at`; before `first(at)` when none does."""
        return (at - self.origin) // self.slide

    def first_open(self, mark: Ticks) -> Ticks:
        """The first window that mark `mark` does not complete: the first with end > mark."""
        return (mark - self.origin - self.range) // self.slide + 1

    def align(self, mark: int) -> int:
        """The largest window end ≤ `mark`: a punctuation finer than that would close nothing."""
        return int(self.end(self.first_open(mark) - 1))

    def pane_of(self, at: Ticks) -> Ticks:
        """The pane that holds position `at`."""
        return (at - self.origin) // self.pane


@dataclass(frozen=True, kw_only=True)
class Landmark:
    """Windows that begin with the stream, or at `landmark`, and end every `slide` (WID 3.3).

    extent(w) = [landmark, origin + (w+1)·slide)

    >>> Landmark(slide="1 hour").first(0)
    0
    """

    slide: int
    origin: int = 0
    landmark: int | None = None

    def __init__(self, *, slide: Any, origin: int = 0, landmark: int | None = None) -> None:
        object.__setattr__(self, "slide", _checked("slide", slide))
        object.__setattr__(self, "origin", origin if landmark is None else landmark)
        object.__setattr__(self, "landmark", landmark)

    panes_per_slide = 1

    @property
    def pane(self) -> int:
        """Length of a pane: one slide."""
        return self.slide

    @property
    def has_gaps(self) -> bool:
        """Whether some positions belong to no window: those before the landmark."""
        return self.landmark is not None

    def start(self, wid: Ticks) -> Ticks:
        """Where window `wid` begins: at the landmark, for every window."""
        begin = -FOREVER if self.landmark is None else self.landmark
        return begin + wid * 0

    def end(self, wid: Ticks) -> Ticks:
        """Where window `wid` ends (exclusive)."""
        return self.origin + (wid + 1) * self.slide

    def first(self, at: Ticks) -> Ticks:
        """The first window that holds position `at`."""
        return (at - self.origin) // self.slide

    def last(self, at: Ticks) -> Ticks:
        """Every later window holds `at`, too; none does when it is before the landmark."""
        if self.landmark is None:
            return at * 0 + FOREVER
        return np.where(np.asarray(at) < self.landmark, -FOREVER, FOREVER)[()]

    def first_open(self, mark: Ticks) -> Ticks:
        """The first window that mark `mark` does not complete."""
        return (mark - self.origin) // self.slide

    def align(self, mark: int) -> int:
        """The largest window end ≤ `mark`."""
        return int(self.end(self.first_open(mark) - 1))

    def pane_of(self, at: Ticks) -> Ticks:
        """The pane that holds position `at`."""
        return (at - self.origin) // self.slide
