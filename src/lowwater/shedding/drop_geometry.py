"""The geometry of dropped windows: the slots of a drop, and the rows that no window needs.

A drop divides the stream into *slots* of δ: all windows with results in a slot are kept or dropped
together (DROP 3.2). ω is the length of the interval whose rows a slot needs. In DROP, a result has
the time of its window's first row, and a slot needs rows after it. Here, a result has the time of
its window's end, and a slot needs rows before it. The "- 1" of DROP is one tick here.

Dropped results and skipped rows are given as intervals of time. A row may be skipped if and only if
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
    """ω and δ: a slot needs the rows of `size`, and a new slot begins every `slide`."""

    size: int
    slide: int

    @property
    def overlap(self) -> int:
        """The least number of slots that need a row: ⌊ω/δ⌋. A shorter run spares no row."""
        return self.size // self.slide

    def spared(self, run: int) -> int:
        """Return the length of the interval without needed rows if `run` slots are dropped."""
        return max(0, (run + 1) * self.slide - self.size)


@dataclass(frozen=True)
class Root:
    """Windows whose results the query emits.

    - `operator`, `spec`, `name`: Their operator, its window spec and its name.
    - `back`: How far before a window rows can still contribute to it, through the operators before
      it.
    - `gap`: The number of results that may be missing in a row.
    - `query`: The name of the output that emits them.
    """

    operator: int
    spec: Sliding
    back: int
    gap: int
    name: str = ""
    query: str = ""

    @property
    def params(self) -> Params:
        """ω and δ of these windows alone."""
        return Params(self.spec.range + self.back, self.spec.slide)

    @property
    def phase(self) -> int:
        """The times of its results, modulo its slide."""
        return (self.spec.origin + self.spec.range - 1) % self.spec.slide


@dataclass(frozen=True)
class Slots:
    """Slot k is the interval [anchor + k·slide, anchor + (k+1)·slide) of result times.

    A slot needs the rows from `lead` ticks before its start; `size` is ω.
    """

    anchor: int
    slide: int
    lead: int
    size: int

    @classmethod
    def of(cls, roots: Sequence[Root]) -> Slots:
        """Return the common slots of several windows.

        If the windows start together, this is the fan-out rule; otherwise slots are longer by their
        distance.

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
        """ω and δ."""
        return Params(self.size, self.slide)

    def start(self, slot: int) -> int:
        """Return the first result time of a slot."""
        return self.anchor + slot * self.slide

    def first_after(self, newest: int) -> int:
        """Return the first slot that needs no row up to `newest`."""
        return (newest + self.lead - self.anchor) // self.slide + 1

    def gap(self, roots: Sequence[Root]) -> int:
        """Return how many slots may be missing in a row so that every root keeps its gap."""
        return min(root.gap // (self.slide // root.spec.slide) for root in roots)


def window_runs(spec: Sliding, results: Intervals) -> Intervals:
    """Return the runs [first, end) of window ids with results in some intervals.

    >>> window_runs(Sliding(range=10), ((9, 10), (20, 40)))
    ((0, 1), (2, 4))
    """
    offset = spec.origin + spec.range - 1  # where the result of window 0 lies
    return union(
        (-((offset - start) // spec.slide), (end - 1 - offset) // spec.slide + 1)
        for start, end in results
    )


def unread_rows(spec: Sliding, results: Intervals) -> Intervals:
    """Return the times whose rows belong only to windows with results in some intervals.

    >>> unread_rows(Sliding(range=10, slide=5), ((14, 40),))
    ((10, 35),)
    """
    runs = window_runs(spec, results)
    return union((int(spec.end(a - 1)), int(spec.start(b))) for a, b in runs)


def shrunk(intervals: Intervals, back: int, ahead: int) -> Intervals:
    """Return the times t with all of [t - back, t + ahead] in one interval.

    >>> shrunk(((0, 10), (20, 22)), 2, 1)
    ((2, 9),)
    """
    return union((start + back, end - ahead) for start, end in intervals)


def within(intervals: Intervals, at: np.ndarray) -> np.ndarray:
    """Return for each position whether it lies in an interval.

    >>> within(((0, 2), (5, 6)), np.array([-1, 0, 2, 5])).tolist()
    [False, True, False, True]
    """
    edges = np.array(intervals, np.int64).reshape(-1)
    return np.asarray(np.searchsorted(edges, at, "right") % 2 == 1)


def next_outside(intervals: Intervals, at: np.ndarray) -> np.ndarray:
    """Return the first position from each on that lies in no interval.

    >>> next_outside(((0, 2), (5, 6)), np.array([-1, 0, 2, 5])).tolist()
    [-1, 2, 2, 6]
    """
    return np.where(within(intervals, at), _around(intervals, at)[..., 1], at)


def last_outside(intervals: Intervals, at: np.ndarray) -> np.ndarray:
    """Return the last position up to each that lies in no interval.

    >>> last_outside(((0, 2), (5, 6)), np.array([-1, 0, 2, 5])).tolist()
    [-1, -1, 2, 4]
    """
    return np.where(within(intervals, at), _around(intervals, at)[..., 0] - 1, at)


def _around(intervals: Intervals, at: np.ndarray) -> np.ndarray:
    """Return for each position the interval that it lies in, or the next one."""
    edges = np.array([*intervals, (0, 0)], np.int64)
    return edges[np.searchsorted(edges[:-1].reshape(-1), at, "right") // 2]


def needed_windows(
    results: Intervals, spec: Any, first: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last of the windows [first, last] that are kept.

    The last is before the first where all are dropped.
    """
    if not results or not isinstance(spec, Sliding):
        return first, last
    runs = window_runs(spec, results)
    return next_outside(runs, first), last_outside(runs, last)
