"""A stretch of time whose rows are put aside (PROD 6.2)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sidelined:
    """A stretch `[start, end)` of time whose rows, on their way to an operator, are put aside.

    Its number, from 1, is its own for good.
    """

    number: int
    operator: int
    start: int
    end: int
