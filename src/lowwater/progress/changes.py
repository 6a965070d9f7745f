"""Telling that late degrees are no longer what they were: two windows, one likelihood test.

A histogram that fades forgets in its own time: after a change the old rows outweigh the new ones
for several tracks. So what came last is held against what is remembered. If both were of one kind,
their common shares would explain each as well as its own do. By how much they do not, summed over
rows, is half the G statistic, which grows with the rows where there is a difference and only there;
taken per row, with both weighing the same, it is the Jensen-Shannon divergence. Both must be large:
the first so that a difference is no accident, the second so that it matters.
"""

from __future__ import annotations

import numpy as np

from lowwater.progress.late_degrees import EXACT, PER_OCTAVE, Counts, LateDegrees

MATTERS = 0.06
"""The divergence, in nats per row, from which on a difference matters."""
NO_ACCIDENT = 30.0
"""The least G statistic: far above what a handful of octaves gives by chance."""


def changed(fresh: LateDegrees, known: LateDegrees) -> bool:
    """Say whether what came last is of another kind than what is known.

    >>> calm = LateDegrees.of([0] * 70 + [1, 2, 3] * 10, granule=1)
    >>> wild = LateDegrees.of([0] * 70 + [10, 20, 30] * 10, granule=1)
    >>> changed(calm, calm), changed(wild, calm), changed(calm, wild)
    (False, True, True)
    """
    counts = [_octaves(degrees) for degrees in (fresh, known)]
    rows = [float(c.sum()) for c in counts]
    if min(rows) <= 0:
        return False
    size = max(map(len, counts))
    shares = [_share(c, size) for c in counts]
    common = (rows[0] * shares[0] + rows[1] * shares[1]) / sum(rows)
    g = 2 * sum(n * _short(p, common) for n, p in zip(rows, shares, strict=True))
    middle = (shares[0] + shares[1]) / 2
    return g > NO_ACCIDENT and sum(_short(p, middle) for p in shares) / 2 > MATTERS


def _octaves(degrees: LateDegrees) -> Counts:
    """Return counts of degree 0, 1, 2, 3-4, 5-8 and so on."""
    bins = np.arange(len(degrees.counts))
    exact = np.where(bins > 0, np.ceil(np.log2(np.maximum(bins, 1))) + 1, 0)
    beyond = np.log2(EXACT) + 1 + np.ceil((bins - EXACT) / PER_OCTAVE)
    octave = np.where(bins <= EXACT, exact, beyond).astype(np.int64)
    return np.bincount(octave, degrees.counts).astype(np.float64)


def _share(counts: Counts, size: int) -> Counts:
    shares = np.zeros(size)
    shares[: len(counts)] = counts / counts.sum()
    return shares


def _short(shares: Counts, other: Counts) -> float:
    """Return by how much the log-likelihood of a row is less under other shares than its own."""
    there = shares > 0
    return float((shares[there] * np.log(shares[there] / other[there])).sum())
