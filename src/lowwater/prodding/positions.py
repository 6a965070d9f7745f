"""Positions in a window: what is learned of early answers is learned for each by itself.

Answers that lacked little, of which a window may have many, say nothing about those that lacked
most of their rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from lowwater.control.arrived import Floats

POSITIONS = (0.015, 0.08, 0.22, 0.7)
"""Where positions are cut, by the share of rows that is missing."""
TRUSTED = 20
"""How many windows have to be known of a position for it to be believed."""


def by_position(missing: Floats, places: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Give the places of rows by how much of their windows is missing."""
    position = np.digitize(missing[places], POSITIONS)
    for p in np.unique(position):
        yield str(p), places[position == p]


def position_of(share: float) -> int:
    """Return the position of an answer that rests on a share of its rows."""
    return bisect_right(POSITIONS, 1 - share)


def nearest(memory: Mapping[str, Any], position: str) -> Mapping[str, Any] | None:
    """Return what is known of a position; before its first window, what the nearest one knows.

    >>> nearest({"1": {"seen": 300}}, "3")
    {'seen': 20}
    """
    if position in memory or not memory:
        return memory.get(position)
    near = min(memory, key=lambda p: (abs(int(p) - int(position)), p))
    return {**memory[near], "seen": min(memory[near]["seen"], TRUSTED)}
