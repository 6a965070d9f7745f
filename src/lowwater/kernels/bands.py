"""Which times of two streams belong together: a band, or a common tumbling window.

Both answer one question: the partners of time t lie in `[first(t), last(t)]` on the other side.
Neither bound ever falls as t grows, and u is a partner of t exactly if t is one of u, seen from the
other side (`inverse`). From that follows all that a join has to know of time: `inverse.first(m)` is
the smallest t whose partners reach m, so it is what mark m of the other side leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

import numpy as np

from lowwater.errors import SpecError
from lowwater.windows import FOREVER, Axis

MIN, MAX = -(2**63), 2**63 - 1
Ticks = TypeVar("Ticks", bound=int | np.ndarray)


class Reach(Protocol):
    """Where the partners of a time lie."""

    def first(self, at: Ticks) -> Ticks:
        """Return the smallest time on the other side that `at` belongs together with."""

    def last(self, at: Ticks) -> Ticks:
        """Return the largest time on the other side that `at` belongs together with."""

    @property
    def inverse(self) -> Reach:
        """The same, seen from the other side."""

    def align(self, mark: int) -> int:
        """Return the smallest mark that leaves open what `mark` does."""

    def say(self, axis: Axis) -> str:
        """Say it in words."""


@dataclass(frozen=True)
class Band:
    """Times at most so far apart, in ticks: `other − self ∈ [lo, hi]` (OOP 5.3).

    >>> Band(-2, 3).first(10), Band(-2, 3).last(10), Band(-2, 3).inverse
    (8, 13, Band(lo=-3, hi=2))
    """

    lo: int
    hi: int

    def __post_init__(self) -> None:
        if self.lo > self.hi:
            raise SpecError(
                f"band=({self.lo}, {self.hi}) is empty: give the lower bound of "
                f"other − self first, then the upper one"
            )

    def first(self, at: Ticks) -> Ticks:
        """Return `at + lo`."""
        return shifted(at, self.lo)

    def last(self, at: Ticks) -> Ticks:
        """Return `at + hi`."""
        return shifted(at, self.hi)

    @property
    def inverse(self) -> Band:
        """`self − other ∈ [−hi, −lo]`."""
        return Band(-self.hi, -self.lo)

    def align(self, mark: int) -> int:
        """Every mark leaves something else open."""
        return mark

    def say(self, axis: Axis) -> str:
        """Say it in words."""
        low, high = (f"{'-' if n < 0 else ''}{axis.say(abs(n))}" for n in (self.lo, self.hi))
        return f"other - self from {low} to {high}"


@dataclass(frozen=True)
class SameWindow:
    """Times in the same window `[origin + w·size, origin + (w + 1)·size)`.

    >>> SameWindow(10).first(27), SameWindow(10).last(27)
    (20, 29)
    """

    size: int
    origin: int = 0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SpecError(f"size={self.size} is no window: give at least one tick")

    def first(self, at: Ticks) -> Ticks:
        """Return where the window begins."""
        # Each term is small, so that nothing can leave int64 on the way.
        into = (at % self.size - self.origin % self.size) % self.size
        kept = at if isinstance(at, int) else np.maximum(at, MIN + into)
        return cast("Ticks", kept - into)

    def last(self, at: Ticks) -> Ticks:
        """Return the last time in the window."""
        return shifted(self.first(at), self.size - 1)

    @property
    def inverse(self) -> SameWindow:
        """A window is the same from both sides."""
        return self

    def align(self, mark: int) -> int:
        """Return where the window of `mark` begins: until it ends, nothing in it is complete."""
        return mark if mark >= FOREVER else max(self.first(mark), MIN)

    def say(self, axis: Axis) -> str:
        """Say it in words."""
        return f"in the same window of {axis.say(self.size)}"


def shifted(at: Ticks, by: int) -> Ticks:
    """Return `at + by`, no further than int64 goes.

    >>> shifted(np.array([5, 2**63 - 2]), 3).tolist()
    [8, 9223372036854775807]
    """
    if isinstance(at, int):
        return cast("Ticks", min(max(at + by, MIN), MAX))
    by = min(max(by, MIN + 1), MAX)
    kept = np.minimum(at, MAX - by) if by >= 0 else np.maximum(at, MIN - by)
    return cast("Ticks", kept + by)


def open_from(reach: Reach, mark: int | None) -> int:
    """Return the smallest time whose partners, by `reach`, may still come at `mark`.

    Without a mark anything may come; after the end of the stream nothing does.
    """
    if mark is None:
        return MIN
    return FOREVER if mark >= FOREVER else max(reach.inverse.first(mark), MIN)
