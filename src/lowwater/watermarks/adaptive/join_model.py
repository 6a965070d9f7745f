"""Models of join quality: the share of pairs that a slack yields (QDJ 5.3).

All spans are in granules, the bin width of the histograms of late degrees. F(s) is the share of
rows with a late degree of at most s: these rows arrive in time if the watermark is s granules
behind the newest time. Functions accept one slack or an array of slacks. Quality never falls as the
slack grows.

The models need neither the selectivity of the join nor the arrival rates: both cancel if the match
of two rows does not depend on their lateness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from lowwater.control.completeness import Floats
from lowwater.watermarks.adaptive.lateness import LatenessHistogram

Slack: TypeAlias = Any
"""One slack, or an array of slacks."""


def arrived(degrees: LatenessHistogram, window: float, wait: Slack) -> Any:
    """Return the sum of F(wait + i) for i = 0 to window - 1: `window` times the arrived share.

    A row of late degree d is counted in clip(wait + window - d, 0, window) of these terms.
    """
    since = np.asarray(wait, np.float64)[..., None] + window - degrees.edges
    return np.clip(since, 0, window) @ degrees.shares


@dataclass(frozen=True)
class Band:
    """The band of a free-order join, lo <= other.ts - self.ts <= hi, and the streams' progress.

    `lag` is the newest time of `self` minus the newest time of `other`. `epoch` is the distance
    that a newest time advances until its watermark is in force.
    """

    lo: float
    hi: float
    lag: float = 0.0
    epoch: float = 0.0

    @property
    def width(self) -> float:
        """The number of whole granules from `lo` to `hi`, both included."""
        return self.hi - self.lo + 1


def free_losses(
    self_degrees: LatenessHistogram, other_degrees: LatenessHistogram, band: Band, slack: Slack
) -> tuple[Floats, Floats]:
    """Return two shares: pairs lost by late rows of `self`, and pairs lost by late rows of `other`.

    A pair is lost if the join evicts its first row before its second row arrives. Let d be the late
    degree of the second row, e that of the first row, and x = other.ts - self.ts. The row of
    `other` is second if e <= d + x + lag. The watermark of `other` is then
    other.ts + d - slack - epoch. It has evicted the row of `self` if it is above self.ts + hi, so
    the pair is lost if d > slack + epoch + hi - x. The row of `self` is second if e < d - x - lag.
    The pair is then lost if d > slack + epoch + x - lo.
    """
    mine = _lost(self_degrees, other_degrees, band, slack, -band.lo - band.lag)
    return mine, _lost(other_degrees, self_degrees, band, slack, band.hi + band.lag)


def smallest_slack(
    target: float, quality_of: Callable[[Any], Any], granularity: int = 1, limit: int = 1 << 20
) -> int:
    """Return the smallest slack (0 or more) with at least the target quality (QDJ, algorithm 2).

    The slack is a multiple of `granularity`, or `limit` if no smaller slack suffices. The search is
    a bisection, because quality never falls as the slack grows.

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
    most_lost: float, losses: Callable[[Any], tuple[Any, Any]], limit: int, *, steps: int = 256
) -> tuple[int, int]:
    """Return the slacks (of self, of other) with the smallest sum that lose at most `most_lost`.

    `most_lost` is a share of all pairs. The sum of the slacks bounds the state. Unequal slacks are
    cheaper if only one stream is late. In a time-order join, only the larger slack counts.
    """
    step = max(1, -(-limit // steps))
    tried = np.arange(0, limit + step, step)
    mine, other = losses(tried)
    # Losses fall with the slack: for each slack of self, find the smallest slack of other.
    need = np.searchsorted(-other, -(most_lost - mine), side="left")
    enough = need < len(tried)
    if not enough.any():
        return int(tried[-1]), int(tried[-1])
    cost = tried + tried[np.minimum(need, len(tried) - 1)]
    best = int(np.argmin(np.where(enough, cost, np.inf)))
    return int(tried[best]), int(tried[need[best]])


def _lost(
    late: LatenessHistogram, partners: LatenessHistogram, band: Band, slack: Slack, reach: float
) -> Floats:
    """Return the share of pairs that late rows lose because their partners are evicted.

    For a row of degree d, the evicted partners are at the distances y = 0 to n - 1 from the end of
    the band, with n = d - slack - epoch. The row arrives after the partners with a degree of at
    most d + reach - y. If both rows arrive together, each is the later row with probability 1/2.
    """
    mine, theirs = late.shares > 0, partners.shares > 0
    d, p = late.edges[mine], late.shares[mine]
    e, q = partners.edges[theirs], partners.shares[theirs]
    after = d[:, None] + reach - e + 0.5

    def one(wait: float) -> float:
        evicted = np.clip(d - wait, 0, band.width)[:, None]
        return float(p @ (np.clip(after, 0, evicted) @ q)) / band.width

    waits = np.asarray(slack, np.float64) + band.epoch
    return np.array([one(w) for w in waits.ravel()]).reshape(waits.shape)
