"""Positions in a window, by how much of it is missing, and two regimes of them.

Answers that lacked next to nothing, of which a window may have many, say nothing about those that
lacked some of their rows. Of the latter, all teach the intervals of all (`intervals` says how these
grow with what is missing), and how often they cover is corrected for each position by itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from lowwater.control.arrived import Floats

POSITIONS = (0.015, 0.08, 0.22, 0.7)
"""Where positions are cut, by the share of rows that is missing."""
_CUTS = np.array(POSITIONS)
TRUSTED = 20
"""How many windows have to be known for what they teach to be believed."""


def by_regime(missing: Floats, places: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Give the places of rows that lack next to nothing, and of those that lack more."""
    lacking = missing[places] >= POSITIONS[0]
    some, every = bool(lacking.any()), bool(lacking.all())
    if not every and len(places):
        yield "0", places[~lacking] if some else places
    if some:
        yield "1", places if every else places[lacking]


def positions_of(missing: Floats) -> np.ndarray:
    """Return the positions of answers of which a share is missing."""
    return np.asarray(_CUTS.searchsorted(missing, "right"))


def position_of(share: float) -> int:
    """Return the position of an answer that rests on a share of its rows."""
    return bisect_right(POSITIONS, 1 - share)


def nearest(memory: Mapping[str, Any], regime: str) -> Mapping[str, Any] | None:
    """Return what is known of a regime; before its first window, what the other one knows.

    >>> nearest({"1": {"seen": 300, "first": 300}}, "0")
    {'seen': 20, 'first': 0}
    """
    if regime in memory or not memory:
        return memory.get(regime)
    other = next(iter(memory.values()))
    return {**other, "seen": min(other["seen"], TRUSTED), "first": 0}
