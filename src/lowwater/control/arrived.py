"""Which share of the rows of an event time is expected to have arrived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ticks = npt.NDArray[np.int64]


def _no_ticks() -> Ticks:
    return np.zeros(1, np.int64)


def _no_floats() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Arrived:
    """Bins of event time: how many rows each will have had, and which share of them is in.

    Bin i is `[edges[i], edges[i + 1])`; its `weight` is the number of rows expected in the end, in
    any unit, evenly spread, its `share` says how many of them have arrived. Before the first edge
    everything has arrived, beyond the last nothing; `typical` rows per tick are expected there.

    >>> arrived = Arrived(np.array([0, 10, 20]), np.array([1.0, 0.5]), np.array([30.0, 10.0]))
    >>> arrived.completeness([0, 10], [20, 20]).tolist()
    [0.875, 0.5]
    """

    edges: Ticks = field(default_factory=_no_ticks)
    share: Floats = field(default_factory=_no_floats)
    weight: Floats = field(default_factory=_no_floats)
    typical: float = 1.0

    @classmethod
    def until(cls, time: int) -> Arrived:
        """Return a step: all before a time has arrived, and nothing after it.

        For operators over results of others, of which it is known how far they are.

        >>> Arrived.until(15).completeness([0, 10, 20], [10, 20, 30]).tolist()
        [1.0, 0.5, 0.0]
        """
        return cls(np.array([time], np.int64))

    @classmethod
    def together(cls, several: Sequence[Arrived]) -> Arrived:
        """Return what has arrived of streams that flow together: they weigh by their rows.

        >>> slow, fast = Arrived.until(10), Arrived.until(20)
        >>> Arrived.together([slow, fast]).completeness([0, 0], [10, 20]).tolist()
        [1.0, 0.75]
        """
        if len(several) == 1:
            return several[0]
        edges, cut = cls._cut(several)
        weight = sum((expected for _, expected in cut), np.zeros(len(edges) - 1))
        there = sum((arrived for arrived, _ in cut), np.zeros(len(edges) - 1))
        share = np.divide(there, weight, out=np.ones_like(weight), where=weight > 0)
        return cls(edges, share, weight, sum(a.typical for a in several))

    def where_both(self, other: Arrived) -> Arrived:
        """Return what has arrived of pairs: those of which both are there."""
        edges, cut = self._cut([self, other])
        shares = [
            np.divide(arrived, expected, out=np.ones_like(expected), where=expected > 0)
            for arrived, expected in cut
        ]
        weight = np.sqrt(cut[0][1] * cut[1][1])
        return Arrived(edges, shares[0] * shares[1], weight, (self.typical * other.typical) ** 0.5)

    def without(self, start: int, end: int, rows: float) -> Arrived:
        """Return the same with `rows` fewer of `[start, end)`: they have come, and wait.

        >>> Arrived(np.array([0, 10]), np.ones(1), np.array([40.0])).without(
        ...     0, 5, 10
        ... ).share.tolist()
        [0.5, 1.0]
        """
        inside = [min(max(t, self.edges[0]), self.edges[-1]) for t in (start, end)]
        edges = np.unique(np.concatenate([self.edges, inside]))
        arrived, weight = self.between(edges)
        held = (edges[:-1] >= start) & (edges[1:] <= end)
        there = arrived[held].sum()
        if there > 0:
            arrived = np.where(held, arrived * max(1 - rows / there, 0.0), arrived)
        share = np.divide(arrived, weight, out=np.ones_like(weight), where=weight > 0)
        return Arrived(edges, share, weight, self.typical)

    @classmethod
    def _cut(cls, several: Sequence[Arrived]) -> tuple[Ticks, list[tuple[Floats, Floats]]]:
        """Return common edges, and what has arrived and what is expected of each between them."""
        edges = np.unique(np.concatenate([a.edges for a in several]))
        return edges, [a.between(edges) for a in several]

    def between(self, edges: Ticks) -> tuple[Floats, Floats]:
        """Return how many rows have arrived, and are expected, between edges."""
        at = self._offsets(edges)
        arrived = np.diff(self._until(at, self.weight * self.share, 0))
        return arrived, np.diff(self._until(at, self.weight))

    def completeness(self, start: npt.ArrayLike, end: npt.ArrayLike) -> Floats:
        """Return which share of the rows of windows `[start, end)` is expected to have arrived.

        = Σ overlap · weight · share / Σ overlap · weight over the bins; by time alone where no
        rows are expected at all.
        """
        first, last = self._offsets(start), self._offsets(end)
        expected = self._until(last, self.weight) - self._until(first, self.weight)
        there = self._until(last, self.weight * self.share, 0) - self._until(
            first, self.weight * self.share, 0
        )
        if not np.all(expected > 0):
            bare = Arrived(self.edges, self.share, np.diff(self.edges).astype(float))
            by_time = bare.completeness(start, end) if self._weighted else np.ones_like(first)
            there = np.where(expected > 0, there, by_time)
            expected = np.where(expected > 0, expected, 1.0)
        return np.clip(there / expected, 0.0, 1.0)

    @property
    def _weighted(self) -> bool:
        """Whether bins weigh anything but their width."""
        return self.typical != 1.0 or not np.array_equal(self.weight, np.diff(self.edges))

    def _offsets(self, ticks: npt.ArrayLike) -> Floats:
        # As floats from the beginning: the first possible tick minus an edge is no int64.
        return np.asarray(ticks, np.float64) - float(self.edges[0])

    def _until(self, offset: Floats, per_bin: Floats, beyond: float = 1.0) -> Floats:
        """Return the sum over all bins up to an offset, negative to the left of the first edge."""
        knots = self._offsets(self.edges)
        sums = np.concatenate([[0.0], np.cumsum(per_bin)])
        outside = np.minimum(offset, 0.0) + beyond * np.maximum(offset - knots[-1], 0.0)
        return np.asarray(np.interp(offset, knots, sums) + self.typical * outside)

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON; figures are rounded to what they are worth."""
        return {
            "from": int(self.edges[0]),
            "widths": np.diff(self.edges).tolist(),
            "share": [round(float(s), 5) for s in self.share],
            "weight": [float(f"{w:.5g}") for w in self.weight],
            "typical": self.typical,
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Arrived:
        """Read what `to_json` wrote."""
        edges = np.cumsum([kept["from"], *kept["widths"]], dtype=np.int64)
        share, weight = (np.asarray(kept[name], np.float64) for name in ("share", "weight"))
        return cls(edges, share, weight, kept["typical"])
