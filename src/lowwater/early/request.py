"""Requests for early results of the windows that a need names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from lowwater.early.policies import EarlyBefore, Moment
from lowwater.early.window_ends import WindowEnds
from lowwater.ticks import BEGIN


@dataclass(frozen=True)
class EarlyWanted(EarlyBefore):
    """A policy that requests windows up to the ends in `wanted`, {operator: end}.

    A need sets these ends after every epoch.
    """

    share: float = 0.0
    wanted: Mapping[int, int] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:  # noqa: D102
        return {}

    def tuned(self, values: Mapping[str, Any]) -> Self:  # noqa: D102
        return replace(self, wanted=values["wanted"]) if "wanted" in values else self

    def due(self, operator: int, grid: WindowEnds, moment: Moment, lead: float) -> int:  # noqa: D102
        del grid, moment, lead
        return self.wanted.get(operator, BEGIN)
