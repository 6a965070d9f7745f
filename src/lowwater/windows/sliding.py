"""Window specs, the definitions of window kinds, and the spec of sliding windows (WID 3).

A spec maps positions on the window attribute (axis) to window ids, and ids to extents. All
arithmetic is on ticks, for integers and for numpy arrays.
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
"""A function that returns a length in ticks as text, in the unit of the window attribute."""
WindowClass = Literal["CF", "FCF", "FCB", "FCU"]

MAX_SLIDES_PER_RANGE = 1_000_000


def positive_span(name: str, value: Any) -> int:
    """Return the length `value` in ticks; raise SpecError unless it is greater than zero."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    span = value if whole else ticks(value, name=name)
    if span <= 0:
        raise SpecError(f"{name}={value!r} must be greater than zero")
    return span


def given(positions: np.ndarray | None) -> np.ndarray:
    """Return `positions`; raise SpecError if they are None."""
    if positions is None:
        raise SpecError("positions= is needed: these windows depend on the positions of rows")
    return positions


class WindowSpec(Protocol):
    """A window kind: its windows, and their extents on the window attribute.

    Every window kind derives from this class, which has defaults for most members.
    """

    kind: ClassVar[str]
    """The name of the window kind, which selects its layout."""
    driven: ClassVar[bool] = False
    """Whether windows depend on rows, so that ids are unknown before rows arrive."""
    inclusive: ClassVar[bool] = False
    """Whether a window contains the position of its end."""
    slide_on: str | None = None
    """The attribute that the slide is measured on; None if it is the attribute of the range."""

    @property
    def wclass(self) -> WindowClass:
        """The class of the window kind: the other rows that decide a row's windows (WID 4, 6)."""
        return "CF"

    @property
    def has_gaps(self) -> bool:
        """Whether some positions belong to no window, because windows have gaps."""
        return False

    @property
    def pane(self) -> int:
        """The length of a pane."""
        return 1

    @property
    def panes_per_slide(self) -> int:
        """The number of panes in one slide."""
        return 1

    @property
    def fixed(self) -> tuple[tuple[str, Sliding], ...]:
        """Tuples (name, window) of windows with fixed range and slide; empty for other kinds."""
        return ()

    @property
    def scheduled(self) -> tuple[ScheduledWindow, ...]:
        """The windows whose ends are known before rows arrive."""
        return tuple(window for _, window in self.fixed)

    def first_open(self, mark: Ticks) -> Ticks:
        """Return the id of the first window that is open at watermark `mark`."""
        return mark

    def align(self, mark: int) -> int:
        """Return the largest window end ≤ watermark `mark`."""
        return mark

    def pane_of(self, at: Ticks) -> Ticks:
        """Return the number of the pane that contains position `at`."""
        return at

    def outside(self, at: np.ndarray) -> np.ndarray:
        """Return a mask of the positions that belong to no window."""
        return np.zeros(len(at), bool)

    def stop(self, newest: int) -> int | None:
        """Return the end of the stream's last window for landmark windows; None for other kinds."""
        return None

    def describe(self) -> str:
        """Return the name of the window kind for `explain()`."""

    @property
    def label(self) -> str:
        """The name of the window kind in the table of compatible features."""
        return self.kind

    def sizes(self, say: Say, say_slide: Say) -> str:
        """Return range and slide as text; `say` prints the range, `say_slide` prints the slide."""

    def stored(self, say: Say) -> str:
        """Return a description of the state for `explain()`."""


class SingleWindow(WindowSpec, Protocol):
    """A window kind without window names: the id of a window is one number."""

    def start(self, wid: Ticks) -> Ticks:
        """Return the start of window `wid`."""

    def end(self, wid: Ticks) -> Ticks:
        """Return the end of window `wid`."""

    def first(self, at: Ticks) -> Ticks:
        """Return the id of the first window that may contain position `at`."""

    def last(self, at: Ticks) -> Ticks:
        """Return the id of the last window that may contain position `at`."""

    def extent(self, wid: int, positions: np.ndarray | None) -> tuple[int, int]:
        """Return the extent `[start, end)` of window `wid`; sessions need the rows' `positions`."""
        return int(self.start(wid)), int(self.end(wid))

    def ids(self, positions: np.ndarray, slide_values: Iterable[int] | None) -> np.ndarray:
        """Return the ids, ascending, of the windows that contain at least one of `positions`."""
        every = [np.arange(self.first(p), self.last(p) + 1) for p in np.unique(positions)]
        return np.asarray(np.unique(np.concatenate(every or [positions])))


class ScheduledWindow(SingleWindow, Protocol):
    """A window kind with a window end every `slide`, known before rows arrive."""

    slide: int
    """The distance between two neighbouring window ends."""


@dataclass(frozen=True, kw_only=True)
class Sliding(ScheduledWindow):
    """Windows of length `range` that start every `slide`, counted from `origin` (WID 3.3).

    extent(w) = [origin + w·slide, origin + w·slide + range)

    Windows with `slide` = `range` are tumbling. Windows with `slide` > `range` have gaps; rows
    in a gap belong to no window. Ids may be negative: windows may start before the first
    row, as in Spark's `window()`. (The id of a window in WID is this id + range/slide - 1.)

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
        """The length of a pane: the longest interval that no window border cuts."""
        return gcd(self.range, self.slide)

    @cached_property
    def panes(self) -> int:
        """The number of panes in a window."""
        return self.range // self.pane

    @cached_property
    def panes_per_slide(self) -> int:
        """The number of panes in one slide."""
        return self.slide // self.pane

    @property
    def has_gaps(self) -> bool:
        """Whether some positions belong to no window, because windows have gaps."""
        return self.slide > self.range

    @property
    def fixed(self) -> tuple[tuple[str, Sliding], ...]:
        """One tuple (name, window): an empty name and this spec."""
        return (("", self),)

    def outside(self, at: np.ndarray) -> np.ndarray:
        """Return a mask of the positions that belong to no window."""
        return np.asarray(self.last(at) < self.first(at))

    def describe(self) -> str:
        """Return the name of the window kind for `explain()`."""
        return "hopping with gaps" if self.has_gaps else self.label

    @property
    def label(self) -> str:
        """The name of the window kind in the table of compatible features."""
        if self.slide == self.range:
            return "tumbling"
        return "gaps" if self.has_gaps else "sliding"

    def sizes(self, say: Say, say_slide: Say) -> str:
        """Return the range and the slide as text."""
        return f"range {say(self.range)}, slide {say_slide(self.slide)}"

    def stored(self, say: Say) -> str:
        """Return a description of the state for `explain()`."""
        return (
            f"panes of {say(self.pane)}, {self.panes} to a window, one partial per group and pane"
        )

    def start(self, wid: Ticks) -> Ticks:
        """Return the start of window `wid` (inclusive)."""
        return self.origin + wid * self.slide

    def end(self, wid: Ticks) -> Ticks:
        """Return the end of window `wid` (exclusive)."""
        return self.origin + wid * self.slide + self.range

    def first(self, at: Ticks) -> Ticks:
        """Return the id of the first window that contains position `at`."""
        return (at - self.origin - self.range) // self.slide + 1

    def last(self, at: Ticks) -> Ticks:
        """Return the id of the last window that contains `at`, or an id < `first(at)` in a gap."""
        return (at - self.origin) // self.slide

    def first_open(self, mark: Ticks) -> Ticks:
        """Return the id of the first window that is open at watermark `mark` (end > `mark`)."""
        return (mark - self.origin - self.range) // self.slide + 1

    def align(self, mark: int) -> int:
        """Return the largest window end ≤ `mark`; watermarks between two ends close no window."""
        return int(self.end(self.first_open(mark) - 1))

    def pane_of(self, at: Ticks) -> Ticks:
        """Return the number of the pane that contains position `at`."""
        return (at - self.origin) // self.pane
