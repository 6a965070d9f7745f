"""The options of a run, and what they add to the plan of a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lowwater.early.estimates import Estimate
from lowwater.engine.clock import Clock
from lowwater.engine.pending_outputs import Ahead
from lowwater.engine.restart import Restart
from lowwater.errors import SpecError
from lowwater.planner.early import Prods, prodded
from lowwater.planner.need import (
    Needs,
    early_of,
    need_parts,
    refuse_trigger,
    shed_of,
    with_needs,
)
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.planner.shedding import Shed, shedding
from lowwater.planner.sidelining import Sidelining, sidelined
from lowwater.sources.feed import Feed

HostName = Literal["local", "spark"]
Epochs = Mapping[Feed, Sequence[Any]]


@dataclass(frozen=True)
class RunOptions:
    """The options of `run()` and `start()`, without the sinks.

    `trigger` applies to `start()` only; `epochs`, `clock` and `shards` apply to `run()` only.
    """

    early: Prods = None
    estimate: Estimate = "complete"
    sideline: Sidelining = False
    shed: Shed = None
    host: HostName | None = None
    checkpoint: str | None = None
    epochs: Epochs | None = None
    clock: Clock | None = None
    shards: int | None = None
    trigger: str | None = None
    outputs: Ahead | None = None
    restart: Restart | None = None
    need: Needs = None

    def __post_init__(self) -> None:
        if self.shards is not None and (type(self.shards) is not int or self.shards < 1):
            raise SpecError(f"shards={self.shards!r} must be a whole number, 1 or more")
        if self.outputs not in (None, "truncate", "keep"):
            raise SpecError(f"outputs={self.outputs!r} is unknown; write 'truncate' or 'keep'")
        if self.outputs is not None and self.checkpoint is None:
            raise SpecError(
                f"outputs={self.outputs!r} is for a checkpoint that was rewound or restored, but "
                f"checkpoint=None; name the checkpoint, or leave it out"
            )

    def plan(self, assembly: PhysicalPlan) -> PhysicalPlan:
        """Return `assembly` with the early results, holds and drops that the options request."""
        refuse_trigger(self.need, self.trigger)
        parts = need_parts(assembly, self.need, sideline=self.sideline)
        early, shed = early_of(parts, self.early), shed_of(parts, assembly.flow, self.shed)
        held = sidelined(shedding(assembly, shed, self.sideline), self.sideline, early)
        return with_needs(prodded(held, early, self.estimate), parts, self.shed)
