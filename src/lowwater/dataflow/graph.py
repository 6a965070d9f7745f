"""The dataflow of a query: inputs, operators, outputs, and the routes of rows between them.

A union is not an operator, but several routes to one port. Watermarks follow the same routes
and depend only on the inputs' watermarks. A port has the lowest watermark of its
streams, and an operator computes the watermarks of its results from the watermarks of its ports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Protocol

import numpy as np
import pyarrow as pa

from lowwater.control.completeness import Completeness
from lowwater.control.context import EpochContext, InputProgress
from lowwater.control.hold import HeldInterval
from lowwater.control.prod import Prod
from lowwater.control.watermark import Watermarks
from lowwater.operators.operator import OperatorPlan
from lowwater.ticks import END
from lowwater.windows.axis import Axis


class Transform(Protocol):
    """A step on a route: a filter, or a change of columns."""

    @property
    def schema(self) -> pa.Schema:
        """The columns after the step."""

    def kept(self, table: pa.Table) -> np.ndarray | None:
        """Return a mask of the rows that a filter keeps; None if the step is not a filter."""

    def origin(self, column: str) -> str | None:
        """Return the name of `column` before the step; None if the step computes the column."""

    def over(self, before: pa.Schema, kept: str) -> Transform:
        """Return the step for rows with the columns `before`, which keeps the column `kept`."""

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the rows after the step."""


@dataclass(frozen=True)
class Route:
    """The way of rows to a port of an operator.

    `on` is the time column of the rows. The port receives the watermarks that `marks_out` returns
    for the column `by`, or for `on` if `by` is empty. `hold` is the route's hold operator, or None.
    """

    operator: int
    port: int
    on: str
    steps: tuple[Transform, ...] = ()
    by: str = ""
    hold: int | None = None

    def origin(self, column: str) -> str | None:
        """Return the name of `column` before all steps; None if a step computes the column."""
        name: str | None = column
        for step in reversed(self.steps):
            name = None if name is None else step.origin(name)
        return name


@dataclass(frozen=True)
class Input:
    """An input stream of the query.

    `before` are the steps that compute columns for the watermark policy. The policy sets `source`,
    `tail`, `mark_when`, `mark_since` and `consistent`. `max_ahead` is the largest distance, in
    ticks, of a row ahead of the newest time; with `by_wall`, ahead of the wall clock if that is
    later. `prods` are the columns that identify groups, if the rows of the stream are prods. `bins`
    and `granule` are the widths, in ticks, of the bins that count arrivals and late degrees.
    """

    schema: pa.Schema
    axis: Axis
    routes: tuple[Route, ...] = ()
    before: tuple[Transform, ...] = ()
    source: str | None = None
    tail: int = 0
    mark_when: str | None = None
    mark_since: str | None = None
    consistent: bool = False
    max_ahead: int | None = None
    guard: int | None = None
    by_wall: bool = False
    prods: tuple[str, ...] | None = None
    bins: int | None = None
    granule: int | None = None


@dataclass(frozen=True)
class Operator:
    """An operator of the dataflow, with its routes to the next operators.

    `level` is the number of operators that rows pass before this operator; `times` are the time
    columns of its results that have watermarks.
    """

    plan: OperatorPlan
    name: str
    level: int = 0
    times: tuple[Axis, ...] = ()
    routes: tuple[Route, ...] = ()

    def axis(self, column: str) -> Axis:
        """Return the window attribute (axis) of a time column of the results."""
        return next(a for a in self.times if a.column == column)


@dataclass(frozen=True)
class Output:
    """An output of the query: the results of an operator, after some steps."""

    name: str
    operator: int
    steps: tuple[Transform, ...] = ()

    def of(self, table: pa.Table) -> pa.Table:
        """Return the operator's results after the steps of the output."""
        for step in self.steps:
            table = step(table)
        return table


@dataclass(frozen=True)
class Dataflow:
    """The dataflow of a whole plan; operators send rows only to later entries of `operators`.

    `fair_by` is the key by whose classes windows are dropped; None if they are dropped for all.
    """

    inputs: tuple[Input, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[Output, ...]
    fair_by: str | None = None

    def with_shards(self, shards: int) -> Dataflow:
        """Return the dataflow with `shards` shards for each operator that can have several."""
        sharded = (replace(o, plan=o.plan.with_shards(shards)) for o in self.operators)
        return replace(self, operators=tuple(sharded))

    @cached_property
    def ports(self) -> tuple[tuple[int, int], ...]:
        """All ports as (operator, port of the operator), in the order of their numbers."""
        return tuple((i, p) for i, o in enumerate(self.operators) for p in range(o.plan.ports))

    @cached_property
    def numbers(self) -> Mapping[tuple[int, int], int]:
        """{(operator, port of the operator): number of the port}."""
        return {port: number for number, port in enumerate(self.ports)}

    @cached_property
    def feeds(self) -> Mapping[tuple[int, int], int]:
        """The number of routes to each port, without the routes of released rows."""
        starts = [i.routes for i in self.inputs]
        starts += [o.routes for n, o in enumerate(self.operators) if n not in self.holds]
        reached = Counter((r.operator, r.port) for r in chain.from_iterable(starts))
        return {port: reached[port] for port in self.ports}

    @cached_property
    def holds(self) -> Mapping[int, int]:
        """{operator that holds rows: operator that needs the held rows}."""
        routes = chain.from_iterable(i.routes for i in self.inputs)
        return {r.hold: r.operator for r in routes if r.hold is not None}

    @property
    def levels(self) -> int:
        """The number of levels: the largest number of operators that a row passes."""
        return 1 + max((o.level for o in self.operators), default=0)

    @cached_property
    def contradictable(self) -> frozenset[int]:
        """The operators whose late rows contradict a punctuation of the stream."""
        punctuated = (i for i in self.inputs if i.mark_when is not None)
        return frozenset(route.operator for i in punctuated for route in i.routes)

    def class_column(self, number: int) -> str | None:
        """Return the column of input `number` that becomes the key `fair_by`; None if none does."""
        routes = self.inputs[number].routes
        return None if self.fair_by is None or not routes else routes[0].origin(self.fair_by)

    @cached_property
    def front(self) -> frozenset[int]:
        """The operators that rows of inputs reach first."""
        return frozenset(route.operator for i in self.inputs for route in i.routes)

    def in_force(self, standing: EpochContext, operator: int, port: int) -> Watermarks:
        """Return the watermarks in force at a port, from the context of the epoch."""
        number = self.numbers[operator, port]
        return standing.ports[number] if standing.ports else Watermarks()

    def reach(
        self,
        inputs: Sequence[InputProgress],
        held: Sequence[HeldInterval] = (),
        *,
        rounded: bool = True,
    ) -> tuple[Watermarks, ...]:
        """Return the watermarks of all ports, given the inputs' progress and the held intervals.

        If not `rounded`, they are those before the operators round them to where they act.
        """
        coming: dict[tuple[int, int], list[Watermarks]] = {port: [] for port in self.ports}
        direct: dict[int, list[InputProgress]] = {}
        for start, reached in zip(self.inputs, inputs, strict=True):
            marks = Watermarks(END) if reached.ended else reached.marks
            for route in start.routes:
                coming[route.operator, route.port].append(marks)
                direct.setdefault(route.operator, []).append(reached)
        ports: list[Watermarks] = []
        for number, operator in enumerate(self.operators):
            plan = operator.plan
            if number in self.holds:
                ports.append(Watermarks())
                continue
            known = [Watermarks.least(coming[number, p]) for p in range(plan.ports)]
            usable = (plan.usable(p, marks) for p, marks in enumerate(known))
            mine = [_final(plan, marks, direct.get(number)) for marks in usable]
            if number in self.holds.values():
                aside = [h for h in held if h.operator == number]
                known, mine = ([m.holding_back(aside) for m in ms] for ms in (known, mine))
            ports += mine if rounded else known
            # The watermarks of results are not rounded to the positions where the operator acts.
            out = plan.marks_out([replace(m, low=k.low) for m, k in zip(mine, known, strict=True)])
            for route in operator.routes:
                coming[route.operator, route.port].append(out[route.by or route.on])
        for hold, held_for in self.holds.items():
            # A hold compares rows with the watermark that the stream would have without holds.
            ports[self.numbers[hold, 0]] = Watermarks(ports[self.numbers[held_for, 0]].nominal)
        return tuple(ports)

    def as_if_ended(
        self, inputs: Sequence[InputProgress], prods: Sequence[Prod]
    ) -> tuple[Watermarks, ...]:
        """Return, for all ports, the watermarks with which operators answer prods.

        An operator that feeds others answers as if the streams had ended, because the others
        may need any of its results. An operator that only feeds outputs computes no window after
        the last window that a prod requests.
        """
        ended = self.reach([replace(i, ended=True) for i in inputs])
        return tuple(
            _bounded(marks, prods, operator) if self.only_leaves(operator) else marks
            for (operator, _), marks in zip(self.ports, ended, strict=True)
        )

    def expected(self, inputs: Sequence[Completeness | None]) -> list[Completeness | None]:
        """Return the completeness of the rows at each port; None for a port where it is unknown."""
        coming: dict[tuple[int, int], list[Completeness | None]] = {port: [] for port in self.ports}
        for start, arrived in zip(self.inputs, inputs, strict=False):  # not for prods
            for route in start.routes:
                coming[route.operator, route.port].append(arrived)
        shares: list[Completeness | None] = []
        for number, operator in enumerate(self.operators):
            if number in self.holds:
                shares.append(None)
                continue
            mine = [_together(coming[number, p]) for p in range(operator.plan.ports)]
            shares += mine
            out = operator.plan.completeness_out(mine)
            for route in operator.routes:
                coming[route.operator, route.port].append(out)
        return shares

    def foreseen(self, inputs: Sequence[Completeness | None]) -> list[Completeness | None]:
        """Return the completeness at each port; None for ports of operators that feed only outputs.

        An operator that feeds others extrapolates its early results before it passes them on.
        """
        if not any(o.routes for o in self.operators):
            return [None for _ in self.ports]
        shares = zip(self.ports, self.expected(inputs), strict=True)
        return [a if self.operators[operator].routes else None for (operator, _), a in shares]

    def only_leaves(self, number: int) -> bool:
        """Return whether an operator feeds only outputs, and has no flush and no second time."""
        plan, routes = self.operators[number].plan, self.operators[number].routes
        return plan.flush is None and not routes and plan.second is None


def _together(several: Sequence[Completeness | None]) -> Completeness | None:
    """Return the completeness of a union of streams; None if it is unknown for one stream."""
    known = [a for a in several if a is not None]
    return Completeness.together(known) if known and len(known) == len(several) else None


def _bounded(marks: Watermarks, prods: Sequence[Prod], operator: int) -> Watermarks:
    """Return `marks`, limited to the last window end that prods request from `operator`."""
    ends = [p.upto for p in prods if p.asks(operator)]
    if not ends:
        return Watermarks()
    known = [end for end in ends if end is not None]
    if marks.low is None or len(known) < len(ends):
        return marks
    return replace(marks, low=min(marks.low, max(known)), ranges=())


def _final(
    plan: OperatorPlan, marks: Watermarks, inputs: Sequence[InputProgress] | None
) -> Watermarks:
    """Return `marks`, or watermarks that close all windows if the port's streams have ended."""
    if marks.low is None or marks.low < END or inputs is None:
        return marks
    newest = max((i.newest for i in inputs if i.newest is not None), default=None)
    return plan.ended(marks, newest, Watermarks.least([i.marks for i in inputs]))
