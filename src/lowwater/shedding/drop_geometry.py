"""The geometry of dropped windows: slots of result times, and the rows that no window needs.

Result times are divided into *slots* of length δ. All windows with results in one slot are kept
or dropped together (DROP 3.2). A slot needs the rows of an interval of length ω. In DROP, a result
has the time of its window's first row, so a slot needs rows after its own time. Here, a result has
the time of its window's last tick, so a slot needs earlier rows. DROP's "- 1" is one tick here.

Dropped results and skipped rows are described by intervals of time. A row is skipped if and only if
all its windows are dropped (DROP 3.4, rule 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np

from lowwater.intervals import Intervals, union
from lowwater.windows.sliding import Sliding


@dataclass(frozen=True)
class Params:
    """ω = `size` and δ = `slide`, in ticks: a slot has δ ticks, and needs the rows of ω ticks."""

    size: int
    slide: int

    @property
    def overlap(self) -> int:
        """⌊ω/δ⌋: at least this many slots need each row, so shorter runs of drops skip no rows."""
        return self.size // self.slide

    def spared(self, run: int) -> int:
        """Return how many ticks of rows are skipped if `run` consecutive slots are dropped."""
        return max(0, (run + 1) * self.slide - self.size)


@dataclass(frozen=True)
class Root:
    """An operator with windows whose results the query emits.

    - `operator`, `spec`, `name`: The operator's number, window spec and name.
    - `back`: Previous operators may let a row affect windows that start up to `back` ticks after
      the row.
    - `gap`: The largest number of consecutive results that may be missing.
    - `query`: The name of the query that emits the results.
    """

    operator: int
    spec: Sliding
    back: int
    gap: int
    name: str = ""
    query: str = ""

    @property
    def params(self) -> Params:
        """The parameters ω and δ of this operator's windows alone."""
        return Params(self.spec.range + self.back, self.spec.slide)

    @property
    def phase(self) -> int:
        """The result time modulo the slide, which is the same for all windows."""
        return (self.spec.origin + self.spec.range - 1) % self.spec.slide


@dataclass(frozen=True)
class Slots:
    """Slots of result times: slot k is [anchor + k·slide, anchor + (k+1)·slide).

    The first row that a slot needs is `lead` ticks before the slot's start; `size` is ω in ticks.
    """

    anchor: int
    slide: int
    lead: int
    size: int

    @classmethod
    def of(cls, roots: Sequence[Root]) -> Slots:
        """Return the common slots of all `roots`.

        If the windows start together, ω and δ follow the fan-out rule of DROP. Otherwise, ω is
        larger by the distance of the starts.

        >>> one, two = (Root(0, Sliding(range=3, slide=s), 0, 1) for s in (2, 3))
        >>> both = Slots.of([one, two])
        >>> both.size, both.slide
        (7, 6)
        """
        slide = lcm(*(root.spec.slide for root in roots))
        # A slot that begins right after a result of a root is the shortest for that root.
        candidates = [cls._beginning(root.phase + 1, slide, roots) for root in roots]
        return min(candidates, key=lambda slots: (slots.size, slots.anchor))

    @classmethod
    def _beginning(cls, anchor: int, slide: int, roots: Sequence[Root]) -> Slots:
        into = [(root.phase - anchor) % root.spec.slide for root in roots]
        lead = max(root.params.size - 1 - at for root, at in zip(roots, into, strict=True))
        last = max(slide - r.spec.slide + at for r, at in zip(roots, into, strict=True))
        return cls(anchor, slide, lead, lead + last + 1)

    @property
    def params(self) -> Params:
        """The parameters ω and δ of the slots."""
        return Params(self.size, self.slide)

    def start(self, slot: int) -> int:
        """Return the first result time of a slot."""
        return self.anchor + slot * self.slide

    def first_end(self, roots: Sequence[Root]) -> int:
        """Return the ticks from a slot's start to the first end of a window with a result in it.

        >>> roots = [Root(0, Sliding(range=3, slide=s), 0, 1) for s in (2, 3)]
        >>> Slots.of(roots).first_end(roots)
        2
        """
        return min((root.phase - self.anchor) % root.spec.slide + 1 for root in roots)

    def first_after(self, newest: int) -> int:
        """Return the first slot that needs only rows after `newest`."""
        return (newest + self.lead - self.anchor) // self.slide + 1

    def windows(self, roots: Sequence[Root], runs: Intervals) -> int:
        """Return the number of windows of `roots` in the slots of `runs`."""
        each = sum(self.slide // root.spec.slide for root in roots)
        return each * sum(end - start for start, end in runs)

    def gap(self, roots: Sequence[Root]) -> int:
        """Return how many consecutive slots may be dropped without exceeding a root's gap."""
        return min(root.gap // (self.slide // root.spec.slide) for root in roots)


def window_runs(spec: Sliding, results: Intervals) -> Intervals:
    """Return the ids of windows with result times in `results`, as intervals [first, end).

    >>> window_runs(Sliding(range=10), ((9, 10), (20, 40)))
    ((0, 1), (2, 4))
    """
    offset = spec.origin + spec.range - 1  # the result time of window 0
    return union(
        (-((offset - start) // spec.slide), (end - 1 - offset) // spec.slide + 1)
        for start, end in results
    )


def unread_rows(spec: Sliding, results: Intervals) -> Intervals:
    """Return the intervals of times whose rows are only in windows with results in `results`.

    >>> unread_rows(Sliding(range=10, slide=5), ((14, 40),))
    ((10, 35),)
    """
    runs = window_runs(spec, results)
    return union((int(spec.end(a - 1)), int(spec.start(b))) for a, b in runs)


def shrunk(intervals: Intervals, back: int, ahead: int) -> Intervals:
    """Return, as intervals, the times t with [t - back, t + ahead] inside one interval.

    >>> shrunk(((0, 10), (20, 22)), 2, 1)
    ((2, 9),)
    """
    return union((start + back, end - ahead) for start, end in intervals)


def within(intervals: Intervals, at: np.ndarray) -> np.ndarray:
    """Return, for each number in `at`, whether an interval contains the number.

    >>> within(((0, 2), (5, 6)), np.array([-1, 0, 2, 5])).tolist()
    [False, True, False, True]
    """
    edges = np.array(intervals, np.int64).reshape(-1)
    return np.asarray(np.searchsorted(edges, at, "right") % 2 == 1)


def next_outside(intervals: Intervals, at: np.ndarray) -> np.ndarray:
    """Return, for each number n in `at`, the smallest number ≥ n outside all intervals.

    >>> next_outside(((0, 2), (5, 6)), np.array([-1, 0, 2, 5])).tolist()
    [-1, 2, 2, 6]
    """
    return np.where(within(intervals, at), _around(intervals, at)[..., 1], at)


def last_outside(intervals: Intervals, at: np.ndarray) -> np.ndarray:
    """Return, for each number n in `at`, the largest number ≤ n outside all intervals.

    >>> last_outside(((0, 2), (5, 6)), np.array([-1, 0, 2, 5])).tolist()
    [-1, -1, 2, 4]
    """
    return np.where(within(intervals, at), _around(intervals, at)[..., 0] - 1, at)


def _around(intervals: Intervals, at: np.ndarray) -> np.ndarray:
    """Return, for each number in `at`, the interval that contains it, or the next interval."""
    edges = np.array([*intervals, (0, 0)], np.int64)
    return edges[np.searchsorted(edges[:-1].reshape(-1), at, "right") // 2]


def needed_windows(
    results: Intervals, spec: Any, first: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each i, the smallest and the largest kept window id in [first[i], last[i]].

    `results` are the dropped result times. If no window is kept, the second id is below the first.
    """
    if not results or not isinstance(spec, Sliding):
        return first, last
    runs = window_runs(spec, results)
    return next_outside(runs, first), last_outside(runs, last)
