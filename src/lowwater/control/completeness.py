"""Completeness: for each event time, the expected share of its rows that has arrived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ticks = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Completeness:
    """The expected number of rows, and the arrived share of them, for bins of event time.

    Bin i is `[edges[i], edges[i + 1])`. `weight[i]` is proportional to the expected number of rows
    in the bin, and `share[i]` is the share of these rows that has arrived. All rows before the bins
    have arrived, and no rows after the bins. `typical` is the weight per tick outside the bins.

    >>> arrived = Completeness(np.array([0, 10, 20]), np.array([1.0, 0.5]), np.array([30.0, 10.0]))
    >>> arrived.completeness([0, 10], [20, 20]).tolist()
    [0.875, 0.5]
    """

    edges: Ticks = field(default_factory=lambda: np.zeros(1, np.int64))
    share: Floats = field(default_factory=lambda: np.zeros(0))
    weight: Floats = field(default_factory=lambda: np.zeros(0))
    typical: float = 1.0

    @classmethod
    def until(cls, time: int) -> Completeness:
        """Return the completeness of a stream of which exactly the rows before `time` have arrived.

        Operators that read the results of other operators use this completeness.

        >>> Completeness.until(15).completeness([0, 10, 20], [10, 20, 30]).tolist()
        [1.0, 0.5, 0.0]
        """
        return cls(np.array([time], np.int64))

    @classmethod
    def together(cls, several: Sequence[Completeness]) -> Completeness:
        """Return the completeness of a union of streams, weighted by the rows of each stream.

        >>> slow, fast = Completeness.until(10), Completeness.until(20)
        >>> Completeness.together([slow, fast]).completeness([0, 0], [10, 20]).tolist()
        [1.0, 0.75]
        """
        if len(several) == 1:
            return several[0]
        edges, cut = cls._cut(several)
        arrived, weight = np.sum(cut, axis=0)
        return cls(edges, _share(arrived, weight), weight, sum(a.typical for a in several))

    def where_both(self, other: Completeness) -> Completeness:
        """Return the completeness of the pairs of a join: both rows must have arrived."""
        edges, cut = self._cut([self, other])
        share = _share(*cut[0]) * _share(*cut[1])
        weight = np.sqrt(cut[0][1] * cut[1][1])
        return Completeness(edges, share, weight, (self.typical * other.typical) ** 0.5)

    def without(self, start: int, end: int, rows: float) -> Completeness:
        """Return the completeness without `rows` held rows, which have times in `[start, end)`.

        >>> all_rows = Completeness(np.array([0, 10]), np.ones(1), np.array([40.0]))
        >>> all_rows.without(0, 5, 10).share.tolist()
        [0.5, 1.0]
        """
        inside = [min(max(t, self.edges[0]), self.edges[-1]) for t in (start, end)]
        edges = np.unique(np.concatenate([self.edges, inside]))
        arrived, weight = self.between(edges)
        held = (edges[:-1] >= start) & (edges[1:] <= end)
        total = arrived[held].sum()
        if total > 0:
            arrived = np.where(held, arrived * max(1 - rows / total, 0.0), arrived)
        return Completeness(edges, _share(arrived, weight), weight, self.typical)

    @classmethod
    def _cut(cls, several: Sequence[Completeness]) -> tuple[Ticks, list[tuple[Floats, Floats]]]:
        """Return the merged edges, and each item's (arrived, expected) rows between these edges."""
        edges = np.unique(np.concatenate([a.edges for a in several]))
        return edges, [a.between(edges) for a in several]

    def between(self, edges: Ticks) -> tuple[Floats, Floats]:
        """Return (arrived, expected), the numbers of rows between neighbouring `edges`."""
        at = self._offsets(edges)
        arrived = np.diff(self._until(at, self.weight * self.share, 0))
        return arrived, np.diff(self._until(at, self.weight))

    def completeness(self, start: npt.ArrayLike, end: npt.ArrayLike) -> Floats:
        """Return the expected share of rows that have arrived, for each window `[start, end)`.

        The result is Σ overlap · weight · share / Σ overlap · weight over the bins. If a window has
        no expected rows, all its ticks have the same weight.
        """
        first, last = self._offsets(start), self._offsets(end)
        expected = self._until(last, self.weight) - self._until(first, self.weight)
        rows = self.weight * self.share
        arrived = self._until(last, rows, 0) - self._until(first, rows, 0)
        if not np.all(expected > 0):
            widths, by_time = np.diff(self.edges).astype(float), np.ones_like(first)
            if self.typical != 1.0 or not np.array_equal(self.weight, widths):
                by_time = Completeness(self.edges, self.share, widths).completeness(start, end)
            arrived = np.where(expected > 0, arrived, by_time)
            expected = np.where(expected > 0, expected, 1.0)
        return np.clip(arrived / expected, 0.0, 1.0)

    def _offsets(self, ticks: npt.ArrayLike) -> Floats:
        # Floats, because the first tick minus an edge may exceed int64.
        return np.asarray(ticks, np.float64) - float(self.edges[0])

    def _until(self, offset: Floats, per_bin: Floats, beyond: float = 1.0) -> Floats:
        """Return the sum of `per_bin` from the first edge to `offset`, negative before the edge."""
        knots = self._offsets(self.edges)
        sums = np.concatenate([[0.0], np.cumsum(per_bin)])
        outside = np.minimum(offset, 0.0) + beyond * np.maximum(offset - knots[-1], 0.0)
        return np.asarray(np.interp(offset, knots, sums) + self.typical * outside)

    def to_json(self) -> dict[str, Any]:
        """Return the completeness as JSON, with rounded numbers."""
        return {
            "from": int(self.edges[0]),
            "widths": np.diff(self.edges).tolist(),
            "share": [round(float(s), 5) for s in self.share],
            "weight": [float(f"{w:.5g}") for w in self.weight],
            "typical": self.typical,
        }

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Completeness:
        """Return the completeness that `to_json` wrote."""
        edges = np.cumsum([written["from"], *written["widths"]], dtype=np.int64)
        share, weight = (np.asarray(written[name], np.float64) for name in ("share", "weight"))
        return cls(edges, share, weight, written["typical"])


def _share(arrived: Floats, expected: Floats) -> Floats:
    """Return the share of arrived rows; 1 for bins without expected rows."""
    return np.divide(arrived, expected, out=np.ones_like(expected), where=expected > 0)
