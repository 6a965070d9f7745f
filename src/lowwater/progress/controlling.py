"""The slack by a proportional-derivative controller: the baseline of QDJ (6.2.3).

The error is the target minus the quality of the last track; the slack moves by `proportional` times
the error and `derivative` times its change, in granules per unit of quality. It knows nothing of
late degrees: it follows what was delivered. The gains must be tuned, which the thesis did by hand;
`experiments.q1` does it by a grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Controlled:
    """What a controller remembers: its slack, the last error, and results so far."""

    slack: float = 0.0
    error: float | None = None
    given: float = 0.0
    wanted: float = 0.0
    now_given: float = 0.0
    now_wanted: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> Controlled:
        """Read it back."""
        return cls(**known)


@dataclass(frozen=True, kw_only=True)
class ByControl:
    """A PD controller of the slack.

    >>> rule = ByControl(target=0.9, proportional=20, derivative=0)
    >>> known, slack = rule.step(Controlled(), given=80, wanted=100, passed=1)
    >>> round(slack, 6)
    2.0
    """

    target: float
    proportional: float
    derivative: float
    overall: bool = False

    def step(
        self, known: Controlled, *, given: float, wanted: float, passed: float
    ) -> tuple[Controlled, float]:
        """Return what to remember, and the slack of the next step; it moves when a track ends."""
        now = (known.now_given + given, known.now_wanted + wanted)
        all = (known.given + given, known.wanted + wanted)
        judged = all if self.overall else now
        if passed < 1:
            return Controlled(known.slack, known.error, *all, *now), known.slack
        if judged[1] <= 0:
            return Controlled(known.slack, known.error, *all), known.slack
        error = self.target - judged[0] / judged[1]
        change = 0.0 if known.error is None else error - known.error
        moved = known.slack + self.proportional * error + self.derivative * change
        slack = max(0.0, moved)
        return Controlled(slack, error, *all), slack
