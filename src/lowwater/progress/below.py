"""What stands below a stream whose slack is chosen, and the quality that a slack gives there.

Each takes what is known at its ports, in granules, and says which share of its results comes out:
the model. A rule chooses one slack by it; how that is parted among the ports is said here, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowwater.progress.late_degrees import LateDegrees
from lowwater.progress.model import Band, free_losses, smallest_slacks
from lowwater.progress.window_errors import Sensitivity, aggregate_quality, missing

MODELLED = 128
"""With how many bins of late rows a join is modelled; finer ones are put together."""
SAMPLED = 256
"""With how many distances between the rows of a pair a join in order of time is modelled."""
STEPS = 64
"""In how many steps slacks of two streams are tried against each other."""
TYPICAL = 3
"""How many lags stand for all that are remembered."""


@dataclass(frozen=True)
class Port:
    """What is known of the stream at a port, in granules.

    `epoch` is how far its newest time runs on before a mark that follows from it acts; `ahead` how
    far it is ahead of the stream that is furthest behind; `rows` how many a result is made of.
    """

    degrees: LateDegrees
    epoch: float = 0.0
    ahead: float = 0.0
    rows: float = 1.0


def with_lag(
    ports: Sequence[Port], degrees: Sequence[LateDegrees], lag: float | None
) -> list[Port]:
    """Return ports with other late degrees, the first so far ahead of the second."""
    ahead = [0.0 for _ in ports]
    if lag is not None:
        ahead[:2] = [max(lag, 0.0), max(-lag, 0.0)]
    told = zip(ports, degrees, ahead, strict=True)
    return [replace(p, degrees=d, ahead=a) for p, d, a in told]


def typical(lags: Sequence[float]) -> Sequence[float | None]:
    """Return a few lags that stand for many."""
    if not len(lags):
        return [None]
    if len(lags) <= TYPICAL:
        return list(lags)
    return [float(q) for q in np.unique(np.quantile(lags, (np.arange(TYPICAL) + 0.5) / TYPICAL))]


class Below(ABC):
    """An operator whose results a slack decides over."""

    @abstractmethod
    def estimate(self, ports: Sequence[Port], slacks: Sequence[float]) -> float:
        """Return the quality that slacks give."""

    def parted(self, ports: Sequence[Port], slack: float) -> Sequence[float]:
        """Return the slacks of the ports that one slack for all stands for."""
        return [slack for _ in ports]

    def cheapest(self, ports: Sequence[Port], slack: int) -> Sequence[int]:
        """Return slacks that give no less than one slack for all, and cost no more."""
        return [int(s) for s in self.parted(ports, slack)]

    @abstractmethod
    def say(self) -> str:
        """Say what is produced over what should be."""


@dataclass(frozen=True)
class Windows(Below):
    """Rows in windows of a range: a row x before the end of one is in it unless it is later."""

    range: float

    def estimate(self, ports: Sequence[Port], slacks: Sequence[float]) -> float:  # noqa: D102
        (port,), (slack,) = ports, slacks
        return 1.0 - missing(port.degrees, self.range, slack + port.epoch)

    def say(self) -> str:  # noqa: D102
        return "rows in windows over all that belong there"


@dataclass(frozen=True)
class Errors(Below):
    """Windows whose finals are within a relative error, for the most sensitive aggregate."""

    range: float
    error: float
    aggregates: tuple[Sensitivity, ...]

    def estimate(self, ports: Sequence[Port], slacks: Sequence[float]) -> float:  # noqa: D102
        (port,), (slack,) = ports, slacks
        wait = slack + port.epoch
        known = (replace(a, rows=port.rows) for a in self.aggregates)
        return min(
            aggregate_quality(port.degrees, self.range, wait, self.error, one) for one in known
        )

    def say(self) -> str:  # noqa: D102
        kinds = ", ".join(dict.fromkeys(a.kind for a in self.aggregates))
        return f"windows with an error of at most {self.error:g} over all windows ({kinds})"


@dataclass(frozen=True)
class FreePairs(Below):
    """Pairs of a join: one is lost only if its later row finds the other let go (semantics 26)."""

    band: tuple[float, float]

    def estimate(self, ports: Sequence[Port], slacks: Sequence[float]) -> float:  # noqa: D102
        if slacks[0] == slacks[1]:
            lost = self._lost(ports, slacks[0])
        else:
            lost = self._lost(ports, slacks[0])[0], self._lost(ports, slacks[1])[1]
        return max(0.0, 1.0 - float(lost[0]) - float(lost[1]))

    def cheapest(self, ports: Sequence[Port], slack: int) -> Sequence[int]:
        """Return the slacks of least sum; more than its latest row no stream needs."""
        latest = [p.degrees.largest for p in ports]
        if not slack or not all(latest):
            return [min(slack, most) for most in latest]
        found = smallest_slacks(
            1.0 - self.estimate(ports, [slack, slack]) + 1e-12,
            lambda k: self._lost(ports, k)[0],
            lambda k: self._lost(ports, k)[1],
            max(latest),
            steps=STEPS,
        )
        both = found if sum(found) < 2 * slack else (slack, slack)
        return [min(k, most) for k, most in zip(both, latest, strict=True)]

    def _lost(self, ports: Sequence[Port], slack: Any) -> tuple[Any, Any]:
        """Return which share of pairs late rows of each side lose, with one slack or several."""
        mine, other = (coarse(p.degrees) for p in ports)
        lag, epoch = ports[0].ahead - ports[1].ahead, min(p.epoch for p in ports)
        return free_losses(mine, other, Band(*self.band, lag=lag, epoch=epoch), slack)

    def say(self) -> str:  # noqa: D102
        return "pairs over all pairs; lost is one whose later row finds the other let go"


@dataclass(frozen=True)
class TimedPairs(Below):
    """Pairs that leave in order of time (5.12): neither row may come when their time is passed.

    A pair has the time that `time` names; the mark of the results is `behind` the window end, and
    that is the slack behind the stream that is furthest behind: one that is ahead waits for it,
    which is the sync buffer. So slacks need not differ (QDJ 5.4, case 3).
    """

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
        there = mine.degrees.cdf(wait + mine.ahead + after[self.time])
        there = there * other.degrees.cdf(wait + other.ahead + after[self.time] - apart)
        return float(np.mean(there))

    def say(self) -> str:  # noqa: D102
        return "pairs over all pairs; lost is one of which a row comes when its time is passed"


@dataclass(frozen=True)
class OrderedPairs(Below):
    """Pairs of streams put in order before: rows must come before the marks of their streams.

    Results wait for the stream that is furthest behind, so one that is ahead has slack for free: as
    much as it is ahead.
    """

    def estimate(self, ports: Sequence[Port], slacks: Sequence[float]) -> float:  # noqa: D102
        waits = [slack + p.epoch for p, slack in zip(ports, slacks, strict=True)]
        return float(np.prod([p.degrees.cdf(w) for p, w in zip(ports, waits, strict=True)]))

    def parted(self, ports: Sequence[Port], slack: float) -> Sequence[float]:  # noqa: D102
        return [slack + p.ahead for p in ports]

    def say(self) -> str:  # noqa: D102
        return "pairs over all pairs; lost is one of which a row comes after its own mark"


def coarse(degrees: LateDegrees) -> LateDegrees:
    """Return a histogram of no more than `MODELLED` bins of late rows, none less late.

    >>> fine = LateDegrees.of(np.arange(1_000), granule=1)
    >>> [int(np.count_nonzero(d.counts)) for d in (fine, coarse(fine))]
    [1000, 114]
    >>> coarse(fine).largest, coarse(fine).total
    (999, 1000.0)
    """
    there = np.flatnonzero(degrees.counts[1:]) + 1
    if len(there) <= MODELLED:
        return degrees
    last = np.append(there[len(there) % MODELLED :: -(-len(there) // MODELLED)], there[-1])
    counts = np.zeros_like(degrees.counts)
    np.add.at(counts, last[np.searchsorted(last, there)], degrees.counts[there])
    counts[0] = degrees.counts[0]
    return LateDegrees(degrees.granule, counts)
