"""Early values of one aggregate, with estimates of their finals; their positions in the window.

Positions go by the share of rows that is missing. Answers that lack almost no rows, of which a
window may have many, do not show how answers err that lack some. So there are two regimes, "0" and
"1", that learn apart. Within a regime all answers teach one interval (`intervals` describes how it
grows with the missing share), and the coverage is corrected for each position separately.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from lowwater.control.completeness import Floats

Kind: TypeAlias = Literal["scaled", "counted", "level", "rising", "falling", "other"]
"""How a final F relates to `raw`, the aggregate of the share c of its rows.

scaled (sum): F ≈ raw / c. counted (count): F ≈ raw / c and F ≥ raw. level (avg, quantiles, stddev):
raw is a sample's estimate of F. rising (max, number of distinct values): F ≥ raw. falling (min):
F ≤ raw. other: unknown.
"""
SCALED = ("scaled", "counted")
KINDS = ("scaled", "counted", "level", "rising", "falling", "other")
POSITIONS = (0.015, 0.08, 0.22, 0.7)
"""The missing shares that separate positions."""
_CUTS = np.array(POSITIONS)
TRUSTED = 20
"""The number of windows from which on a learner is trusted."""
_FEWEST = 1e-3  # a lower bound of the share c, so that raw / c is finite


@dataclass(frozen=True, eq=False)
class EarlyRows:
    """Early values of one aggregate."""

    missing: Floats
    rows: Floats
    raw: Floats
    estimate: Floats

    @classmethod
    def of(cls, share: Floats, rows: Floats, raw: Floats, kind: Kind) -> EarlyRows:
        """Return early values with estimates of finals, given the share of rows that arrived."""
        share = np.clip(share, _FEWEST, 1.0)
        return cls(1 - share, np.maximum(rows, 1.0), raw, raw / share if kind in SCALED else raw)

    def take(self, chosen: np.ndarray) -> EarlyRows:
        """Return the rows at some places."""
        parts = (self.missing, self.rows, self.raw, self.estimate)
        return EarlyRows(*(part[chosen] for part in parts))

    def signed(self, sign: float) -> EarlyRows:
        """Return the rows with values negated if the sign is −1."""
        if sign > 0:
            return self
        return EarlyRows(self.missing, self.rows, -self.raw, -self.estimate)


def by_regime(missing: Floats, places: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each regime with the places of its rows."""
    lacking = missing[places] >= POSITIONS[0]
    some, every = bool(lacking.any()), bool(lacking.all())
    if not every and len(places):
        yield "0", places[~lacking] if some else places
    if some:
        yield "1", places if every else places[lacking]


def positions_of(missing: Floats) -> np.ndarray:
    """Return the positions of answers, given their missing shares."""
    return np.asarray(_CUTS.searchsorted(missing, "right"))


def position_of(share: float) -> int:
    """Return the position of an answer that has a share of its rows."""
    return bisect_right(POSITIONS, 1 - share)
