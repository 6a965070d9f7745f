"""The physical plan of a run: a dataflow, its sources, and the policies that control it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from lowwater.dataflow.graph import Dataflow, Input
from lowwater.early.prodder import Prodder
from lowwater.shedding.shedder import LoadShedder
from lowwater.sidelining.sideliner import Sideliner
from lowwater.ticks import ticks
from lowwater.watermarks.adaptive.adapter import SlackAdapter
from lowwater.watermarks.policy import WatermarkPolicy
from lowwater.watermarks.tracker import Gauge

BEATS_PER_IDLE_TIMEOUT = 4
"""How often the clock moves a watermark within an idle timeout, if windows may end anywhere."""


@dataclass(frozen=True)
class PhysicalPlan:
    """A dataflow, and for each of its inputs a source and its watermark policy."""

    flow: Dataflow
    sources: tuple[Any, ...]
    policies: tuple[WatermarkPolicy, ...]
    prodder: Prodder | None = None
    sideliner: Sideliner | None = None
    adapter: SlackAdapter | None = None
    shedder: LoadShedder | None = None

    @cached_property
    def gauges(self) -> tuple[Gauge, ...]:
        """The watermark tracker of each input."""
        fine = any(not o.plan.rounds_marks for o in self.flow.operators)
        return tuple(
            Gauge(
                policy.bind(start.axis, measured_schema(start)),
                wall=policy.clock == "wall",
                grain=_idle_timeout(policy) // BEATS_PER_IDLE_TIMEOUT if fine else 0,
            )
            for start, policy in zip(self.flow.inputs, self.policies, strict=True)
        )

    @property
    def filled(self) -> bool:
        """Whether dropped windows get estimated results."""
        return self.shedder is not None and self.shedder.how.fill

    def with_shards(self, shards: int) -> PhysicalPlan:
        """Return the plan with a number of shards for each operator."""
        return replace(self, flow=self.flow.with_shards(shards))


def _idle_timeout(policy: WatermarkPolicy) -> int:
    return 0 if policy.idle_timeout is None else ticks(policy.idle_timeout, name="idle_timeout")


def measured_schema(start: Input) -> pa.Schema:
    """Return the columns of an input after the steps that its watermark needs."""
    return start.before[-1].schema if start.before else start.schema
