"""The physical plan of a run: a dataflow, its sources, and the policies that control it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from lowwater.dataflow.graph import Dataflow, Input
from lowwater.early.prodder import Prodder
from lowwater.needs.policy import NeedPolicy
from lowwater.shedding.shedder import LoadShedder
from lowwater.sidelining.sideliner import Sideliner
from lowwater.ticks import ticks
from lowwater.watermarks.adaptive.adapter import SlackAdapter
from lowwater.watermarks.policy import WatermarkPolicy
from lowwater.watermarks.tracker import Gauge

BEATS_PER_IDLE_TIMEOUT = 4
"""How often per idle timeout the clock moves a watermark, if windows may end at any time."""


@dataclass(frozen=True)
class PhysicalPlan:
    """A dataflow, the source and the watermark policy of each input, and the other policies."""

    flow: Dataflow
    sources: tuple[Any, ...]
    policies: tuple[WatermarkPolicy, ...]
    prodder: Prodder | None = None
    sideliner: Sideliner | None = None
    adapter: SlackAdapter | None = None
    shedder: LoadShedder | None = None
    needs: NeedPolicy | None = None

    @cached_property
    def gauges(self) -> tuple[Gauge, ...]:
        """The watermark tracker of each input."""
        fine = any(not o.plan.rounds_marks for o in self.flow.operators)
        return tuple(
            Gauge(
                policy.bind(start.axis, measured_schema(start)),
                wall=policy.clock == "wall",
                grain=ticks(policy.idle_timeout or "0 s") // BEATS_PER_IDLE_TIMEOUT if fine else 0,
            )
            for start, policy in zip(self.flow.inputs, self.policies, strict=True)
        )

    @property
    def filled(self) -> bool:
        """Whether dropped windows get filled (interpolated) results."""
        return self.shedder is not None and self.shedder.how.fill

    def with_shards(self, shards: int) -> PhysicalPlan:
        """Return this plan with `shards` shards for each operator."""
        return replace(self, flow=self.flow.with_shards(shards))


def measured_schema(start: Input) -> pa.Schema:
    """Return the schema of the input `start` after the steps that its watermark needs."""
    return start.before[-1].schema if start.before else start.schema
