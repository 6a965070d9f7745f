"""Several named sliding windows of one stream that share panes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import ClassVar

import numpy as np

from lowwater.windows.sliding import Say, Sliding, Ticks, WindowSpec


@dataclass(frozen=True, kw_only=True)
class PanedSliding(Sliding):
    """A sliding window that shares its panes with other windows."""

    shared_pane: int

    def __init__(self, window: Sliding, pane: int) -> None:
        super().__init__(range=window.range, slide=window.slide, origin=window.origin)
        object.__setattr__(self, "shared_pane", pane)

    @property
    def pane(self) -> int:
        """The length of a pane."""
        return self.shared_pane


@dataclass(frozen=True)
class Shared(WindowSpec):
    """Named sliding windows on common panes: the longest intervals that no window boundary cuts.

    >>> both = Shared((("short", Sliding(range=4)), ("long", Sliding(range=18, slide=6))))
    >>> both.pane, [w.panes for _, w in both]
    (2, [2, 9])
    """

    named: tuple[tuple[str, Sliding], ...]

    kind: ClassVar[str] = "named"

    @property
    def fixed(self) -> tuple[tuple[str, Sliding], ...]:
        """The windows as tuples (name, window)."""
        return self.named

    def describe(self) -> str:
        """Return the name of the window kind for `explain()`."""
        return "several on common panes"

    def sizes(self, say: Say, say_slide: Say) -> str:
        """Return the range and slide of each named window as text."""
        return ", ".join(f"{name} ({w.sizes(say, say_slide)})" for name, w in self.named)

    def stored(self, say: Say) -> str:
        """Return a description of the state for `explain()`."""
        return f"panes of {say(self.pane)}, shared by all, one partial per group and pane"

    @cached_property
    def pane(self) -> int:
        """The length of a pane."""
        return gcd(*(w.pane for _, w in self.named))

    @property
    def has_gaps(self) -> bool:
        """Whether some positions may belong to no window, because every named window has gaps."""
        return all(w.has_gaps for _, w in self.named)

    def __iter__(self) -> Iterator[tuple[str, Sliding]]:
        return iter(self._on_panes)

    @cached_property
    def _on_panes(self) -> tuple[tuple[str, Sliding], ...]:
        return tuple((name, PanedSliding(w, self.pane)) for name, w in self.named)

    def pane_of(self, at: Ticks) -> Ticks:
        """Return the number of the pane that contains position `at`."""
        return (at - self.named[0][1].origin) // self.pane

    def align(self, mark: int) -> int:
        """Return the largest end ≤ `mark` among the ends of all named windows."""
        return max(w.align(mark) for _, w in self.named)

    # Each named window has its own ids, so `first_open` returns the watermark instead of an id.

    def first_pane(self, mark: Ticks) -> Ticks:
        """Return the number of the first pane in any window that is open at watermark `mark`."""
        return np.minimum.reduce([w.first_open(mark) * w.panes_per_slide for _, w in self])

    def outside(self, at: np.ndarray) -> np.ndarray:
        """Return a mask of the positions that belong to no named window."""
        return np.asarray(np.logical_and.reduce([w.outside(at) for _, w in self.named]))
