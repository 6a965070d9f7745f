"""Steering: how early to prod so that early answers are as accurate as wanted (PROD 6.2 c).

What an early answer loses of its accuracy grows with the aggressiveness a, as √a where the missing
rows are independent. A target is met by the largest a whose expected loss is 1 − target. It is
found by stochastic approximation in log a (Robbins & Monro 1951): each window moves a by

    log a += η · (1 − loss / (1 − target)),

and stands still only where the mean loss is 1 − target. Because the steps add up, the mean of the
accuracy itself is bound to the target, whatever the shape of the loss. Steps begin large and fall
to a floor at which a change of the stream is followed within some dozens of windows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lowwater.errors import SpecError

_FIRST, _FLOOR = 0.5, 0.06
_WORST = -4.0
"""No window moves a by more than some steps down, however wrong it was."""


class Observation(NamedTuple):
    """How accurate a window prodded at an aggressiveness was: the mean over its groups."""

    aggressiveness: float
    accuracy: float


@dataclass(frozen=True)
class Steering:
    """Keeps running accuracy at a target with the greatest gain in latency.

    `most` is the greatest aggressiveness, in slides; streams that meet the target anyway end there.

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
            raise SpecError(f"accuracy={self.target!r} must lie between 0 and 1")
        if not self.most > 0:
            raise SpecError(f"most={self.most!r} must be above 0")

    @property
    def least(self) -> float:
        """The smallest aggressiveness: beyond it, less would change nothing."""
        return self.most / 1000

    def begin(self) -> dict[str, Any]:
        """Return the memory before the first observation: cautious, a tenth of the way."""
        return {"aggressiveness": self.most / 10, "seen": 0}

    def aggressiveness(self, memory: Mapping[str, Any]) -> float:
        """Return how early to prod next, in slides before the end of a window."""
        return min(float(memory["aggressiveness"]), self.most)

    def advance(
        self, memory: Mapping[str, Any], observations: Iterable[Observation]
    ) -> dict[str, Any]:
        """Return the memory after finals have come, one observation for each window, in order."""
        now, seen = memory["aggressiveness"], memory["seen"]
        for at, accuracy in observations:
            # Finals come late: what was lost then is carried over to where steering stands.
            lost = (1 - accuracy) * math.sqrt(now / max(at, self.least))
            step = max(_FIRST / math.sqrt(1 + seen), _FLOOR)
            now *= math.exp(step * max(1 - lost / (1 - self.target), _WORST))
            now = min(max(now, self.least), self.most)
            seen += 1
        return {"aggressiveness": float(f"{now:.6g}"), "seen": seen}
