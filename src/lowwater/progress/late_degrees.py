"""How late the rows of a stream are: a histogram of late degrees that fades (QDJ 5.2, 6.1.1).

The late degree of a row is the newest time before or with it, in order of arrival, minus its own
time (semantics 25). It is counted in granules, the steps in which a slack is chosen: bin 0 holds
the rows of degree 0, bin d those in ((d - 1) g, d g]. A slack of d granules waits long enough for
bins 0 to d and for no other, so nothing is lost by the rounding. Past `EXACT` granules bins widen
with the degree, and rows count as late as the latest of their bin: whatever arrives, a histogram
stays small, and what it says errs on the side of waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Counts: TypeAlias = npt.NDArray[np.float64]
Ticks: TypeAlias = npt.NDArray[np.int64]

EXACT = 1_024
"""Up to how many granules every granule has a bin of its own."""
PER_OCTAVE = 32
"""How many bins there are from a degree beyond to twice that degree."""
LONGEST = 1 << 52
"""The most granules that are told apart."""


def _edges() -> Ticks:
    octaves = int(np.log2(LONGEST // EXACT))
    steps = np.arange(1, octaves * PER_OCTAVE + 1) / PER_OCTAVE
    beyond = np.ceil(EXACT * np.exp2(steps)).astype(np.int64)
    return np.concatenate((np.arange(EXACT + 1, dtype=np.int64), beyond))


EDGES = _edges()
"""The largest degree of each bin, in granules."""


def late_degrees(ticks: Ticks, before: int | None) -> Ticks:
    """Return how far each time is behind the newest one so far, in order of arrival.

    `before` is the newest time of all that came earlier.

    >>> late_degrees(np.array([10, 30, 20, 30, 5]), 15).tolist()
    [5, 0, 10, 0, 25]
    """
    newest = np.maximum.accumulate(ticks)
    if before is not None:
        newest = np.maximum(newest, before)
    return np.asarray(newest - ticks, np.int64)


@dataclass(frozen=True)
class LateDegrees:
    """How many rows were late by how much; `counts[i]` belongs to `EDGES[i]`.

    >>> seen = LateDegrees.of([0, 0, 0, 4, 10, 11, 25], granule=10)
    >>> seen.counts.tolist(), seen.total
    ([3.0, 2.0, 1.0, 1.0], 7.0)
    >>> round(seen.cdf(1), 3), (seen + seen).decayed(0.5) == seen
    (0.714, True)
    """

    granule: int
    counts: Counts

    @classmethod
    def none(cls, granule: int) -> LateDegrees:
        """Return the histogram of no row."""
        return cls(granule, np.zeros(1))

    @classmethod
    def of(cls, degrees: npt.ArrayLike, granule: int) -> LateDegrees:
        """Count degrees that are given in ticks."""
        late = -(-np.asarray(degrees, np.int64) // granule)
        bins = np.searchsorted(EDGES, np.minimum(late, EDGES[-1]))
        return cls(granule, np.bincount(bins, minlength=1).astype(np.float64))

    @property
    def total(self) -> float:
        """How many rows there were."""
        return float(self.counts.sum())

    @property
    def edges(self) -> Ticks:
        """The largest degree of each bin, in granules."""
        return EDGES[: len(self.counts)]

    @property
    def shares(self) -> Counts:
        """The share of rows in each bin; of no row nothing is late."""
        total = self.total
        if total <= 0:
            return np.eye(1, len(self.counts), dtype=np.float64).ravel()
        return np.asarray(self.counts / total, np.float64)

    @property
    def largest(self) -> int:
        """The largest degree there is, in granules."""
        there = np.flatnonzero(self.counts)
        return int(self.edges[there[-1]]) if len(there) else 0

    def cdf(self, granules: Any) -> Any:
        """Return the share of rows that are late by at most this many granules."""
        upto = np.concatenate(([0.0], np.cumsum(self.shares)))
        found = upto[np.searchsorted(self.edges, granules, side="right")]
        return float(found) if np.ndim(granules) == 0 else found

    def add(self, counts: Any) -> LateDegrees:
        """Return this with the counts of more rows, bin by bin."""
        return self + LateDegrees(self.granule, np.asarray(counts, np.float64))

    def decayed(self, decay: float) -> LateDegrees:
        """Return this with less weight (algorithm 4); what has all but vanished is dropped."""
        kept = np.where(self.counts * decay < 1e-9, 0.0, self.counts * decay)  # noqa: PLR2004
        last = np.flatnonzero(kept)
        return LateDegrees(self.granule, kept[: last[-1] + 1] if len(last) else np.zeros(1))

    def __add__(self, other: LateDegrees) -> LateDegrees:
        if self.granule != other.granule:
            raise ValueError(f"granules of {self.granule} and {other.granule} ticks do not add up")
        a, b = sorted((self.counts, other.counts), key=len)
        return LateDegrees(self.granule, np.concatenate((a + b[: len(a)], b[len(a) :])))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LateDegrees):
            return NotImplemented
        return self.granule == other.granule and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]  # counts are an array

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads; bins without rows are left out."""
        there = np.flatnonzero(self.counts)
        return {
            "granule": self.granule,
            "bins": there.tolist(),
            "counts": self.counts[there].tolist(),
        }

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> LateDegrees:
        """Read it back."""
        counts = np.zeros(max(known["bins"], default=0) + 1)
        counts[known["bins"]] = known["counts"]
        return cls(known["granule"], counts)
