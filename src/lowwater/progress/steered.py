"""A controller of the slack as a rule like the others: late degrees are kept, but not asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lowwater.progress.adapting import Degrees, Model, Observed
from lowwater.progress.controlling import ByControl, Controlled
from lowwater.progress.late_degrees import LateDegrees


@dataclass(frozen=True)
class Steering:
    """What is remembered: late degrees, for the status, and the controller's own part."""

    degrees: Degrees = ()
    controlled: Controlled = Controlled()  # noqa: RUF009, frozen

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        late = [d.to_json() for d in self.degrees]
        return {"degrees": late, "controlled": self.controlled.to_json()}

    @classmethod
    def from_json(cls, known: Mapping[str, Any]) -> Steering:
        """Read it back."""
        late = tuple(map(LateDegrees.from_json, known["degrees"]))
        return cls(late, Controlled.from_json(known["controlled"]))


@dataclass(frozen=True)
class Steered:
    """Slack by a controller; see `lw.pd`."""

    controller: ByControl
    decay: float

    def aiming_at(self, target: float) -> Steered:
        """Return the rule with another target."""
        return replace(self, controller=replace(self.controller, target=target))

    def step(self, known: Steering, seen: Observed, model: Model) -> tuple[Steering, int]:
        """Return what to remember, and the slack of the next interval."""
        after, slack = self.controller.step(
            known.controlled, given=seen.given, wanted=seen.wanted, passed=seen.passed
        )
        late = seen.degrees
        if known.degrees:
            pairs = zip(known.degrees, seen.degrees, strict=True)
            late = tuple(before.decayed(self.decay) + now for before, now in pairs)
        return Steering(late, after), round(slack)
