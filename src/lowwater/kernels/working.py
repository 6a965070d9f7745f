"""An operator at work: one epoch of one shard, and where its results go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from lowwater.control import Control, Prod, Standing
from lowwater.kernels.aggregate import Step
from lowwater.kernels.dataflow import Dataflow, Operator, Route
from lowwater.kernels.estimating import bare, completed, completeness, counted
from lowwater.kernels.packets import (
    Packet,
    measure_packet,
    placed,
    table_of,
    table_packet,
)
from lowwater.kernels.routing import NO_TIME, Block, Sent, take_routes
from lowwater.kernels.rows import BEHIND, LATE_DEGREE
from lowwater.kernels.skipping import skipped, without_windows
from lowwater.kernels.stepping import step
from lowwater.kernels.sweeping import (
    After,
    asked_in,
    believed,
    certain,
    demanded,
    labelled,
    provisional,
    state_to_answer_from,
)

Kernel: TypeAlias = Callable[[Any, int, Mapping[str, bytes], Sequence[Packet]], Step]
"""What runs in a shard: (plan, shard, state, packets) -> what changes and what is sent on."""


@dataclass(frozen=True)
class _Shard:
    """A shard of an operator in an epoch."""

    flow: Dataflow
    number: int
    shard: int
    standing: Standing

    @property
    def operator(self) -> Operator:
        return self.flow.operators[self.number]

    @property
    def leaves(self) -> bool:
        """Whether its results leave the query."""
        return any(o.operator == self.number for o in self.flow.outputs)

    def place(self, n: int) -> int:
        """Return the place of its nth packet in the order of arrival elsewhere.

        Rows that were put aside have come before all that come in the epoch.
        """
        aside = self.number in self.flow.holds
        start = -1 - self.number if aside else len(self.flow.inputs) + self.number
        return placed(start, self.shard << 24 | n)

    def pass_on(self, results: Sequence[pa.Table]) -> list[Packet]:
        """Send results to the operators after this one, and say what became of them there."""
        packets = []
        for n, rows in enumerate(results if self.operator.routes else ()):
            sent = self._send(rows, n)
            told = measure_packet(self.shard, self.place(n), {"counts": sent.counts})
            packets += [*sent.packets, told]
        return packets

    def answer(self, answers: Sequence[pa.Table], asked: Control) -> list[Packet]:
        """Give out early results, and let operators after this one believe them."""
        plan, packets = self.operator.plan, []
        for n, rows in enumerate(answers):
            if self.leaves:
                packets += self._give_out(rows, n, asked.prods)
            if self.operator.routes:
                passed = completed(plan, bare(rows), completeness(plan, rows, asked.arrived))
                packets += provisional(self._send(passed, n).packets)
        return packets

    def _give_out(self, rows: pa.Table, n: int, prods: Sequence[Prod]) -> list[Packet]:
        wanted, found = demanded(self.operator, self.number, rows, prods)
        told = measure_packet(self.shard, self.place(n), {"answers": found})
        if not wanted.any():
            return [told]
        chosen = labelled(rows.filter(pa.array(wanted)))
        early = table_packet("early", self.shard, self.place(n), chosen)
        return [replace(early, operator=self.number), told]

    def _send(self, rows: pa.Table, n: int) -> Sent:
        """Send results along the routes of the operator."""
        sent = Sent([], {})
        for route in self.operator.routes:
            one = take_routes(self.flow, [([route], self._block(rows, route, n))], self.standing)
            sent.packets += one.packets
            for number, counts in one.counts.items():
                sent.count(int(number), counts)
        return sent

    def _block(self, rows: pa.Table, route: Route, n: int) -> Block:
        """Return results as they begin their way."""
        ticks, valid = self.operator.axis(route.on).to_ticks(rows.column(route.on))
        fault, behind = np.where(valid, 0, NO_TIME), None
        if self.number in self.flow.holds:
            degree, behind = (rows.column(c).to_numpy() for c in (LATE_DEGREE, BEHIND))
            rows = rows.drop_columns([LATE_DEGREE, BEHIND])
        else:
            low = self.flow.in_force(self.standing, route.operator, route.port).low
            degree = np.zeros_like(ticks) if low is None else np.maximum(low - ticks, 0)
        return Block(rows, ticks, degree, fault, self.place(n), behind=behind)


@np.errstate(over="ignore", invalid="ignore")
def work(
    flow: Dataflow,
    number: int,
    shard: int,
    state: Mapping[str, bytes],
    packets: Sequence[Packet],
    *,
    standing: Standing,
    kernel: Kernel = step,
) -> Step:
    """Run one epoch of one shard of an operator, send its results on, and answer prods."""
    at, plan = _Shard(flow, number, shard, standing), flow.operators[number].plan
    if standing.dropped:
        plan = without_windows(plan, skipped(flow, standing.dropped).results[number])
    done = kernel(plan, shard, state, certain(packets))
    emitted = [replace(p, operator=number) for p in done.emissions]
    kept = [p for p in emitted if p.kind != "results" or at.leaves]
    kept += at.pass_on([table_of(p) for p in emitted if p.kind == "results"])
    asked = asked_in(packets)
    if asked is not None:
        after = After(state, done.changes)
        known = state_to_answer_from(flow, number, after, asked.prods)
        ended = kernel(counted(plan), shard, known, believed(packets))
        kept += at.answer([table_of(p) for p in ended.emissions if p.kind == "results"], asked)
    return Step(done.changes, kept)
