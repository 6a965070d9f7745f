"""Models of join quality: the share of pairs that a slack yields (QDJ 5.3; semantics 25 and 26).

All spans are in granules of the histograms. If the watermark that acts on the rows of a stream is s
granules behind its newest time, the share F(s) of its rows arrives in time: F is the distribution
of late degrees. Functions take one slack or an array of slacks, and never fall as the slack grows.

Selectivity and rates cancel, as long as whether two rows match does not depend on how late they
are. The estimate is therefore the quality of the pairs that match.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from lowwater.control.completeness import Floats
from lowwater.watermarks.adaptive.lateness import LatenessHistogram

Slack: TypeAlias = Any
"""One slack, or an array of them."""


def arrived(degrees: LatenessHistogram, window: float, wait: Slack) -> Any:
    """Return the sum of F(wait + i) for i = 0 to window - 1: how full a window is.

    A row of degree d has arrived from age d - wait on: for clip(wait + window - d, 0, window) ages.
    """
    since = np.asarray(wait, np.float64)[..., None] + window - degrees.edges
    return np.clip(since, 0, window) @ degrees.shares


@dataclass(frozen=True)
class Band:
    """The pairs of a join that emits in any order: lo <= other.ts - self.ts <= hi.

    `lag` is how far the newest time of `self` is ahead of that of `other`; `epoch` how far the
    newest time advances, on average, before its watermark is in force.
    """

    lo: float
    hi: float
    lag: float = 0.0
    epoch: float = 0.0

    @property
    def width(self) -> float:
        """The number of differences."""
        return self.hi - self.lo + 1


def free_losses(
    self_degrees: LatenessHistogram, other_degrees: LatenessHistogram, band: Band, slack: Slack
) -> tuple[Floats, Floats]:
    """Return the shares of pairs that late rows of `self`, and of `other`, lose.

    A row of `self` is evicted when the watermark of `other` passes self.ts + hi. A row of `other`
    of degree d, x = other.ts - self.ts, arrives at the watermark other.ts + d - slack - epoch, and
    finds its partner unless d > slack + epoch + hi - x. It loses the pair only if it arrives
    second: unless the degree of the row of `self` is above d + x + lag. With sides exchanged:
    d > slack + epoch + x - lo, and the degree of `other` below d - x - lag.
    """
    mine = _lost(self_degrees, other_degrees, band, slack, -band.lo - band.lag)
    return mine, _lost(other_degrees, self_degrees, band, slack, band.hi + band.lag)


def smallest_slack(
    target: float, quality_of: Callable[[Any], Any], granularity: int = 1, limit: int = 1 << 20
) -> int:
    """Return the smallest slack of the target quality (algorithm 2, with 0 tested first).

    It is a multiple of `granularity`, and at most `limit`. Quality never falls as the slack grows,
    so bisection finds it.

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
    """Return the slacks of both sides with the least sum whose losses are at most `most_lost`.

    The sum bounds the state. Unequal slacks pay if only one stream is late. In order of time only
    the larger slack counts, so equal ones are best.
    """
    step = max(1, -(-limit // steps))
    tried = np.arange(0, limit + step, step)
    mine, other = losses(tried)
    # Losses fall with the slack: find the first slack of other that leaves room for self's loss.
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
    """Return the share of pairs that late rows lose.

    A row of degree d finds those partners evicted that are less than n = d - slack - epoch from the
    end of the band, at y = 0 to n - 1. It arrives after those whose degree is at most
    d + reach - y; of two rows that arrive together, each is the later one half of the time.
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
