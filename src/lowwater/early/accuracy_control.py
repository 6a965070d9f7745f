"""Steering: how early to prod so that early results reach a target accuracy (PROD 6.2 c).

The loss of accuracy of an early result grows with the aggressiveness a, as √a if the missing rows
are independent. The target is met by the largest a whose expected loss is 1 − target. Stochastic
approximation in log a (Robbins & Monro 1951) finds it: each window moves a by

    log a += η · (1 − loss / (1 − target)),

which is zero in the mean only where the mean loss is 1 − target. Because the steps add up, the mean
accuracy converges to the target whatever the shape of the loss. Steps begin large and fall to a
floor, at which steering follows a change of the stream within some dozens of windows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from lowwater.errors import SpecError

_FIRST, _FLOOR = 0.5, 0.06
_WORST = -4.0
"""The largest move down by one window, in steps."""


class Observation(NamedTuple):
    """The aggressiveness at which a window was prodded, and its accuracy: the mean over groups."""

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
    """Finds the largest aggressiveness at which the mean accuracy is the target.

    `most` bounds the aggressiveness, in slides; streams that always meet the target reach it.

    >>> steering = Steering(0.95)
    >>> memory = steering.begin()
    >>> later = steering.advance(memory, [Observation(0.5, 0.8)])
    >>> steering.aggressiveness(later) < steering.aggressiveness(memory)
    True
    """

    target: float
    most: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise SpecError(f"accuracy={self.target!r} must be between 0 and 1, for example 0.98")
        if not self.most > 0:
            raise SpecError(f"most={self.most!r} must be above 0")

    @property
    def least(self) -> float:
        """The smallest aggressiveness."""
        return self.most / 1000

    def begin(self) -> SteeringMemory:
        """Return the memory before the first observation: a tenth of the largest aggressiveness."""
        return SteeringMemory(self.most / 10)

    def aggressiveness(self, memory: SteeringMemory) -> float:
        """Return how early to prod next, in slides before the end of a window."""
        return min(float(memory.aggressiveness), self.most)

    def advance(
        self, memory: SteeringMemory, observations: Iterable[Observation]
    ) -> SteeringMemory:
        """Return the memory after finals, given one observation for each window, in order."""
        now, seen = memory.aggressiveness, memory.seen
        for at, accuracy in observations:
            # Finals are late: scale the loss at that aggressiveness to the current one.
            lost = (1 - accuracy) * math.sqrt(now / max(at, self.least))
            step = max(_FIRST / math.sqrt(1 + seen), _FLOOR)
            now *= math.exp(step * max(1 - lost / (1 - self.target), _WORST))
            now = min(max(now, self.least), self.most)
            seen += 1
        return SteeringMemory(float(f"{now:.6g}"), seen)
