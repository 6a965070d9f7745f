"""What quality a slack gives, by how late rows are (QDJ 5.3; semantics 25 and 26).

All spans are in granules of the histograms. With s granules between the newest time of a stream and
the mark that acts on its rows, F(s) of them come in time: F is the distribution of late degrees.
Each function takes one slack or an array of them, and none falls when the slack grows.

Selectivity and rates do not occur: they are factors of what is produced and of what should be, and
cancel, as long as whether two rows match does not depend on how late they are. What is estimated is
therefore the quality of the pairs that match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from lowwater.progress.late_degrees import Counts, LateDegrees

Slack: TypeAlias = Any
"""One slack, or an array of them."""


@dataclass(frozen=True)
class Side:
    """One stream of a join that delivers in order of time.

    `window` is how long its rows are kept; `ahead` how far its newest time is ahead of that of the
    stream that is furthest behind, for whose rows its own wait. Where that varies, `ahead` holds
    what it was at several moments, the same for all sides, and quality is the mean over them.
    """

    degrees: LateDegrees
    window: int
    ahead: Any = 0.0


def arrived(degrees: LateDegrees, window: float, wait: Slack) -> Any:
    """Return the sum of F(wait + i) for i = 0 to window - 1: how full a window is.

    A row of degree d is there from age d - wait on: for clip(wait + window - d, 0, window) ages.
    """
    since = np.asarray(wait, np.float64)[..., None] + window - degrees.edges
    return np.clip(since, 0, window) @ degrees.shares


def quality_of_sides(sides: Sequence[Side], slack: Slack) -> Any:
    """Return the share of results that a join of any number of streams gives, in order of time.

    A result of time t has a row of time t and others that are younger than their windows; it is
    given if all are there when the windows end at t. Of all combinations of ages, those with no age
    of 0 are none of its: prod(S_k) - prod(S_k - F_k), where S_k is how full window k is. For two
    streams that is (5.12), with the outer sums to W - 1.
    """
    whole, rest, all_whole, all_rest = np.ones(1), np.ones(1), 1.0, 1.0
    for side in sides:
        wait = np.asarray(slack, np.float64)[..., None] + np.atleast_1d(side.ahead)
        full = arrived(side.degrees, side.window, wait)
        whole, rest = whole * full, rest * (full - side.degrees.cdf(wait))
        all_whole, all_rest = all_whole * side.window, all_rest * (side.window - 1)
    return _plain(((whole - rest) / (all_whole - all_rest)).mean(axis=-1))


def quality(
    self_degrees: LateDegrees,
    other_degrees: LateDegrees,
    window_self: int,
    window_other: int,
    slack: Slack,
    *,
    lag: Any = 0.0,
) -> Any:
    """Return the quality of a join with `order="time"` (5.12).

    `lag` is how far the newest time of `self` is ahead of that of `other`, negative if behind; of
    several, as they were at different moments, the quality is the mean. Two slacks need not differ:
    only the later of the two ends of waiting counts (QDJ 5.4, case 3).

    >>> late = LateDegrees(1, np.array([0.6, 0.2, 0.1, 0.1]))
    >>> round(quality(late, late, 3, 2, 0), 6)
    0.465
    """
    ahead, behind = np.maximum(lag, 0.0), np.maximum(-np.asarray(lag), 0.0)
    sides = [Side(self_degrees, window_self, ahead), Side(other_degrees, window_other, behind)]
    return quality_of_sides(sides, slack)


@dataclass(frozen=True)
class Band:
    """The pairs of a join that delivers in any order: lo <= other.ts - self.ts <= hi.

    `lag` is how far the newest time of `self` is ahead of that of `other`; `epoch` how far the
    newest time runs on, on average, before the mark that follows from it is in force.
    """

    lo: float
    hi: float
    lag: float = 0.0
    epoch: float = 0.0

    @property
    def width(self) -> float:
        """How many differences there are."""
        return self.hi - self.lo + 1


def free_losses(
    self_degrees: LateDegrees, other_degrees: LateDegrees, band: Band, slack: Slack
) -> tuple[Any, Any]:
    """Return which share of pairs is lost by late rows of `self`, and by those of `other`.

    A row of `self` is kept until the mark of `other` is past self.ts + hi. So a row of `other` of
    degree d, x = other.ts - self.ts, meets the mark other.ts + d - slack - epoch and finds its
    partner unless d > slack + epoch + hi - x. The pair is lost only if the row of `other` is the
    later one, which it is unless the degree of the one of `self` is above d + x + lag. With sides
    changed: d > slack + epoch + x - lo, and the degree of `other` below d - x - lag. Being behind
    its own mark loses nothing else: a row that is not kept has no partner left that could come.
    """
    mine = _lost(self_degrees, other_degrees, band, slack, -band.lo - band.lag)
    other = _lost(other_degrees, self_degrees, band, slack, band.hi + band.lag)
    return _plain(mine), _plain(other)


def free_quality(
    self_degrees: LateDegrees, other_degrees: LateDegrees, band: Band, slack: Slack
) -> Any:
    """Return the quality of a join with `order="free"` (semantics 26).

    >>> late = LateDegrees(1, np.array([0.6, 0.2, 0.1, 0.1]))
    >>> round(free_quality(late, late, Band(-1, 2), 0), 4)
    0.6725
    >>> free_quality(late, late, Band(-1, 2), 3)
    1.0
    """
    mine, other = free_losses(self_degrees, other_degrees, band, slack)
    return 1.0 - mine - other


def smallest_slack(
    target: float, quality_of: Callable[[Any], Any], granularity: int = 1, limit: int = 1 << 20
) -> int:
    """Return the smallest slack of the target quality (algorithm 2, with 0 tested first).

    It is a multiple of `granularity`; at most `limit`, if even that does not reach the target.
    Quality does not fall as the slack grows, so halving finds what counting up does.

    >>> smallest_slack(0.8, lambda k: k / 100, granularity=3)
    81
    """
    low, high = -1, -(-limit // granularity)
    while high - low > 1:
        middle = (low + high) // 2
        if quality_of(middle * granularity) >= target:
            high = middle
        else:
            low = middle
    return min(high * granularity, limit)


def smallest_slacks(
    most_lost: float,
    lost_self: Callable[[Any], Any],
    lost_other: Callable[[Any], Any],
    limit: int,
    *,
    weights: tuple[float, float] = (1.0, 1.0),
    steps: int = 256,
) -> tuple[int, int]:
    """Return a slack for each side whose losses together are at most `most_lost`.

    Of all such, those with the least weights[0] * slack of self + weights[1] * slack of other: what
    is kept while the marks wait. It pays where one stream is late and the other is not; where
    results wait for both, in order of time, the larger slack counts alone and equal ones are best.
    """
    step = max(1, -(-limit // steps))
    tried = np.arange(0, limit + step, step)
    mine, other = (np.asarray(lost(tried), np.float64) for lost in (lost_self, lost_other))
    # Losses fall with the slack: the first slack of other whose loss leaves room for that of self.
    need = np.searchsorted(-other, -(most_lost - mine), side="left")
    able = need < len(tried)
    if not able.any():
        return int(tried[-1]), int(tried[-1])
    cost = weights[0] * tried + weights[1] * tried[np.minimum(need, len(tried) - 1)]
    best = int(np.argmin(np.where(able, cost, np.inf)))
    return int(tried[best]), int(tried[need[best]])


def _lost(
    late: LateDegrees, partners: LateDegrees, band: Band, slack: Slack, reach: float
) -> Counts:
    """Return the share of pairs that late rows lose.

    A row of degree d finds the partners gone that are less than n = d - slack - epoch from the end
    of the band, at y = 0 to n - 1; of these it comes after those whose degree is at most
    d + reach - y. Of two that come at the same time each is the later one half of the time.
    """
    there, theirs = late.counts > 0, partners.counts > 0
    d, p = late.edges[there], late.shares[there]
    e, q = partners.edges[theirs], partners.shares[theirs]
    if not len(d):
        return np.zeros(np.shape(slack))
    before = np.ones(1) if not len(e) else q
    behind = np.zeros(1) if not len(e) else e
    after = d[:, None] + reach - behind + 0.5

    def one(wait: float) -> float:
        gone = np.clip(d - wait, 0, band.width)[:, None]
        return float(p @ (np.clip(after, 0, gone) @ before)) / band.width

    waits = np.asarray(slack, np.float64) + band.epoch
    return np.array([one(w) for w in waits.ravel()]).reshape(waits.shape)


def _plain(found: Any) -> Any:
    return float(found) if np.ndim(found) == 0 else found
