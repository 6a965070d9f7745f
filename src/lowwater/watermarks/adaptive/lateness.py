"""Histograms of late degrees, in which older rows lose weight (QDJ 5.2, 6.1.1).

The late degree of a row is the newest time among this row and all rows that arrived before it,
minus the row's own time. A histogram counts late degrees in granules of g ticks:
bin 0 holds the rows of degree 0, bin d the rows with degrees in ((d - 1) g, d g]. A slack of d
granules covers exactly bins 0 to d. Beyond `EXACT` granules bins become wider, and all rows of a
bin count with its largest degree. So a histogram stays small, and no slack is underestimated.

`distribution_changed` detects an abrupt change of late degrees. A histogram forgets slowly: after a
change, old rows outweigh new rows for several intervals. So the test compares the newest rows with
the rows of the histogram, by the log-likelihood that is lost if common shares describe both sets of
rows. The loss summed over rows is half the G statistic; a large value shows that the difference is
not chance. The loss per row, with equal weights of both sets, is the Jensen-Shannon divergence; a
large value shows that the difference matters. A change needs both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowwater.control.completeness import Floats, Ticks

EXACT = 1_024
"""Up to this many granules, every degree has its own bin."""
PER_OCTAVE = 32
"""Beyond `EXACT`, the number of bins between a degree and twice that degree."""
LONGEST = 1 << 52
"""The largest degree that a histogram can hold, in granules."""
MATTERS = 0.06
"""The smallest divergence that counts as a change, in nats per row."""
NO_ACCIDENT = 30.0
"""The smallest G statistic that counts as a change; chance alone gives far smaller values."""


_WIDER = np.arange(1, int(np.log2(LONGEST // EXACT)) * PER_OCTAVE + 1) / PER_OCTAVE
EDGES = np.concatenate((np.arange(EXACT + 1), np.ceil(EXACT * np.exp2(_WIDER)).astype(np.int64)))
"""The largest degree of each bin, in granules."""


def late_degrees(ticks: Ticks, before: int | None) -> Ticks:
    """Return the late degree of each row: the newest time up to the row minus the row's time.

    `ticks` are the times in order of arrival; `before` is the newest time of earlier rows.

    >>> late_degrees(np.array([10, 30, 20, 30, 5]), 15).tolist()
    [5, 0, 10, 0, 25]
    """
    newest = np.maximum.accumulate(ticks)
    if before is not None:
        newest = np.maximum(newest, before)
    return np.asarray(newest - ticks, np.int64)


@dataclass(frozen=True)
class LatenessHistogram:
    """A histogram of late degrees: `counts[i]` rows are in the bin that ends at `EDGES[i]`.

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
        """Return a histogram without rows."""
        return cls(granule, np.zeros(1))

    @classmethod
    def of(cls, degrees: npt.ArrayLike, granule: int) -> LatenessHistogram:
        """Return the histogram of `degrees`, which are in ticks."""
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
        """The share of rows in each bin; for an empty histogram, 1 in bin 0."""
        total = self.total
        if total <= 0:
            return np.eye(1, len(self.counts), dtype=np.float64).ravel()
        return np.asarray(self.counts / total, np.float64)

    @property
    def largest(self) -> int:
        """The largest late degree of any row, in granules."""
        bins = np.flatnonzero(self.counts)
        return int(self.edges[bins[-1]]) if len(bins) else 0

    @property
    def in_order(self) -> bool:
        """Whether the histogram has rows, and all rows have degree 0."""
        return bool(self.counts[0]) and not self.counts[1:].any()

    def cdf(self, granules: Any) -> Any:
        """Return the share of rows with a late degree of at most `granules`."""
        upto = np.concatenate(([0.0], np.cumsum(self.shares)))
        share = upto[np.searchsorted(self.edges, granules, side="right")]
        return float(share) if np.ndim(granules) == 0 else share

    def scaled(self, factor: float) -> LatenessHistogram:
        """Return the histogram with every count multiplied by `factor`."""
        return LatenessHistogram(self.granule, self.counts * factor)

    def trimmed(self) -> LatenessHistogram:
        """Return the histogram without empty bins at the end."""
        bins = np.flatnonzero(self.counts)
        last = int(bins[-1]) if len(bins) else 0
        return LatenessHistogram(self.granule, self.counts[: last + 1])

    def decayed(self, decay: float) -> LatenessHistogram:
        """Return the histogram with counts multiplied by `decay`; tiny counts become 0."""
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
        """Return the histogram that `to_json` wrote."""
        counts = np.zeros(max(written["bins"], default=0) + 1)
        counts[written["bins"]] = written["counts"]
        return cls(written["granule"], counts)


def distribution_changed(fresh: LatenessHistogram, known: LatenessHistogram) -> bool:
    """Return whether late degrees are distributed differently in `fresh` than in `known`.

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
    """Return the row counts of the degrees 0, 1, 2, 3-4, 5-8, 9-16 and so on."""
    bins = np.arange(len(degrees.counts))
    exact = np.where(bins > 0, np.ceil(np.log2(np.maximum(bins, 1))) + 1, 0)
    beyond = np.log2(EXACT) + 1 + np.ceil((bins - EXACT) / PER_OCTAVE)
    octave = np.where(bins <= EXACT, exact, beyond).astype(np.int64)
    return np.bincount(octave, degrees.counts).astype(np.float64)


def _short(shares: Floats, other: Floats) -> float:
    """Return the Kullback-Leibler divergence of `shares` from `other`, in nats per row."""
    used = shares > 0
    return float((shares[used] * np.log(shares[used] / other[used])).sum())
