"""How late the rows of a stream are: a histogram of late degrees that fades (QDJ 5.2, 6.1.1).

The late degree of a row is the newest time up to it, in order of arrival, minus its own time
(semantics 25). It is counted in granules, the steps of a slack: bin 0 holds the rows of degree 0,
bin d those in ((d - 1) g, d g]. A slack of d granules covers exactly bins 0 to d, so the rounding
loses nothing. Past `EXACT` granules bins widen with the degree, and rows count as late as the
latest of their bin: a histogram stays small whatever arrives, and it never underestimates a slack.

`distribution_changed` detects an abrupt change of late degrees. A fading histogram forgets slowly:
after a change the old rows outweigh the new ones for several tracks. So the test compares the
newest rows with the histogram. If both have one distribution, their common shares explain each as
well as its own shares do. The difference in log-likelihood, summed over rows, is half the G
statistic, which grows with the number of rows only if there is a difference. Per row, with equal
weights, it is the Jensen-Shannon divergence. Both must be large: the first shows that the
difference is not chance, the second that it matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowwater.control.completeness import Floats, Ticks

EXACT = 1_024
"""Degrees up to this many granules have a bin each."""
PER_OCTAVE = 32
"""The number of bins from a larger degree to twice that degree."""
LONGEST = 1 << 52
"""The largest degree, in granules."""
MATTERS = 0.06
"""The least divergence that matters, in nats per row."""
NO_ACCIDENT = 30.0
"""The least G statistic: far above what some octaves give by chance."""


_WIDER = np.arange(1, int(np.log2(LONGEST // EXACT)) * PER_OCTAVE + 1) / PER_OCTAVE
EDGES = np.concatenate((np.arange(EXACT + 1), np.ceil(EXACT * np.exp2(_WIDER)).astype(np.int64)))
"""The largest degree of each bin, in granules."""


def late_degrees(ticks: Ticks, before: int | None) -> Ticks:
    """Return how far each time is behind the newest time up to it, in order of arrival.

    `before` is the newest time of earlier rows.

    >>> late_degrees(np.array([10, 30, 20, 30, 5]), 15).tolist()
    [5, 0, 10, 0, 25]
    """
    newest = np.maximum.accumulate(ticks)
    if before is not None:
        newest = np.maximum(newest, before)
    return np.asarray(newest - ticks, np.int64)


@dataclass(frozen=True)
class LatenessHistogram:
    """The number of rows by late degree; `counts[i]` belongs to `EDGES[i]`.

    >>> late = LatenessHistogram.of([0, 0, 0, 4, 10, 11, 25], granule=10)
    >>> late.counts.tolist(), late.total
    ([3.0, 2.0, 1.0, 1.0], 7.0)
    >>> round(late.cdf(1), 3), (late + late).decayed(0.5) == late
    (0.714, True)
    """

    granule: int
    counts: Floats

    @classmethod
    def none(cls, granule: int) -> LatenessHistogram:
        """Return the histogram without rows."""
        return cls(granule, np.zeros(1))

    @classmethod
    def of(cls, degrees: npt.ArrayLike, granule: int) -> LatenessHistogram:
        """Return the histogram of degrees, given in ticks."""
        late = -(-np.asarray(degrees, np.int64) // granule)
        bins = np.searchsorted(EDGES, np.minimum(late, EDGES[-1]))
        return cls(granule, np.bincount(bins, minlength=1).astype(np.float64))

    @property
    def total(self) -> float:
        """The number of rows."""
        return float(self.counts.sum())

    @property
    def edges(self) -> Ticks:
        """The largest degree of each bin, in granules."""
        return EDGES[: len(self.counts)]

    @property
    def shares(self) -> Floats:
        """The share of rows in each bin; without rows, all are in bin 0."""
        total = self.total
        if total <= 0:
            return np.eye(1, len(self.counts), dtype=np.float64).ravel()
        return np.asarray(self.counts / total, np.float64)

    @property
    def largest(self) -> int:
        """The largest degree of a row, in granules."""
        bins = np.flatnonzero(self.counts)
        return int(self.edges[bins[-1]]) if len(bins) else 0

    @property
    def in_order(self) -> bool:
        """Whether there are rows, and all have degree 0."""
        return bool(self.counts[0]) and not self.counts[1:].any()

    def cdf(self, granules: Any) -> Any:
        """Return the share of rows with at most this late degree, in granules."""
        upto = np.concatenate(([0.0], np.cumsum(self.shares)))
        share = upto[np.searchsorted(self.edges, granules, side="right")]
        return float(share) if np.ndim(granules) == 0 else share

    def scaled(self, factor: float) -> LatenessHistogram:
        """Return the histogram with every count multiplied by a factor."""
        return LatenessHistogram(self.granule, self.counts * factor)

    def trimmed(self) -> LatenessHistogram:
        """Return the histogram without empty bins at the end."""
        bins = np.flatnonzero(self.counts)
        last = int(bins[-1]) if len(bins) else 0
        return LatenessHistogram(self.granule, self.counts[: last + 1])

    def decayed(self, decay: float) -> LatenessHistogram:
        """Return the histogram with less weight (algorithm 4); tiny counts become zero."""
        faded = np.where(self.counts * decay < 1e-9, 0.0, self.counts * decay)  # noqa: PLR2004
        return LatenessHistogram(self.granule, faded).trimmed()

    def __add__(self, other: LatenessHistogram) -> LatenessHistogram:
        if self.granule != other.granule:
            raise ValueError(f"granules of {self.granule} and {other.granule} ticks do not add up")
        a, b = sorted((self.counts, other.counts), key=len)
        return LatenessHistogram(self.granule, np.concatenate((a + b[: len(a)], b[len(a) :])))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LatenessHistogram):
            return NotImplemented
        return self.granule == other.granule and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]  # counts are an array

    def to_json(self) -> dict[str, Any]:
        """Return the histogram as JSON, without the empty bins."""
        bins = np.flatnonzero(self.counts)
        counts = self.counts[bins].tolist()
        return {"granule": self.granule, "bins": bins.tolist(), "counts": counts}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> LatenessHistogram:
        """Read what `to_json` wrote."""
        counts = np.zeros(max(written["bins"], default=0) + 1)
        counts[written["bins"]] = written["counts"]
        return cls(written["granule"], counts)


def distribution_changed(fresh: LatenessHistogram, known: LatenessHistogram) -> bool:
    """Return whether the newest rows have another distribution of late degrees than the known rows.

    >>> calm = LatenessHistogram.of([0] * 70 + [1, 2, 3] * 10, granule=1)
    >>> wild = LatenessHistogram.of([0] * 70 + [10, 20, 30] * 10, granule=1)
    >>> [distribution_changed(a, b) for a, b in [(calm, calm), (wild, calm), (calm, wild)]]
    [False, True, True]
    """
    counts = [_octaves(degrees) for degrees in (fresh, known)]
    rows = [float(c.sum()) for c in counts]
    if min(rows) <= 0:
        return False
    size = max(map(len, counts))
    shares = [np.pad(c / c.sum(), (0, size - len(c))) for c in counts]
    common = (rows[0] * shares[0] + rows[1] * shares[1]) / sum(rows)
    g = 2 * sum(n * _short(p, common) for n, p in zip(rows, shares, strict=True))
    middle = (shares[0] + shares[1]) / 2
    return g > NO_ACCIDENT and sum(_short(p, middle) for p in shares) / 2 > MATTERS


def _octaves(degrees: LatenessHistogram) -> Floats:
    """Return the counts of degrees 0, 1, 2, 3-4, 5-8 and so on."""
    bins = np.arange(len(degrees.counts))
    exact = np.where(bins > 0, np.ceil(np.log2(np.maximum(bins, 1))) + 1, 0)
    beyond = np.log2(EXACT) + 1 + np.ceil((bins - EXACT) / PER_OCTAVE)
    octave = np.where(bins <= EXACT, exact, beyond).astype(np.int64)
    return np.bincount(octave, degrees.counts).astype(np.float64)


def _short(shares: Floats, other: Floats) -> float:
    """Return how much lower the log-likelihood of a row is under other shares than its own."""
    used = shares > 0
    return float((shares[used] * np.log(shares[used] / other[used])).sum())
