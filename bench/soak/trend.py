"""Whether a series is flat: the slope of a robust line through its last two thirds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

SHORTEST_HOURS = 0.5
"""The shortest run whose slopes are judged: below it, noise and warm-up outweigh any trend."""
PERIOD_HOURS = 1 / 6
"""The period of faults, and of the memory of `lw.files`: a change within it is not a trend."""
_MOST_POINTS = 600
Verdict = Literal["flat", "grows", "falls", "too short"]


@dataclass(frozen=True)
class Trend:
    """The level of a series, and its slope in percent of the level per hour, with its limit."""

    name: str
    level: float
    percent: float
    limit: float
    hours: float

    @property
    def verdict(self) -> Verdict:
        """The judgement of the slope; only growth is a fault."""
        if self.hours < SHORTEST_HOURS:
            return "too short"
        if abs(self.percent) <= self.limit:
            return "flat"
        return "grows" if self.percent > 0 else "falls"


def trend(name: str, hours: Sequence[float], values: Sequence[float], limit: float) -> Trend:
    """Return the trend of `values` at `hours`, over the last two thirds of the time.

    Each point is first replaced by the median of the period that ends with it, which is constant
    for a series that only repeats itself. The slope is that of Theil and Sen: the median of the
    slopes between all pairs of points. The level is the median.
    """
    x, y = np.asarray(hours, float), np.asarray(values, float)
    last = x >= x[0] + (x[-1] - x[0]) / 3
    x, y = _thin(*_period_medians(x[last], y[last]))
    level = float(np.median(y))
    percent = 100 * theil_sen(x, y) / level if level else 0.0
    return Trend(name, level, percent, limit, float(hours[-1] - hours[0]))


def theil_sen(x: np.ndarray, y: np.ndarray) -> float:
    """Return the median slope between all pairs of points with different `x`; 0 without a pair."""
    first, second = np.triu_indices(len(x), 1)
    apart = x[second] != x[first]
    first, second = first[apart], second[apart]
    if not len(first):
        return 0.0
    return float(np.median((y[second] - y[first]) / (x[second] - x[first])))


def _period_medians(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the medians of all whole periods; the points themselves if there is none."""
    whole = np.flatnonzero(x - x[0] >= PERIOD_HOURS)
    if not len(whole):
        return x, y
    begins = np.searchsorted(x, x[whole] - PERIOD_HOURS, side="right")
    medians = [np.median(y[a : b + 1]) for a, b in zip(begins, whole, strict=True)]
    return x[whole], np.array(medians)


def _thin(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return at most `_MOST_POINTS` points: the medians of intervals of equal length."""
    if len(x) <= _MOST_POINTS:
        return x, y
    parts = np.array_split(np.arange(len(x)), _MOST_POINTS)
    return tuple(np.array([np.median(of[part]) for part in parts]) for of in (x, y))  # type: ignore[return-value]
