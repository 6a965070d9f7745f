"""Buckets: how the cells of a shard lie in state.

A bucket holds the cells of a stretch of panes, `[low, high]`, about `TARGET_CELLS` of them; buckets
do not overlap. So the number of state calls follows the number of cells, whether a stream is dense
or has one row a year, and an epoch rewrites only the stretches that its rows fall into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

TARGET_CELLS = 16_384


@dataclass(frozen=True)
class Bucket:
    """A stretch of panes in state, the number of its cells and their size in bytes."""

    low: int
    high: int
    cells: int
    size: int

    @property
    def name(self) -> str:
        """The name of the bucket in the state."""
        return f"cells/{self.low}"


@dataclass
class Buckets:
    """The buckets of a shard, by their first pane."""

    all: dict[int, Bucket] = field(default_factory=dict)

    @classmethod
    def of(cls, buckets: Iterable[Bucket]) -> Buckets:
        """Order buckets by their first pane."""
        return cls({b.low: b for b in sorted(buckets, key=lambda b: b.low)})

    def __iter__(self) -> Iterator[Bucket]:
        return iter(self.all.values())

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return sum(b.cells for b in self)

    @property
    def size(self) -> int:
        """How many bytes they take up."""
        return sum(b.size for b in self)

    def between(self, low: int | np.ndarray, high: int | np.ndarray) -> set[int]:
        """Return the buckets that reach into panes [low, high), one stretch or any of several."""
        return {b.low for b in self if np.any((b.low < high) & (b.high >= low))}

    def taking(self, panes: np.ndarray) -> set[int]:
        """Return the buckets that new panes go into.

        A pane between two buckets goes into the one before it, unless that is full.
        """
        if not self.all or not len(panes):
            return set()
        known = list(self)
        before = np.searchsorted([b.low for b in known], panes, "right") - 1
        high = np.array([b.high for b in known])
        full = np.array([b.cells >= TARGET_CELLS for b in known])
        chosen = (before >= 0) & ((panes <= high[before]) | ~full[before])
        return {known[i].low for i in np.unique(before[chosen])}

    def stretches(self, panes: np.ndarray) -> list[tuple[int, int]]:
        """Cut sorted cells, given by their panes, into stretches [start, end) for new buckets.

        A stretch neither cuts a pane in two nor reaches over a bucket that is there.
        """
        if not len(panes):
            return []
        starts = np.flatnonzero(np.diff(panes, prepend=panes[0] - 1))
        room = starts // TARGET_CELLS
        slot = np.searchsorted(list(self.all), panes[starts])
        new = (np.diff(room, prepend=-1) != 0) | (np.diff(slot, prepend=-1) != 0)
        cuts = [*starts[new].tolist(), len(panes)]
        return list(pairwise(cuts))
