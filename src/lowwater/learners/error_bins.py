"""Histograms of errors: the distance of a final from a prediction, divided by a scale.

Bins are even in asinh(error / `FINEST`): of the same width near 0, and growing by a constant factor
away from it. So errors of a thousandth and of twenty times the scale fit into the same `BINS` bins.
Counts are whole numbers, so that the sum of several histograms does not depend on their order. A
histogram forgets by halving: after a number of windows, all its counts are halved (`aged`).
"""

from __future__ import annotations

import numpy as np

from lowwater.control.completeness import Floats
from lowwater.learners.whole_numbers import Counts

BINS = 72
FINEST = 0.001
WIDTH = 0.3
"""The width of a bin in asinh(error / `FINEST`)."""
_HALF = BINS * WIDTH / 2


def place(error: Floats) -> Floats:
    """Return the position of each error on the axis of bins, from 0 to `BINS`.

    >>> place(np.array([0.0, 1e9])).tolist()
    [36.0, 72.0]
    """
    at = (np.arcsinh(error / FINEST) + _HALF) / WIDTH
    return np.asarray(np.minimum(np.maximum(at, 0.0), BINS))


def bin_of(error: Floats) -> Counts:
    """Return the bin of each error."""
    return np.minimum(place(error).astype(np.int64), BINS - 1)


def error_at(place: Floats) -> Floats:
    """Return the error at each position; the inverse of `place`."""
    return np.asarray(FINEST * np.sinh(place * WIDTH - _HALF))


def density(error: Floats) -> Floats:
    """Return the number of bins per unit of error, at each error; 0 beyond the bins.

    >>> density(np.array([-100.0, 0.1, 0.2])).round(1).tolist()
    [0.0, 33.3, 16.7]
    """
    inside = np.abs(error) < FINEST * np.sinh(_HALF)
    return np.where(inside, 1.0 / (WIDTH * np.hypot(error, FINEST)), 0.0)


def aged(counts: Counts, before: int, after: int, span: int) -> Counts:
    """Return the counts, halved for each multiple of `span` in (`before`, `after`].

    >>> aged(np.array([30, 41]), 19, 20, 10).tolist(), aged(np.array([30]), 11, 19, 10).tolist()
    ([15, 20], [30])
    """
    turns = after // span - before // span
    return counts >> turns if turns else counts
