"""The kinds of aggregates, and the positions of answers.

The *position* of an answer (early result) is the class of its missing share, by `POSITIONS`. The
sample of a window holds one answer for each position.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["scaled", "counted", "distinct", "level", "rising", "falling", "other"]
"""The relation of a final F to `raw`, the aggregate of the arrived rows (a share c of all rows).

scaled (sum): F ≈ raw / c. counted (count): F ≈ raw / c and F ≥ raw. distinct (number of distinct
values): raw ≤ F ≤ raw / c, more or less. level (avg, quantiles, stddev): F ≈ raw. rising (max):
F ≥ raw. falling (min): F ≤ raw. other: unknown.
"""
SCALED = ("scaled", "counted")
"""The kinds that are completed by the share of arrived rows before anything is learned."""
WHOLE = ("counted", "distinct")
"""The kinds whose values are whole numbers."""
KINDS = ("scaled", "counted", "distinct", "level", "rising", "falling", "other")
POSITIONS = (0.015, 0.08, 0.22, 0.7)
"""The missing shares that are the borders between positions."""


def position_of(share: float) -> int:
    """Return the position of an answer; `share` is the share of rows that had arrived."""
    return bisect_right(POSITIONS, 1 - share)
