"""The dataflow of a query: inputs, operators, outputs, and the routes rows take between them.

A union is no operator: it is several routes to one port. Progress flows along the same routes, as a
pure function of how far the inputs are (semantics 7): a port is as far as the slowest stream that
flows into it, and each operator says how far its results are when its ports are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Protocol

import numpy as np
import pyarrow as pa

from lowwater.control import Arrived, Marks, Prod, Reached, Sidelined, Standing
from lowwater.kernels.expecting import results, together
from lowwater.kernels.operators import OperatorPlan
from lowwater.kernels.plan import WindowPlan
from lowwater.windows import FOREVER, Axis, Landmark


class Transform(Protocol):
    """A step between operators: a filter, or other columns."""

    @property
    def schema(self) -> pa.Schema:
        """The columns after the step."""

    def kept(self, table: pa.Table) -> np.ndarray | None:
        """Say which rows a filter keeps; None if it is no filter."""

    def origin(self, column: str) -> str | None:
        """Return the column before the step that one after it is, as it was."""

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the rows after the step."""


@dataclass(frozen=True)
class Route:
    """The way of rows to a port of an operator.

    `on` names the column that is their time, `by` what they progress on: the same, or two times.
    `hold` is the operator that keeps rows which are put aside on the way, if any are.
    """

    operator: int
    port: int
    on: str
    steps: tuple[Transform, ...] = ()
    by: str = ""
    hold: int | None = None


@dataclass(frozen=True)
class Input:
    """A stream that comes from outside.

    `before` are steps that make the columns that progress is measured on. `source`, `tail`,
    `mark_when`, `mark_since` and `consistent` are what its progress policy asks for (see
    `progress.Tracker`). `max_ahead` (ticks) bounds how far a row may be ahead of the newest, or of
    the wall clock. `prods` says that its rows are prods, and which columns name groups;
    `bins` how wide the bins are (ticks) in which arrivals are counted, if they are, and `granule`
    those in which late degrees are.
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

    `level` is how many operators rows pass before it; `times` are the columns of its results that
    progress.
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
    """A whole plan. Operators stand in an order in which rows can only go forward."""

    inputs: tuple[Input, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[Output, ...]

    def with_shards(self, shards: int) -> Dataflow:
        """Return the plan for so many shards of each operator."""
        cut = (replace(o, plan=o.plan.with_shards(shards)) for o in self.operators)
        return replace(self, operators=tuple(cut))

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
        """How many routes lead to each port; rows that were put aside are of the same stream."""
        found = dict.fromkeys(self.ports, 0)
        starts = [i.routes for i in self.inputs]
        starts += [o.routes for n, o in enumerate(self.operators) if n not in self.holds]
        for route in chain.from_iterable(starts):
            found[route.operator, route.port] += 1
        return found

    @cached_property
    def holds(self) -> Mapping[int, int]:
        """The operators that keep rows which are put aside, and for which operator each does."""
        routes = chain.from_iterable(i.routes for i in self.inputs)
        return {r.hold: r.operator for r in routes if r.hold is not None}

    @property
    def levels(self) -> int:
        """How many operators rows pass at most."""
        return 1 + max((o.level for o in self.operators), default=0)

    @cached_property
    def contradictable(self) -> frozenset[int]:
        """The operators whose late rows contradict a punctuation of the stream."""
        said = (i for i in self.inputs if i.mark_when is not None)
        return frozenset(route.operator for i in said for route in i.routes)

    @cached_property
    def front(self) -> frozenset[int]:
        """The operators that rows from outside reach first."""
        return frozenset(route.operator for i in self.inputs for route in i.routes)

    def in_force(self, standing: Standing, operator: int, port: int) -> Marks:
        """Return the marks in force at a port."""
        number = self.numbers[operator, port]
        return standing.ports[number] if standing.ports else Marks()

    def reach(self, inputs: Sequence[Reached], held: Sequence[Sidelined] = ()) -> tuple[Marks, ...]:
        """Return the marks of all ports when the inputs are so far, and what is held is not."""
        coming: dict[tuple[int, int], list[Marks]] = {port: [] for port in self.ports}
        directly: dict[int, list[Reached]] = {}
        for start, reached in zip(self.inputs, inputs, strict=True):
            marks = Marks(FOREVER) if reached.ended else reached.marks
            for route in start.routes:
                coming[route.operator, route.port].append(marks)
                directly.setdefault(route.operator, []).append(reached)
        found: list[Marks] = []
        for number, operator in enumerate(self.operators):
            plan = operator.plan
            if number in self.holds:
                found.append(Marks())
                continue
            known = [Marks.least(coming[number, p]) for p in range(plan.ports)]
            mine = [
                _final(plan, plan.usable(p, marks), directly.get(number))
                for p, marks in enumerate(known)
            ]
            if number in self.holds.values():
                aside = [h for h in held if h.operator == number]
                known, mine = ([m.holding_back(aside) for m in ms] for ms in (known, mine))
            found += mine
            # What results progress by is not rounded to where this operator acts.
            out = plan.marks_out([replace(m, low=k.low) for m, k in zip(mine, known, strict=True)])
            for route in operator.routes:
                coming[route.operator, route.port].append(out[route.by or route.on])
        for hold, held_for in self.holds.items():
            # What is late is decided when a row comes, by how far the stream itself is.
            found[self.numbers[hold, 0]] = Marks(found[self.numbers[held_for, 0]].nominal)
        return tuple(found)

    def as_if_ended(self, inputs: Sequence[Reached], prods: Sequence[Prod]) -> tuple[Marks, ...]:
        """Return the marks of all ports that prods are answered by.

        Operators whose results others need go by the end of the streams: whatever they hold may
        be of use. One whose results only leave need not look beyond what it is asked for.
        """
        ended = self.reach([replace(i, ended=True) for i in inputs])
        return tuple(
            _bounded(marks, prods, operator) if self.only_leaves(operator) else marks
            for (operator, _), marks in zip(self.ports, ended, strict=True)
        )

    def expected(self, inputs: Sequence[Arrived | None]) -> list[Arrived | None]:
        """Return which share of the rows at each port has arrived, None where it is not known."""
        coming: dict[tuple[int, int], list[Arrived | None]] = {port: [] for port in self.ports}
        for start, arrived in zip(self.inputs, inputs, strict=False):  # prods are not expected
            for route in start.routes:
                coming[route.operator, route.port].append(arrived)
        found: list[Arrived | None] = []
        for number, operator in enumerate(self.operators):
            if number in self.holds:
                found.append(None)
                continue
            mine = [together(coming[number, p]) for p in range(operator.plan.ports)]
            found += mine
            out = results(operator.plan, mine)
            for route in operator.routes:
                coming[route.operator, route.port].append(out)
        return found

    def foreseen(self, inputs: Sequence[Arrived | None]) -> list[Arrived | None]:
        """Return the same for operators whose results others need: they complete them."""
        if not any(o.routes for o in self.operators):
            return [None for _ in self.ports]
        found = zip(self.ports, self.expected(inputs), strict=True)
        return [a if self.operators[operator].routes else None for (operator, _), a in found]

    def only_leaves(self, number: int) -> bool:
        """Whether results go nowhere but out, each as soon as its own window ends."""
        operator = self.operators[number]
        at_once = getattr(operator.plan, "smooth", None) is None
        return at_once and not operator.routes and getattr(operator.plan, "second", None) is None


def _bounded(marks: Marks, prods: Sequence[Prod], operator: int) -> Marks:
    """Return marks no further than where windows end that are asked for."""
    ends = [p.upto for p in prods if p.asks(operator)]
    if not ends:
        return Marks()
    known = [end for end in ends if end is not None]
    if marks.low is None or len(known) < len(ends):
        return marks
    return replace(marks, low=min(marks.low, max(known)), ranges=())


def _final(plan: OperatorPlan, marks: Marks, inputs: Sequence[Reached] | None) -> Marks:
    """Return marks as they are when a stream has ended.

    Every window that holds a row closes; landmark windows, which have no end, stop at the window of
    the last row (semantics 11), or where a mark was before.
    """
    if marks.low is None or marks.low < FOREVER or inputs is None:
        return marks
    if not isinstance(plan, WindowPlan) or not isinstance(plan.spec, Landmark):
        return marks
    newest = [i.newest for i in inputs if i.newest is not None]
    if not newest:
        return marks
    last = Marks(int(plan.spec.end(plan.spec.first(max(newest)))), marks.sources)
    return last.raised(plan.usable(0, Marks.least([i.marks for i in inputs])))
