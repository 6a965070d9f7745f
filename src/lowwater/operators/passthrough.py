"""Passthrough: a query without an operator emits its rows unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lowwater.control.measures import ShardMeasure
from lowwater.control.watermark import Watermarks
from lowwater.operators.batch import DEAD, LATE_DEGREE, TICK
from lowwater.operators.kernel import Step, register
from lowwater.operators.packet import Packet, measure_packet, table_of, table_packet
from lowwater.operators.unary import UnaryPlan


@dataclass(frozen=True)
class PassthroughPlan(UnaryPlan):
    """The plan of a query that emits its rows unchanged; without state, no row is late."""

    shards: int = 2

    word = "rows"
    rounds_marks = True
    shard_keys: tuple[tuple[str, ...], ...] = ((),)

    @property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """An empty tuple, since no row is late."""
        return ()

    def with_shards(self, shards: int) -> PassthroughPlan:
        """Return the plan with one shard: more shards would not make it faster."""
        return replace(self, shards=1)

    def explain(self) -> list[str]:
        """Return one line that describes the results."""
        return ["rows        emitted as they arrive"]

    def usable(self, port: int, marks: Watermarks) -> Watermarks:
        """Return empty watermarks, since the operator does not act on watermarks."""
        return Watermarks()

    def marks_out(self, ports: Sequence[Watermarks]) -> Mapping[str, Watermarks]:
        """Return no watermarks, since no operator reads the results."""
        return {}


@register(PassthroughPlan)
class PassthroughKernel:
    """One epoch of one shard of a passthrough."""

    def __init__(self, plan: PassthroughPlan, shard: int, state: Mapping[str, bytes]) -> None:
        self.plan, self.shard = plan, shard

    def run(self, packets: Sequence[Packet]) -> Step:
        """Return emissions with all rows of `packets`, and no changes to state."""
        out, rows = Step(), 0
        for seq, packet in enumerate(p for p in packets if p.kind == "rows"):
            table = table_of(packet).drop_columns([TICK, LATE_DEGREE, DEAD])
            rows += len(table)
            out.emissions.append(table_packet("results", self.shard, seq, table))
        measure = ShardMeasure(self.shard, counts={"admitted": rows, "results": rows})
        out.emissions.append(measure_packet(self.shard, 0, measure))
        return out
