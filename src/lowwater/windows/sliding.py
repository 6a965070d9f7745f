"""Window specifications, and sliding windows: definitions apart from any computation (WID 3).

A spec is a pure function between positions on an axis and window ids. All arithmetic is on ticks
and works on plain integers and on numpy arrays alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

import numpy as np

from lowwater.errors import SpecError
from lowwater.ticks import ticks

Ticks: TypeAlias = Any
"""An int or an int64 numpy array."""

Say: TypeAlias = Callable[[int], str]
"""Prints a length on an axis."""
WindowClass = Literal["CF", "FCF", "FCB", "FCU"]

MAX_SLIDES_PER_RANGE = 1_000_000


def positive_span(name: str, value: Any) -> int:
    """Return a length in ticks; raise SpecError unless it is greater than zero."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    span = value if whole else ticks(value, name=name)
    if span <= 0:
        raise SpecError(f"{name}={value!r} must be greater than zero")
    return span


def given(positions: np.ndarray | None) -> np.ndarray:
    """Return the positions of rows; raise SpecError without any."""
    if positions is None:
        raise SpecError("positions= is needed: these windows depend on the positions of rows")
    return positions


class WindowSpec(Protocol):
    """A window kind: which windows exist, and where they lie on the axis.

    Every kind derives from it. The bodies of members are the defaults that most kinds share.
    """

    kind: ClassVar[str]
    """The kind of window: the name of its layout."""
    driven: ClassVar[bool] = False
    """Whether rows define the windows, so that no id is known before rows arrive."""
    inclusive: ClassVar[bool] = False
    """Whether a window holds the position it ends at."""
    slide_on: str | None = None
    """The attribute of the slide, if it is not that of the range."""

    @property
    def wclass(self) -> WindowClass:
        """The context that a row's windows depend on (WID 4, 6)."""
        return "CF"

    @property
    def has_gaps(self) -> bool:
        """Whether some positions belong to no window."""
        return False

    @property
    def pane(self) -> int:
        """Length of a pane."""
        return 1

    @property
    def panes_per_slide(self) -> int:
        """Panes from the start of a window to the start of the next."""
        return 1

    @property
    def fixed(self) -> tuple[tuple[str, Sliding], ...]:
        """The windows with a fixed range and slide, each with its name; empty for other kinds."""
        return ()

    @property
    def scheduled(self) -> tuple[ScheduledWindow, ...]:
        """The windows whose ends are known before rows arrive."""
        return tuple(window for _, window in self.fixed)

    def first_open(self, mark: Ticks) -> Ticks:
        """Return the first window that a watermark does not complete."""
        return mark

    def align(self, mark: int) -> int:
        """Return the largest window end at or below a watermark."""
        return mark

    def pane_of(self, at: Ticks) -> Ticks:
        """Return the pane that holds a position."""
        return at

    def outside(self, at: np.ndarray) -> np.ndarray:
        """Return which positions belong to no window."""
        return np.zeros(len(at), bool)

    def stop(self, newest: int) -> int | None:
        """Return where windows without an end stop at the end of the stream; else None."""
        return None

    def describe(self) -> str:
        """Return the name of the kind, as `explain()` prints it."""

    @property
    def label(self) -> str:
        """The label of the kind in the table of compatible features."""
        return self.kind

    def sizes(self, say: Say, say_slide: Say) -> str:
        """Return range and slide as text; each function prints lengths on their attribute."""

    def stored(self, say: Say) -> str:
        """Return the content of the state as text."""


class SingleWindow(WindowSpec, Protocol):
    """A window kind whose windows have one range and one slide, so that ids are numbers."""

    def start(self, wid: Ticks) -> Ticks:
        """Return where window `wid` begins."""

    def end(self, wid: Ticks) -> Ticks:
        """Return where window `wid` ends."""

    def first(self, at: Ticks) -> Ticks:
        """Return the first window that may hold position `at`."""

    def last(self, at: Ticks) -> Ticks:
        """Return the last window that may hold position `at`."""

    def extent(self, wid: int, positions: np.ndarray | None) -> tuple[int, int]:
        """Return the interval `[start, end)` of window `wid` over the positions of rows."""
        return int(self.start(wid)), int(self.end(wid))

    def ids(self, positions: np.ndarray, slide_values: Iterable[int] | None) -> np.ndarray:
        """Return the ids, ascending, of the windows that hold at least one position."""
        every = [np.arange(self.first(p), self.last(p) + 1) for p in np.unique(positions)]
        return np.asarray(np.unique(np.concatenate(every or [positions])))


class ScheduledWindow(SingleWindow, Protocol):
    """A window kind whose windows end at known times, one every `slide`."""

    slide: int
    """The distance of two neighbouring ends."""


@dataclass(frozen=True, kw_only=True)
class Sliding(ScheduledWindow):
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

    kind: ClassVar[str] = "fixed"

    def __init__(self, *, range: Any, slide: Any = None, origin: int = 0) -> None:
        size = positive_span("range", range)
        step = size if slide is None else positive_span("slide", slide)
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
        """Length of a pane: the longest interval that no window boundary cuts."""
        return gcd(self.range, self.slide)

    @cached_property
    def panes(self) -> int:
        """Panes in a window."""
        return self.range // self.pane

    @cached_property
    def panes_per_slide(self) -> int:
        """Panes from the start of a window to the start of the next."""
        return self.slide // self.pane

    @property
    def has_gaps(self) -> bool:
        """Whether some positions belong to no window."""
        return self.slide > self.range

    @property
    def fixed(self) -> tuple[tuple[str, Sliding], ...]:
        """The window itself; it has no name."""
        return (("", self),)

    def outside(self, at: np.ndarray) -> np.ndarray:
        """Return which positions belong to no window."""
        return np.asarray(self.last(at) < self.first(at))

    def describe(self) -> str:
        """Return the name of the kind."""
        return "hopping with gaps" if self.has_gaps else self.label

    @property
    def label(self) -> str:
        """The label of the kind in the table of compatible features."""
        if self.slide == self.range:
            return "tumbling"
        return "gaps" if self.has_gaps else "sliding"

    def sizes(self, say: Say, say_slide: Say) -> str:
        """Return range and slide as text."""
        return f"range {say(self.range)}, slide {say_slide(self.slide)}"

    def stored(self, say: Say) -> str:
        """Return the content of the state as text."""
        return (
            f"panes of {say(self.pane)}, {self.panes} to a window, one partial per group and pane"
        )

    def start(self, wid: Ticks) -> Ticks:
        """Return where window `wid` begins (inclusive)."""
        return self.origin + wid * self.slide

    def end(self, wid: Ticks) -> Ticks:
        """Return where window `wid` ends (exclusive)."""
        return self.origin + wid * self.slide + self.range

    def first(self, at: Ticks) -> Ticks:
        """Return the first window that holds position `at`."""
        return (at - self.origin - self.range) // self.slide + 1

    def last(self, at: Ticks) -> Ticks:
        """Return the last window that holds position `at`; before `first(at)` when none does."""
        return (at - self.origin) // self.slide

    def first_open(self, mark: Ticks) -> Ticks:
        """Return the first window that watermark `mark` does not complete: with end > `mark`."""
        return (mark - self.origin - self.range) // self.slide + 1

    def align(self, mark: int) -> int:
        """Return the largest window end ≤ `mark`: a finer punctuation closes no more windows."""
        return int(self.end(self.first_open(mark) - 1))

    def pane_of(self, at: Ticks) -> Ticks:
        """Return the pane that holds position `at`."""
        return (at - self.origin) // self.pane
