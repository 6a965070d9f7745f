"""Quality models of windows and joins: the expected share of results that a slack yields.

A rule chooses one slack by the model's estimate, and the model divides that slack among the ports
of the operator. All spans are in granules.

A window of R granules closes when the newest time is `slack` past the window's end. A row x
granules before the end is missing if its late degree is above slack + x. So the window misses the
share m = 1 - (F(slack) + ... + F(slack + R - 1)) / R of its rows, with F(s) = P(degree <= s). The
model assumes that rows are late independently of each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from lowwater.watermarks.adaptive.join_model import Band, arrived, free_losses, smallest_slacks
from lowwater.watermarks.adaptive.lateness import LatenessHistogram

MODELLED = 128
"""The largest number of bins of late rows in the model of a join; further bins are merged."""
SAMPLED = 256
"""The largest number of time differences that the model of a time-order join evaluates."""
STEPS = 64
"""The number of slacks per stream that the search for unequal slacks tries."""
TYPICAL = 3
"""The number of lags that represent all remembered lags."""


@dataclass(frozen=True)
class Port:
    """The late degrees and the progress of the stream at a port.

    `epoch` is the distance that the newest time advances until its watermark acts, and `ahead` is
    the distance ahead of the slowest stream.
    """

    degrees: LatenessHistogram
    epoch: float = 0.0
    ahead: float = 0.0


def with_lag(
    ports: Sequence[Port], degrees: Sequence[LatenessHistogram], lag: float | None
) -> list[Port]:
    """Return `ports` with new late degrees, and with the first port `lag` ahead of the second."""
    ahead = [0.0 for _ in ports]
    if lag is not None:
        ahead[:2] = [max(lag, 0.0), max(-lag, 0.0)]
    parts = zip(ports, degrees, ahead, strict=True)
    return [replace(p, degrees=d, ahead=a) for p, d, a in parts]


def typical(lags: Sequence[float]) -> Sequence[float | None]:
    """Return a few quantiles that represent `lags`; [None] if `lags` is empty."""
    if len(lags) <= TYPICAL:
        return list(lags) or [None]
    return [float(q) for q in np.unique(np.quantile(lags, (np.arange(TYPICAL) + 0.5) / TYPICAL))]


class QualityModel(ABC):
    """A model that estimates an operator's quality for slacks; `ratio` defines quality in words."""

    ratio: str

    @abstractmethod
    def estimate(self, ports: Sequence[Port], slacks: Sequence[float]) -> float:
        """Return the estimated quality; `slacks` has the slack of each port, in granules."""

    def parted(self, ports: Sequence[Port], slack: float) -> Sequence[float]:
        """Return the slack of each port, computed from the operator's slack `slack`."""
        return [slack for _ in ports]

    def cheapest(self, ports: Sequence[Port], slack: int) -> Sequence[int]:
        """Return one slack per port; cost and losses are at most those of `slack` at every port."""
        return [int(s) for s in self.parted(ports, slack)]


@dataclass(frozen=True)
class WindowQuality(QualityModel):
    """The model of windows by rows: the share of rows that arrive before their windows close."""

    ratio = "rows in windows over all that belong there"
    range: float

    def estimate(self, ports: Sequence[Port], slacks: Sequence[float]) -> float:  # noqa: D102
        (port,), (slack,) = ports, slacks
        return 1.0 - missing(port.degrees, self.range, slack + port.epoch)


@dataclass(frozen=True)
class FreeJoinQuality(QualityModel):
    """The model of a free-order join: it loses pairs if it evicts rows too early."""

    ratio = "pairs over all pairs; lost is one whose later row finds the other evicted"
    band: tuple[float, float]

    def estimate(self, ports: Sequence[Port], slacks: Sequence[float]) -> float:  # noqa: D102
        mine, other = self._lost(ports, slacks[0])
        if slacks[0] != slacks[1]:
            _, other = self._lost(ports, slacks[1])
        return max(0.0, 1.0 - float(mine) - float(other))

    def cheapest(self, ports: Sequence[Port], slack: int) -> Sequence[int]:
        """Return the slacks with the smallest sum; none is above its stream's largest degree."""
        latest = [p.degrees.largest for p in ports]
        if not slack or not all(latest):
            return [min(slack, most) for most in latest]
        most_lost = 1.0 - self.estimate(ports, [slack, slack]) + 1e-12
        unequal = smallest_slacks(most_lost, partial(self._lost, ports), max(latest), steps=STEPS)
        both = unequal if sum(unequal) < 2 * slack else (slack, slack)
        return [min(k, most) for k, most in zip(both, latest, strict=True)]

    def _lost(self, ports: Sequence[Port], slack: Any) -> tuple[Any, Any]:
        """Return the share of pairs that late rows lose, for each side; `slack` may be an array."""
        mine, other = (coarse(p.degrees) for p in ports)
        lag, epoch = ports[0].ahead - ports[1].ahead, min(p.epoch for p in ports)
        return free_losses(mine, other, Band(*self.band, lag=lag, epoch=epoch), slack)


@dataclass(frozen=True)
class OrderedJoinQuality(QualityModel):
    """The model of a time-order join (QDJ 5.12): a row is late once its pair's time has passed.

    `time` is the time that a pair gets: self, other, max or min. The watermark of the results is
    slack + `behind` granules behind the slowest stream; rows of a faster stream wait in the sync
    buffer. So equal slacks suffice (QDJ 5.4, case 3).
    """

    ratio = "pairs over all pairs; lost is one of which a row comes when its time is passed"
    band: tuple[float, float]
    time: str = "max"
    behind: float = 0.0

    def estimate(self, ports: Sequence[Port], slacks: Sequence[float]) -> float:  # noqa: D102
        lo, hi = self.band
        steps = int(min(np.ceil(hi - lo + 1), SAMPLED))
        apart = lo - 0.5 + (np.arange(steps) + 0.5) * (hi - lo + 1) / steps
        after = {"self": 0.0 * apart, "other": apart}
        after |= {"max": np.maximum(apart, 0.0), "min": np.minimum(apart, 0.0)}
        mine, other = ports
        last = max(slack - p.ahead for p, slack in zip(ports, slacks, strict=True))
        wait = last + min(p.epoch for p in ports) + self.behind
        in_time = mine.degrees.cdf(wait + mine.ahead + after[self.time])
        in_time = in_time * other.degrees.cdf(wait + other.ahead + after[self.time] - apart)
        return float(np.mean(in_time))


@dataclass(frozen=True)
class SortedJoinQuality(QualityModel):
    """The model of a join of sorted streams: rows must arrive before their stream's watermark.

    Results wait for the slowest stream. So the slack of a faster stream can be larger, by
    the distance that the stream is ahead, at no cost.
    """

    ratio = "pairs over all pairs; lost is one of which a row comes after its own watermark"

    def estimate(self, ports: Sequence[Port], slacks: Sequence[float]) -> float:  # noqa: D102
        pairs = zip(ports, slacks, strict=True)
        return float(np.prod([p.degrees.cdf(slack + p.epoch) for p, slack in pairs]))

    def parted(self, ports: Sequence[Port], slack: float) -> Sequence[float]:  # noqa: D102
        return [slack + p.ahead for p in ports]


def coarse(degrees: LatenessHistogram) -> LatenessHistogram:
    """Return `degrees` merged into at most `MODELLED` bins of late rows; degrees are rounded up.

    >>> fine = LatenessHistogram.of(np.arange(1_000), granule=1)
    >>> [int(np.count_nonzero(d.counts)) for d in (fine, coarse(fine))]
    [1000, 114]
    >>> coarse(fine).largest, coarse(fine).total
    (999, 1000.0)
    """
    bins = np.flatnonzero(degrees.counts[1:]) + 1
    if len(bins) <= MODELLED:
        return degrees
    last = np.append(bins[len(bins) % MODELLED :: -(-len(bins) // MODELLED)], bins[-1])
    counts = np.zeros_like(degrees.counts)
    np.add.at(counts, last[np.searchsorted(last, bins)], degrees.counts[bins])
    counts[0] = degrees.counts[0]
    return LatenessHistogram(degrees.granule, counts)


def missing(degrees: LatenessHistogram, range: float, slack: float) -> float:
    """Return the share of a window's rows that arrive after the window has closed.

    >>> late = LatenessHistogram.of([0, 0, 0, 4], granule=1)
    >>> [round(missing(late, 10, k), 6) for k in (0, 2, 4)]
    [0.1, 0.05, 0.0]
    """
    return max(0.0, 1.0 - float(arrived(degrees, range, slack)) / range)
