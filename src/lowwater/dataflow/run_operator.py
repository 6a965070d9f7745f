"""Run an operator: one epoch of one shard, and the routes of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from lowwater.control.context import EpochContext
from lowwater.control.measures import RouteMeasure
from lowwater.control.message import ControlMessage
from lowwater.control.prod import Prod
from lowwater.dataflow.answer_prods import (
    actual,
    as_if_ended,
    bare,
    completed,
    completeness,
    labelled,
    matched,
    prod_in,
    provisional,
    state_for_answer,
    window_ends,
)
from lowwater.dataflow.graph import Dataflow, Operator, Route
from lowwater.dataflow.route import NO_TIME, RouteResult, skipped, take_routes
from lowwater.errors import located
from lowwater.operators.batch import BEHIND, LATE_DEGREE, Batch
from lowwater.operators.kernel import StateOverlay, Step, kernel_of
from lowwater.operators.operator import OperatorPlan
from lowwater.operators.packet import Packet, measure_packet, placed, table_of, table_packet

StepFunction: TypeAlias = Callable[[Any, int, Mapping[str, bytes], Sequence[Packet]], Step]
"""A function with the signature of `step`; tests pass their own function to a host."""


@dataclass(frozen=True)
class _Shard:
    """One shard of an operator during an epoch."""

    flow: Dataflow
    number: int
    shard: int
    standing: EpochContext

    @property
    def operator(self) -> Operator:
        return self.flow.operators[self.number]

    @property
    def leaves(self) -> bool:
        """Whether the operator's results are an output of the query."""
        return any(o.operator == self.number for o in self.flow.outputs)

    def place(self, n: int) -> int:
        """Return the place of the shard's packet `n` in the arrival order of the next operators.

        Released rows are placed before all other rows of the epoch.
        """
        held = self.number in self.flow.holds
        start = -1 - self.number if held else len(self.flow.inputs) + self.number
        return placed(start, self.shard << 24 | n)

    def pass_on(self, results: Sequence[pa.Table]) -> list[Packet]:
        """Return packets of `results` for the next operators, and packets with counts of rows."""
        packets = []
        for n, rows in enumerate(results if self.operator.routes else ()):
            sent = self._send(rows, n)
            measure = measure_packet(self.shard, self.place(n), RouteMeasure(sent.counts))
            packets += [*sent.packets, measure]
        return packets

    def answer(self, answers: Sequence[pa.Table], asked: ControlMessage) -> list[Packet]:
        """Return early results for the output, and provisional packets for the next operators."""
        plan, packets = self.operator.plan, []
        for n, rows in enumerate(answers):
            if self.leaves:
                packets += self._early(rows, n, asked.prods)
            if self.operator.routes:
                passed = completed(plan, bare(rows), completeness(plan, rows, asked.arrived))
                packets += provisional(self._send(passed, n).packets)
        return packets

    def _early(self, rows: pa.Table, n: int, prods: Sequence[Prod]) -> list[Packet]:
        """Return a packet of the early results that prods request, and a packet of their counts."""
        wanted, matches = matched(self.operator, self.number, rows, prods)
        ends = window_ends(self.operator, rows, wanted)
        known = RouteMeasure(answers=matches, ends={self.number: ends} if ends else {})
        measure = measure_packet(self.shard, self.place(n), known)
        if not wanted.any():
            return [measure]
        chosen = labelled(rows.filter(pa.array(wanted)))
        early = table_packet("early", self.shard, self.place(n), chosen)
        return [replace(early, operator=self.number), measure]

    def _send(self, rows: pa.Table, n: int) -> RouteResult:
        """Return the packets and counts of results sent along all routes of the operator."""
        sent = RouteResult([], {})
        for route in self.operator.routes:
            one = take_routes(self.flow, [([route], self._batch(rows, route, n))], self.standing)
            sent.packets += one.packets
            for number, counts in one.counts.items():
                sent.count(number, counts)
        return sent

    def _batch(self, rows: pa.Table, route: Route, n: int) -> Batch:
        """Return results as a batch at the start of `route`."""
        ticks, valid = self.operator.axis(route.on).to_ticks(rows.column(route.on))
        fault, behind = np.where(valid, 0, NO_TIME), None
        if self.number in self.flow.holds:
            degree, behind = (rows.column(c).to_numpy() for c in (LATE_DEGREE, BEHIND))
            rows = rows.drop_columns([LATE_DEGREE, BEHIND])
        else:
            low = self.flow.in_force(self.standing, route.operator, route.port).low
            degree = np.zeros_like(ticks) if low is None else np.maximum(low - ticks, 0)
        return Batch(rows, ticks, degree, fault, self.place(n), behind=behind)


@np.errstate(over="ignore", invalid="ignore")
def step(
    plan: OperatorPlan, shard: int, state: Mapping[str, bytes], packets: Sequence[Packet]
) -> Step:
    """Run one epoch of one shard, and return its changes to `state` and its emissions."""
    kernel = kernel_of(plan).factory(plan, shard, state)
    return kernel.run(sorted(packets, key=lambda p: p.seq))


@np.errstate(over="ignore", invalid="ignore")
def work(
    flow: Dataflow,
    number: int,
    shard: int,
    state: Mapping[str, bytes],
    packets: Sequence[Packet],
    *,
    standing: EpochContext,
    kernel: StepFunction = step,
) -> Step:
    """Run one epoch of one shard of an operator; return the changes of state and all packets.

    If the epoch has a prod, the kernel runs a second time, and the packets include its answer.
    """
    with located(f"operator {flow.operators[number].name!r}"):
        return _work(_Shard(flow, number, shard, standing), state, packets, kernel)


def _work(
    at: _Shard, state: Mapping[str, bytes], packets: Sequence[Packet], kernel: StepFunction
) -> Step:
    flow, number, shard, standing = at.flow, at.number, at.shard, at.standing
    plan = flow.operators[number].plan
    if standing.dropped:
        unneeded = skipped(flow, standing.dropped)
        plan = plan.without_windows(unneeded.results[number], unneeded.class_results(number))
        plan = plan.sampling(standing.dropped.samples)
    done = kernel(plan, shard, state, actual(packets))
    emitted = [replace(p, operator=number) for p in done.emissions]
    emissions = [p for p in emitted if p.kind != "results" or at.leaves]
    emissions += at.pass_on([table_of(p) for p in emitted if p.kind == "results"])
    asked = prod_in(packets)
    if asked is not None:
        after = state_for_answer(flow, number, StateOverlay(state, done.changes), asked.prods)
        ended = kernel(plan.counting_rows(), shard, after, as_if_ended(packets))
        answers = [table_of(p) for p in ended.emissions if p.kind == "results"]
        emissions += at.answer(answers, asked)
    return Step(done.changes, emissions)
