"""Window specifications: the definition of a window, apart from any way to compute it (WID 3).

A spec is a pure function between positions on an axis and window ids. All arithmetic is on ticks
and works on plain integers and on numpy arrays alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias

import numpy as np

from lowwater.errors import SpecError
from lowwater.ticks import BEGIN, END, ticks

Ticks: TypeAlias = Any
"""An int or an int64 numpy array."""

WindowKind = Literal["fixed", "named", "landmark", "row", "session"]
WindowClass = Literal["CF", "FCF", "FCB", "FCU"]

MAX_SLIDES_PER_RANGE = 1_000_000


class Unbounded:
    """The type of `lw.unbounded`."""

    def __repr__(self) -> str:
        return "lw.unbounded"


unbounded: Final = Unbounded()
"""The range of a landmark window, which reaches back to the beginning of the stream."""


def _checked(name: str, value: Any) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    span = value if whole else ticks(value, name=name)
    if span <= 0:
        raise SpecError(f"{name}={value!r} must be greater than zero")
    return span


class WindowSpec(Protocol):
    """A window kind: which windows exist, and where they lie on the axis.

    Every kind derives from it. The bodies of members are the defaults that most kinds share.
    """

    kind: ClassVar[WindowKind]
    """The kind of window, as the table of compatible features names it."""
    driven: ClassVar[bool] = False
    """Whether rows define the windows, so that no id is known before rows arrive."""
    inclusive: ClassVar[bool] = False
    """Whether a window holds the position it ends at."""

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
        """The windows of a fixed range and slide, by name; none for other kinds."""
        return ()

    @property
    def scheduled(self) -> tuple[Sliding | Landmark, ...]:
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


@dataclass(frozen=True, kw_only=True)
class Sliding(WindowSpec):
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

    kind: ClassVar[WindowKind] = "fixed"

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
        if self.slide == self.range:
            return "tumbling"
        return "hopping with gaps" if self.has_gaps else "sliding"

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


@dataclass(frozen=True, kw_only=True)
class Landmark(WindowSpec):
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

    kind: ClassVar[WindowKind] = "landmark"

    @property
    def scheduled(self) -> tuple[Sliding | Landmark, ...]:
        """The window itself."""
        return (self,)

    def outside(self, at: np.ndarray) -> np.ndarray:
        """Return which positions belong to no window: those before the landmark."""
        return np.asarray(self.last(at) < self.first(at))

    def stop(self, newest: int) -> int | None:
        """Return the end of the window of the newest row, where windows stop (semantics 11)."""
        return int(self.end(self.first(newest)))

    def describe(self) -> str:
        """Return the name of the kind."""
        return "landmark"

    @property
    def pane(self) -> int:
        """Length of a pane: one slide."""
        return self.slide

    @property
    def has_gaps(self) -> bool:
        """Whether some positions belong to no window: those before the landmark."""
        return self.landmark is not None

    def start(self, wid: Ticks) -> Ticks:
        """Return where window `wid` begins: at the landmark, for every window."""
        return wid * 0 + (BEGIN if self.landmark is None else self.landmark)

    def end(self, wid: Ticks) -> Ticks:
        """Return where window `wid` ends (exclusive)."""
        return self.origin + (wid + 1) * self.slide

    def first(self, at: Ticks) -> Ticks:
        """Return the first window that holds position `at`."""
        return (at - self.origin) // self.slide

    def last(self, at: Ticks) -> Ticks:
        """Return END: every later window holds `at`, too. Return BEGIN before the landmark."""
        if self.landmark is None:
            return at * 0 + END
        return np.where(np.asarray(at) < self.landmark, BEGIN, END)[()]

    def first_open(self, mark: Ticks) -> Ticks:
        """Return the first window that watermark `mark` does not complete."""
        return (mark - self.origin) // self.slide

    def align(self, mark: int) -> int:
        """Return the largest window end ≤ `mark`."""
        return int(self.end(self.first_open(mark) - 1))

    def pane_of(self, at: Ticks) -> Ticks:
        """Return the pane that holds position `at`."""
        return (at - self.origin) // self.slide
