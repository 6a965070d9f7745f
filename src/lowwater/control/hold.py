"""Rows that are held: the intervals of time they belong to, and their release (PROD 6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class HeldInterval:
    """An interval `[start, end)` of time whose rows are held on their way to an operator.

    Its number, from 1, is never used again.
    """

    number: int
    operator: int
    start: int
    end: int


@dataclass(frozen=True)
class HoldDecision:
    """The intervals held from the next epoch on, and the rows released in it.

    `release` has, for each port of a hold, the number of rows that each shard releases.
    """

    held: tuple[HeldInterval, ...] = ()
    release: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
