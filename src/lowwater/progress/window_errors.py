"""What share of windows ends within an error, by how late rows are and what is asked of them.

A window of n rows closes when the newest time is `slack` past its end. A row x before the end is
missing from the final if its late degree is above slack + x; over a window of R granules that is
the share m = 1 - (F(slack) + ... + F(slack + R - 1)) / R of its rows. How far the final is off then
depends on what is asked:

- a count is short by the missing rows: a Poisson number with mean n m;
- a sum by their values: with spread c (deviation / mean) its mean is n m, its variance
  n m (1 + c²), in units of the mean value; for c = 0 it is a count;
- an avg by c sqrt(m / (n (1 - m))) times a normal number: what is missing is a sample of all;
- a min or a max is off only if every row near it is missing: m to the power of `near`, the rows
  that are within the error of it, itself included;
- a quantile q moves by sqrt(q (1 - q) m / (n (1 - m))) in rank, times the spread: by how much the
  value changes, relative to itself, per unit of rank.

Rows are taken to be late independently of each other and of their values. Where they are late
together, windows fare better than said at a small error bound and worse at a large one; what was
measured on closed windows is then the better guide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from lowwater.progress.late_degrees import LateDegrees
from lowwater.progress.model import arrived

FEW = 200
"""Up to how many expected missing rows a Poisson sum is computed term by term."""


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """How an aggregate answers to missing rows.

    `rows` is how many a window has; `spread`, `near` and `at` (the quantile) are explained above.
    """

    kind: Literal["count", "sum", "avg", "min", "max", "quantile"]
    rows: float
    spread: float = 1.0
    near: float = 1.0
    at: float = 0.5


def missing(degrees: LateDegrees, range: float, slack: float) -> float:
    """Return the share of a window's rows that come after it closed.

    >>> late = LateDegrees.of([0, 0, 0, 4], granule=1)
    >>> [round(missing(late, 10, k), 6) for k in (0, 2, 4)]
    [0.1, 0.05, 0.0]
    """
    return max(0.0, 1.0 - float(arrived(degrees, range, slack)) / range)


def aggregate_quality(
    degrees: LateDegrees, range: float, slack: float, error: float, sensitivity: Sensitivity
) -> float:
    """Return the share of windows whose final is within a relative error.

    `range` and `slack` are in granules. The slide does not occur: it says how many windows there
    are, not which rows one of them misses.

    >>> late = LateDegrees.of([0] * 99 + [5], granule=1)
    >>> counts = Sensitivity(kind="count", rows=1_000)
    >>> [round(aggregate_quality(late, 10, k, 0.001, counts), 3) for k in (0, 3, 4, 5)]
    [0.04, 0.406, 0.736, 1.0]
    """
    m, n = missing(degrees, range, slack), max(sensitivity.rows, 1.0)
    if m <= 0 or m >= 1:
        return float(m <= 0)
    one, sampled = sensitivity, math.sqrt(m / (n * (1 - m)))
    match one.kind:
        case "count":
            return _poisson(n * m, error * n)
        case "sum":
            return _short_sum(n * m, error * n, one.spread)
        case "min" | "max":
            return float(1 - m ** max(one.near, 1.0))
        case "avg":
            return _within(error, one.spread * sampled)
        case "quantile":
            return _within(error, one.spread * sampled * math.sqrt(one.at * (1 - one.at)))


def _poisson(mean: float, most: float) -> float:
    """Return the probability of at most `most`."""
    if mean > FEW:
        return _normal((math.floor(most) + 0.5 - mean) / math.sqrt(mean))
    term = total = math.exp(-mean)
    for k in range(1, math.floor(most) + 1):
        term *= mean / k
        total += term
        if term < total * 1e-15 and k > mean:
            break
    return min(1.0, total)


def _short_sum(mean: float, most: float, spread: float) -> float:
    if spread == 0:
        return _poisson(mean, most)
    # No row missing is no error: that share is known, only the rest is spread.
    none = math.exp(-mean)
    deviation = math.sqrt(mean * (1 + spread**2))
    inside = _normal((most - mean) / deviation) - _normal((-most - mean) / deviation)
    return none + (1 - none) * max(0.0, inside)


def _within(error: float, deviation: float) -> float:
    return 1.0 if deviation == 0 else math.erf(error / deviation / math.sqrt(2))


def _normal(z: float) -> float:
    return 0.5 * (1 + math.erf(z / math.sqrt(2)))
