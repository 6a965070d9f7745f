"""Records about held rows: the intervals whose rows are held, and the releases (PROD 6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class HeldInterval:
    """An interval `[start, end)` of time whose rows are held before they reach an operator.

    Numbers of held intervals begin with 1 and are never reused.
    """

    number: int
    operator: int
    start: int
    end: int


@dataclass(frozen=True)
class HoldDecision:
    """The intervals to hold from the next epoch on, and the rows to release in the next epoch.

    `release` is {port of a hold operator: {shard: number of rows to release}}.
    """

    held: tuple[HeldInterval, ...] = ()
    release: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
