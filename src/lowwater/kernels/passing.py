"""Rows that no operator works on: they leave as they came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lowwater.control import Marks
from lowwater.kernels.aggregate import Step
from lowwater.kernels.one_stream import OneStream
from lowwater.kernels.packets import Packet, measure_packet, table_of, table_packet
from lowwater.kernels.rows import DEAD, LATE_DEGREE, TICK


@dataclass(frozen=True)
class PassPlan(OneStream):
    """A stream given out as it is. Nothing is kept, so nothing is ever late."""

    shards: int = 2

    word = "rows"
    rounds_marks = True
    shard_keys: tuple[tuple[str, ...], ...] = ((),)

    @property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """No row is late."""
        return ()

    def with_shards(self, shards: int) -> PassPlan:
        """Return the plan for one shard: rows only pass through."""
        del shards
        return replace(self, shards=1)

    def explain(self) -> list[str]:
        """Say what it does."""
        return ["rows        given out as they come"]

    def usable(self, port: int, marks: Marks) -> Marks:
        """No mark is of use."""
        del port, marks
        return Marks()

    def marks_out(self, ports: Sequence[Marks]) -> Mapping[str, Marks]:
        """Nothing reads the rows after this."""
        del ports
        return {}


class PassEpoch:
    """One epoch of rows that pass."""

    def __init__(self, plan: PassPlan, shard: int, state: Mapping[str, bytes]) -> None:
        del state
        self.plan, self.shard = plan, shard

    def run(self, packets: Sequence[Packet]) -> Step:
        """Give out the rows."""
        done, rows = Step(), 0
        for seq, packet in enumerate(p for p in packets if p.kind == "rows"):
            table = table_of(packet).drop_columns([TICK, LATE_DEGREE, DEAD])
            rows += len(table)
            done.emissions.append(table_packet("results", self.shard, seq, table))
        kept = {"shard": self.shard, "cells": 0, "bytes": 0, "admitted": rows, "results": rows}
        done.emissions.append(measure_packet(self.shard, 0, kept))
        return done
