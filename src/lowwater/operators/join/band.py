"""Partner ranges: the times at which rows of two streams may join, by a band or a common window.

The partners of a row at time t have times in `[first(t), last(t)]` on the other side. Both bounds
are monotonic in t. Time u is a partner of t exactly if t is a partner of u under `inverse`, the
range for rows of the other side. So `inverse.first(m)` is the smallest t with a partner at m or
later: if the other side has watermark m, rows before this t get no more partners.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

import numpy as np

from lowwater.errors import SpecError
from lowwater.ticks import END, FIRST_TICK, LAST_TICK
from lowwater.windows.axis import Axis

Ticks = TypeVar("Ticks", bound=int | np.ndarray)


class PartnerRange(Protocol):
    """A function from the time of a row to the range of times of its partners."""

    def first(self, at: Ticks) -> Ticks:
        """Return the smallest time that a partner of a row at time `at` may have."""

    def last(self, at: Ticks) -> Ticks:
        """Return the largest time that a partner of a row at time `at` may have."""

    @property
    def inverse(self) -> PartnerRange:
        """The partner range for rows of the other side."""

    def align(self, watermark: int) -> int:
        """Return the smallest watermark that evicts the same rows as `watermark`."""

    def say(self, axis: Axis) -> str:
        """Return a phrase that describes the range, with durations in the unit of `axis`."""


@dataclass(frozen=True)
class Band:
    """A band: rows join if `lo ≤ time of other − time of self ≤ hi`, in ticks (OOP 5.3).

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
        """The band for rows of the other side: `[−hi, −lo]`."""
        return Band(-self.hi, -self.lo)

    def align(self, watermark: int) -> int:
        """Return `watermark` itself: every watermark evicts different rows."""
        return watermark

    def say(self, axis: Axis) -> str:
        """Return a phrase that describes the band."""
        low, high = (f"{'-' if n < 0 else ''}{axis.say(abs(n))}" for n in (self.lo, self.hi))
        return f"other - self from {low} to {high}"


@dataclass(frozen=True)
class SameWindow:
    """A common window: rows join if both times are in `[origin + w·size, origin + (w + 1)·size)`.

    >>> SameWindow(10).first(27), SameWindow(10).last(27)
    (20, 29)
    """

    size: int
    origin: int = 0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SpecError(f"size={self.size} is too small for a window; give at least one tick")

    def first(self, at: Ticks) -> Ticks:
        """Return the start of the window that contains `at`."""
        # Each term is small, so that no intermediate result overflows int64.
        into = (at % self.size - self.origin % self.size) % self.size
        kept = at if isinstance(at, int) else np.maximum(at, FIRST_TICK + into)
        return cast("Ticks", kept - into)

    def last(self, at: Ticks) -> Ticks:
        """Return the last time in the window that contains `at`."""
        return shifted(self.first(at), self.size - 1)

    @property
    def inverse(self) -> SameWindow:
        """The same object, since both rows are in the same window."""
        return self

    def align(self, watermark: int) -> int:
        """Return the start of the window of `watermark`: rows of a window are evicted together."""
        return watermark if watermark >= END else max(self.first(watermark), FIRST_TICK)

    def say(self, axis: Axis) -> str:
        """Return a phrase that describes the window."""
        return f"in the same window of {axis.say(self.size)}"


def shifted(at: Ticks, by: int) -> Ticks:
    """Return `at + by`, clipped to int64.

    >>> shifted(np.array([5, 2**63 - 2]), 3).tolist()
    [8, 9223372036854775807]
    """
    if isinstance(at, int):
        return cast("Ticks", min(max(at + by, FIRST_TICK), LAST_TICK))
    by = min(max(by, FIRST_TICK + 1), LAST_TICK)
    kept = np.minimum(at, LAST_TICK - by) if by >= 0 else np.maximum(at, FIRST_TICK - by)
    return cast("Ticks", kept + by)


def open_from(reach: PartnerRange, watermark: int | None) -> int:
    """Return the smallest time of a row that may have a partner at `watermark` or later.

    The result is FIRST_TICK if `watermark` is None, and END after the end of the stream.
    """
    if watermark is None:
        return FIRST_TICK
    return END if watermark >= END else max(reach.inverse.first(watermark), FIRST_TICK)
