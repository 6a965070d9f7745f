"""Judges intervals by coverage and interval score, against plain empirical quantiles.

A plain interval goes around the same estimate. It is made of all past windows whose finals were
known when it was asked for: from the 5 % to the 95 % quantile of the differences between
finals and estimates, or of their ratios, whichever scores better in hindsight.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import Literal

import numpy as np

from experiments.streams.prods import Answers

ALPHA = 0.1
FEWEST = 20
"""How many windows must be known before intervals are judged."""
LITTLE = 0.015
"""The share of rows that may be missing from a window that is asked for as good as complete."""
Measure = Literal["difference", "ratio"]
MEASURES: tuple[Measure, ...] = ("difference", "ratio")


@dataclass(frozen=True)
class IntervalScore:
    """Coverage in percent and mean interval score of the intervals of one aggregate.

    `unchanged` is the percentage of windows whose final equals the early raw value: an interval
    that holds this value cannot cover less. `lacking` has both percentages for windows of which
    more than `LITTLE` was missing when they were asked for, by their completeness.
    """

    windows: int
    coverage: float
    unchanged: float
    lacking: tuple[float, float]
    width: float
    score: float
    plain_coverage: float
    plain_scores: tuple[float, float]
    """By difference and by ratio."""

    @property
    def plain_score(self) -> float:
        """The better one, in hindsight."""
        return min(self.plain_scores)

    @property
    def ratio(self) -> float | None:
        """Our score by that of plain intervals: below 1 ours are better.

        None where finals never differ from early values, and plain intervals are points.
        """
        return self.score / self.plain_score if self.plain_score > 0 else None


def score(low: np.ndarray, high: np.ndarray, final: np.ndarray) -> np.ndarray:
    """Return interval scores: the width, and 2/α times what a final is outside (Winkler 1972).

    >>> score(np.array([0.0, 0.0]), np.array([2.0, 2.0]), np.array([1.0, 2.5])).tolist()
    [2.0, 12.0]
    """
    outside = np.maximum(low - final, 0) + np.maximum(final - high, 0)
    return np.asarray(high - low + 2 / ALPHA * outside)


def judge(answers: Answers, name: str) -> IntervalScore:
    """Judge the intervals of an aggregate, over the windows for which there are plain ones."""
    final, low, high = answers.final[name], answers.low[name], answers.high[name]
    sound = answers.full & answers.answered & np.isfinite(final) & np.isfinite(low)
    both = [plain(answers, name, measure) for measure in MEASURES]
    at = sound & np.all([np.isfinite(least) for least, _ in both], axis=0)
    scores = [float(score(least, most, final)[at].mean()) for least, most in both]
    least, most = both[int(np.argmin(scores))]
    inside = (low <= final) & (final <= high)
    same = unchanged(answers, name)
    some = at & (answers.completeness < 1 - LITTLE)
    return IntervalScore(
        int(at.sum()),
        _percent(inside[at]),
        _percent(same[at]),
        (_percent(inside[some]), _percent(same[some])),
        float((high - low)[at].mean()),
        float(score(low, high, final)[at].mean()),
        _percent(((least <= final) & (final <= most))[at]),
        (scores[0], scores[1]),
    )


def unchanged(answers: Answers, name: str) -> np.ndarray:
    """Return which windows had arrived whole, as far as an aggregate tells, when asked for."""
    early, final = answers.early[name], answers.final[name]
    if name == "count":  # estimates of counts are rounded
        return np.asarray(np.abs(early * answers.completeness - final) <= 0.5)  # noqa: PLR2004
    raw = early * answers.completeness if name == "sum" else early
    return np.asarray(np.isclose(raw, final, rtol=1e-9, atol=0))


def _percent(found: np.ndarray) -> float:
    return 100 * float(found.mean()) if len(found) else np.nan


def plain(answers: Answers, name: str, measure: Measure) -> tuple[np.ndarray, np.ndarray]:
    """Return plain intervals; NaN where too few finals were known."""
    early, final = answers.early[name], answers.final[name]
    low, high = (np.full(len(early), np.nan) for _ in range(2))
    with np.errstate(divide="ignore", invalid="ignore"):
        past = final - early if measure == "difference" else final / early
    asked = np.argsort(answers.early_at, kind="stable")  # those without an answer come last
    known = np.argsort(answers.finally_at, kind="stable")
    seen: list[float] = []
    place = 0
    for i in asked[: int(answers.answered.sum())]:
        while answers.finally_at[known[place]] < answers.early_at[i]:
            if np.isfinite(past[known[place]]):
                insort(seen, float(past[known[place]]))
            place += 1
        if len(seen) >= FEWEST:
            ends = [_quantile(seen, q) for q in (ALPHA / 2, 1 - ALPHA / 2)]
            both = [early[i] + e if measure == "difference" else early[i] * e for e in ends]
            low[i], high[i] = min(both), max(both)
    return low, high


def _quantile(values: list[float], q: float) -> float:
    """Return the quantile that a next value is below with probability q, of sorted values."""
    at = min(max(q * (len(values) + 1) - 1, 0.0), len(values) - 1.0)
    i = int(at)
    above = values[min(i + 1, len(values) - 1)]
    return values[i] + (at - i) * (above - values[i])
