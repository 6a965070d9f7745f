"""Telling that late degrees are no longer what they were: two windows, one likelihood test.

A histogram that fades forgets in its own time: after a change the old rows outweigh the new ones
for several tracks. So what came last is held against what is remembered. If both were of one kind,
the log-likelihood of each under their common mixture would fall short of that under its own shares
by little: the shortfall per row is the Jensen-Shannon divergence, and times twice the number of
rows it is the G statistic, which grows with the rows only where there is a difference. Both must be
large: the one so that a difference matters, the other so that it is no accident.
"""

from __future__ import annotations

import numpy as np

from lowwater.progress.late_degrees import EXACT, PER_OCTAVE, Counts, LateDegrees

MATTERS = 0.06
"""The divergence, in nats per row, from which on a difference matters: late rows 20 % instead of
50 %, or late twice as long."""
NO_ACCIDENT = 30.0
"""The least G statistic: far above what a handful of octaves gives by chance."""


def changed(fresh: LateDegrees, known: LateDegrees) -> bool:
    """Say whether what came last is of another kind than what is known.

    >>> calm = LateDegrees.of([0] * 70 + [1, 2, 3] * 10, granule=1)
    >>> wild = LateDegrees.of([0] * 70 + [10, 20, 30] * 10, granule=1)
    >>> changed(calm, calm), changed(wild, calm), changed(calm, wild)
    (False, True, True)
    """
    a, b = _octaves(fresh), _octaves(known)
    rows = a.sum() * b.sum() / max(a.sum() + b.sum(), 1e-9)
    if rows <= 0:
        return False
    size = max(len(a), len(b))
    divergence = _divergence(_share(a, size), _share(b, size))
    return bool(divergence > MATTERS and 4 * rows * divergence > NO_ACCIDENT)


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


def _divergence(p: Counts, q: Counts) -> float:
    mixed = (p + q) / 2
    return float((_short(p, mixed) + _short(q, mixed)) / 2)


def _short(p: Counts, mixed: Counts) -> float:
    there = p > 0
    return float((p[there] * np.log(p[there] / mixed[there])).sum())
