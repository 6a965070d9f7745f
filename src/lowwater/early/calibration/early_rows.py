"""The early values of one aggregate, the estimates of the finals, and the positions of answers.

The *position* of an answer (early result) is the class of its missing share, by `POSITIONS`. The
errors of answers that lack almost no rows say little about the errors of other answers. So there
are two *regimes* that are learned separately: "0" for almost no missing rows, "1" for more. All
answers of a regime update the same intervals, which grow with the missing share (`intervals`).
Only the correction of the coverage is learned for each position separately.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from lowwater.control.completeness import Floats

Kind: TypeAlias = Literal["scaled", "counted", "level", "rising", "falling", "other"]
"""The relation of a final F to `raw`, the aggregate of the arrived rows (a share c of all rows).

scaled (sum): F ≈ raw / c. counted (count): F ≈ raw / c and F ≥ raw. level (avg, quantiles, stddev):
F ≈ raw. rising (max, number of distinct values): F ≥ raw. falling (min): F ≤ raw. other: unknown.
"""
SCALED = ("scaled", "counted")
KINDS = ("scaled", "counted", "level", "rising", "falling", "other")
POSITIONS = (0.015, 0.08, 0.22, 0.7)
"""The missing shares that are the borders between positions."""
_CUTS = np.array(POSITIONS)
TRUSTED = 20
"""The number of windows after which a learner is trusted."""
_FEWEST = 1e-3  # a lower bound of the share c, so that raw / c is finite


@dataclass(frozen=True, eq=False)
class EarlyRows:
    """Early values of one aggregate: missing share, row count, raw value and estimate."""

    missing: Floats
    rows: Floats
    raw: Floats
    estimate: Floats

    @classmethod
    def of(cls, share: Floats, rows: Floats, raw: Floats, kind: Kind) -> EarlyRows:
        """Return early values with estimates of finals; `share` is the share of arrived rows."""
        share = np.clip(share, _FEWEST, 1.0)
        return cls(1 - share, np.maximum(rows, 1.0), raw, raw / share if kind in SCALED else raw)

    def take(self, chosen: np.ndarray) -> EarlyRows:
        """Return the rows at the indexes `chosen`."""
        parts = (self.missing, self.rows, self.raw, self.estimate)
        return EarlyRows(*(part[chosen] for part in parts))

    def signed(self, sign: float) -> EarlyRows:
        """Return the rows, with negated values if `sign` is −1."""
        if sign > 0:
            return self
        return EarlyRows(self.missing, self.rows, -self.raw, -self.estimate)


def by_regime(missing: Floats, places: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield (regime, indexes of its rows) for the rows at the indexes `places`."""
    lacking = missing[places] >= POSITIONS[0]
    some, every = bool(lacking.any()), bool(lacking.all())
    if not every and len(places):
        yield "0", places[~lacking] if some else places
    if some:
        yield "1", places if every else places[lacking]


def positions_of(missing: Floats) -> np.ndarray:
    """Return the positions of answers; `missing` has the missing share of every answer."""
    return np.asarray(_CUTS.searchsorted(missing, "right"))


def position_of(share: float) -> int:
    """Return the position of an answer; `share` is the share of rows that had arrived."""
    return bisect_right(POSITIONS, 1 - share)
