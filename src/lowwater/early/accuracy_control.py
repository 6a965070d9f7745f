"""Steering: the choice of the aggressiveness for a target accuracy of early results (PROD 6.2 c).

The loss of an early result is 1 − accuracy. The loss grows with the aggressiveness a. If missing
rows are independent, it is proportional to √a. Steering finds the largest a whose expected loss
is 1 − target, by stochastic approximation in log a (Robbins & Monro 1951). Each window changes a by

    log a += η · (1 − loss / (1 − target)).

The mean change is zero only if the mean loss is 1 − target. So the mean accuracy converges to the
target for any shape of the loss. The rate η begins large and falls to a floor; due to the floor,
steering follows a change of the stream within some dozens of windows.

No loss is allowed at a target of 1. Then a stays at its least value: windows are requested as late
as possible.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from lowwater.errors import SpecError

_FIRST, _FLOOR = 0.5, 0.06
_WORST = -4.0
"""The lower bound of the factor (1 − loss / (1 − target)) in the change of log a."""


class Observation(NamedTuple):
    """The aggressiveness of a prod for one window, and the mean accuracy of its early results."""

    aggressiveness: float
    accuracy: float


@dataclass(frozen=True)
class SteeringMemory:
    """The current aggressiveness, and the number of observations so far."""

    VERSION: ClassVar[int] = 1

    aggressiveness: float
    seen: int = 0


@dataclass(frozen=True)
class Steering:
    """A controller that finds the aggressiveness at which early results have accuracy `target`.

    `most` is the largest allowed aggressiveness, in slides.

    >>> steering = Steering(0.95)
    >>> memory = steering.begin()
    >>> later = steering.advance(memory, [Observation(0.5, 0.8)])
    >>> steering.aggressiveness(later) < steering.aggressiveness(memory)
    True
    """

    target: float
    most: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.target <= 1:
            raise SpecError(
                f"accuracy={self.target!r} must be above 0 and at most 1, for example 0.98"
            )
        if not self.most > 0:
            raise SpecError(f"most={self.most!r} must be above 0")

    @property
    def least(self) -> float:
        """The smallest allowed aggressiveness, in slides."""
        return self.most / 1000

    def begin(self) -> SteeringMemory:
        """Return the first memory, with a tenth of the largest allowed aggressiveness."""
        return SteeringMemory(self.least if self.target == 1 else self.most / 10)

    def aggressiveness(self, memory: SteeringMemory) -> float:
        """Return the aggressiveness of the next prod, in slides."""
        return min(float(memory.aggressiveness), self.most)

    def advance(
        self, memory: SteeringMemory, observations: Iterable[Observation]
    ) -> SteeringMemory:
        """Return the memory after `observations`, which are in the order of windows."""
        now, seen = memory.aggressiveness, memory.seen
        if self.target == 1:
            return SteeringMemory(float(f"{self.least:.6g}"), seen)
        for at, accuracy in observations:
            # The aggressiveness has changed since the prod: scale the loss to the current one.
            lost = (1 - accuracy) * math.sqrt(now / max(at, self.least))
            step = max(_FIRST / math.sqrt(1 + seen), _FLOOR)
            now *= math.exp(step * max(1 - lost / (1 - self.target), _WORST))
            now = min(max(now, self.least), self.most)
            seen += 1
        return SteeringMemory(float(f"{now:.6g}"), seen)
