"""Histograms of needed slack: the slack with which a row would have reached its window in time.

A row that arrives in epoch n is late for a window if a watermark of epoch n - 2 or earlier has
passed the window's end. So the row needs a slack of at least the newest time after epoch n - 2,
minus the window's end, plus one tick. A slack of 0 is enough for most rows. The same holds for a
pair of a join, where the earlier row must still be in state when the later row arrives.

Shards count needed slacks in bins. Bins grow by a constant factor, so a histogram has a few
hundred bins for any lateness, and counts of several shards add up to the same histogram in any
order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lowwater.control.completeness import Floats, Ticks
from lowwater.control.measures import BinCounts

PER_OCTAVE = 12
"""The number of bins between a slack and twice that slack."""
BINS = 320
"""The number of bins; the last one also counts all longer slacks."""
PARTS = 256
"""A window's range is divided into this many grains."""


@dataclass(frozen=True)
class SlackBins:
    """Bins of slack: bin 0 is slack 0, bin 1 is up to `grain` ticks, and so on.

    >>> bins = SlackBins.of(range=2_560)
    >>> bins.edges[:3].tolist(), bins.edges[13].item()
    ([0, 10, 11], 20)
    >>> bins.count(np.array([0, 0, 7, 11]), np.array([5, 1, 2, 1]))
    ((0, 6), (1, 2), (2, 1))
    """

    grain: int

    @classmethod
    def of(cls, range: int) -> SlackBins:
        """Return bins for windows of `range` ticks."""
        return cls(max(range // PARTS, 1))

    @cached_property
    def edges(self) -> Ticks:
        """The largest slack in each bin, in ticks."""
        octaves = np.arange(BINS - 1) / PER_OCTAVE
        edges = np.concatenate([[0.0], np.round(self.grain * np.exp2(octaves))])
        return edges.astype(np.int64)

    def count(self, needed: Ticks, rows: Ticks) -> BinCounts:
        """Return the number of rows in each bin: `rows` of them need the slack `needed` each."""
        bins = np.minimum(np.searchsorted(self.edges, needed), BINS - 1)
        counts = np.bincount(bins, rows, minlength=0)
        return tuple([(int(b), int(counts[b])) for b in np.flatnonzero(counts)])


def total(counts: Iterable[BinCounts]) -> Floats:
    """Return the sum of several histograms, with a place for each bin.

    >>> total([((0, 6), (2, 1)), ((0, 1),)])[:3].tolist()
    [7.0, 0.0, 1.0]
    """
    summed = np.zeros(BINS)
    for one in counts:
        for bin, rows in one:
            summed[bin] += rows
    return summed
