"""The dataflow of a query: inputs, operators, outputs, and the routes rows take between them.

A union has no operator: it is several routes to one port. Watermarks follow the same routes, as a
pure function of the inputs' watermarks (semantics 7): a port has the lowest watermark of its
streams, and each operator maps the watermarks of its ports to those of its results.
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
    """A step between operators: a filter, or other columns."""

    @property
    def schema(self) -> pa.Schema:
        """The columns after the step."""

    def kept(self, table: pa.Table) -> np.ndarray | None:
        """Return which rows a filter keeps; None if the step is not a filter."""

    def origin(self, column: str) -> str | None:
        """Return the column before the step that the step passes on unchanged as `column`."""

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the rows after the step."""


@dataclass(frozen=True)
class Route:
    """The way of rows to a port of an operator.

    `on` names the column that is their time, `by` the attribute they progress on: the same column,
    or two times. `hold` is the operator that holds rows on the way, if there is one.
    """

    operator: int
    port: int
    on: str
    steps: tuple[Transform, ...] = ()
    by: str = ""
    hold: int | None = None


@dataclass(frozen=True)
class Input:
    """A stream that enters the query.

    `before` are steps that compute the columns that progress is measured on. The watermark policy
    sets `source`, `tail`, `mark_when`, `mark_since` and `consistent`. `max_ahead` (ticks) bounds
    how far a row may be ahead of the newest, or of the wall clock. `prods` are the columns that
    name groups, if the rows of the stream are prods. `bins` and `granule` are the widths (ticks) of
    the bins in which arrivals and late degrees are counted.
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
    by_wall: bool = False
    prods: tuple[str, ...] | None = None
    bins: int | None = None
    granule: int | None = None


@dataclass(frozen=True)
class Operator:
    """An operator in its place.

    `level` is the number of operators that rows pass before it; `times` are the columns of its
    results that progress.
    """

    plan: OperatorPlan
    name: str
    level: int = 0
    times: tuple[Axis, ...] = ()
    routes: tuple[Route, ...] = ()

    def axis(self, column: str) -> Axis:
        """Return the time of results that a column holds."""
        return next(a for a in self.times if a.column == column)


@dataclass(frozen=True)
class Output:
    """Results that leave the query: those of an operator, after some steps."""

    name: str
    operator: int
    steps: tuple[Transform, ...] = ()

    def of(self, table: pa.Table) -> pa.Table:
        """Return results as they leave."""
        for step in self.steps:
            table = step(table)
        return table


@dataclass(frozen=True)
class Dataflow:
    """A whole plan. The operators are sorted: each sends rows only to operators after it."""

    inputs: tuple[Input, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[Output, ...]

    def with_shards(self, shards: int) -> Dataflow:
        """Return the plan with a number of shards for each operator."""
        sharded = (replace(o, plan=o.plan.with_shards(shards)) for o in self.operators)
        return replace(self, operators=tuple(sharded))

    @cached_property
    def ports(self) -> tuple[tuple[int, int], ...]:
        """All ports, in the order of their numbers: (operator, which of its ports)."""
        return tuple((i, p) for i, o in enumerate(self.operators) for p in range(o.plan.ports))

    @cached_property
    def numbers(self) -> Mapping[tuple[int, int], int]:
        """The number of each port."""
        return {port: number for number, port in enumerate(self.ports)}

    @cached_property
    def feeds(self) -> Mapping[tuple[int, int], int]:
        """The number of routes to each port; released rows are on the route that held them."""
        starts = [i.routes for i in self.inputs]
        starts += [o.routes for n, o in enumerate(self.operators) if n not in self.holds]
        reached = Counter((r.operator, r.port) for r in chain.from_iterable(starts))
        return {port: reached[port] for port in self.ports}

    @cached_property
    def holds(self) -> Mapping[int, int]:
        """The operators that hold rows, each with the operator whose rows it holds."""
        routes = chain.from_iterable(i.routes for i in self.inputs)
        return {r.hold: r.operator for r in routes if r.hold is not None}

    @property
    def levels(self) -> int:
        """The largest number of operators that a row passes."""
        return 1 + max((o.level for o in self.operators), default=0)

    @cached_property
    def contradictable(self) -> frozenset[int]:
        """The operators whose late rows contradict a punctuation of the stream."""
        punctuated = (i for i in self.inputs if i.mark_when is not None)
        return frozenset(route.operator for i in punctuated for route in i.routes)

    @cached_property
    def front(self) -> frozenset[int]:
        """The operators that rows of inputs reach first."""
        return frozenset(route.operator for i in self.inputs for route in i.routes)

    def in_force(self, standing: EpochContext, operator: int, port: int) -> Watermarks:
        """Return the watermarks in force at a port."""
        number = self.numbers[operator, port]
        return standing.ports[number] if standing.ports else Watermarks()

    def reach(
        self, inputs: Sequence[InputProgress], held: Sequence[HeldInterval] = ()
    ) -> tuple[Watermarks, ...]:
        """Return the watermarks of all ports for given inputs; held rows hold them back."""
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
            ports += mine
            # The watermarks of results are not rounded to the positions where the operator acts.
            out = plan.marks_out([replace(m, low=k.low) for m, k in zip(mine, known, strict=True)])
            for route in operator.routes:
                coming[route.operator, route.port].append(out[route.by or route.on])
        for hold, held_for in self.holds.items():
            # The stream's own watermark judges lateness when a row arrives.
            ports[self.numbers[hold, 0]] = Watermarks(ports[self.numbers[held_for, 0]].nominal)
        return tuple(ports)

    def as_if_ended(
        self, inputs: Sequence[InputProgress], prods: Sequence[Prod]
    ) -> tuple[Watermarks, ...]:
        """Return the watermarks of all ports that prods are answered by.

        Operators whose results others read answer as if the streams had ended: the readers may
        need any result. An operator whose results only leave computes no window after those that
        prods ask for.
        """
        ended = self.reach([replace(i, ended=True) for i in inputs])
        return tuple(
            _bounded(marks, prods, operator) if self.only_leaves(operator) else marks
            for (operator, _), marks in zip(self.ports, ended, strict=True)
        )

    def expected(self, inputs: Sequence[Completeness | None]) -> list[Completeness | None]:
        """Return the completeness of the rows at each port, None where it is unknown."""
        coming: dict[tuple[int, int], list[Completeness | None]] = {port: [] for port in self.ports}
        for start, arrived in zip(self.inputs, inputs, strict=False):  # prods are not expected
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
        """Return the completeness at ports of operators whose results others read, else None.

        These operators extrapolate their results before they pass them on.
        """
        if not any(o.routes for o in self.operators):
            return [None for _ in self.ports]
        shares = zip(self.ports, self.expected(inputs), strict=True)
        return [a if self.operators[operator].routes else None for (operator, _), a in shares]

    def only_leaves(self, number: int) -> bool:
        """Return whether no operator reads the results, each of which leaves as its window ends."""
        plan, routes = self.operators[number].plan, self.operators[number].routes
        return plan.flush is None and not routes and plan.second is None


def _together(several: Sequence[Completeness | None]) -> Completeness | None:
    """Return the completeness of streams that flow together, None if that of one is unknown."""
    known = [a for a in several if a is not None]
    return Completeness.together(known) if known and len(known) == len(several) else None


def _bounded(marks: Watermarks, prods: Sequence[Prod], operator: int) -> Watermarks:
    """Return watermarks no later than the last window end that prods ask for."""
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
    """Return the watermarks of a port; if its streams have ended, those that close all windows."""
    if marks.low is None or marks.low < END or inputs is None:
        return marks
    newest = max((i.newest for i in inputs if i.newest is not None), default=None)
    return plan.ended(marks, newest, Watermarks.least([i.marks for i in inputs]))
