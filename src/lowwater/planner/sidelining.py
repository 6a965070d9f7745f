"""Plans sidelining: which queries allow it, and the operators that hold rows of a burst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lowwater.dataflow.graph import Dataflow, Input, Operator, Route
from lowwater.errors import SpecError
from lowwater.event_clock import EventClock
from lowwater.operators.batch import KEPT
from lowwater.operators.hold import HoldPlan
from lowwater.operators.operator import OperatorPlan
from lowwater.planner.compatibility import refuse
from lowwater.planner.physical_plan import PhysicalPlan, measured_schema
from lowwater.sidelining.policy import Sideline
from lowwater.sidelining.sideliner import BurstWindow, HoldPoint, Sideliner

Sidelining = bool | Sideline
"""Whether rows of a burst are held, or the policy that releases held rows."""
_NEEDED = (
    "sideline= needs windows of a fixed range and slide directly over the streams, because they "
    "may close before earlier ones"
)


def sidelined(assembly: PhysicalPlan, sideline: Sidelining, prods: Any) -> PhysicalPlan:
    """Return a plan that holds rows of a burst; return `assembly` if `sideline` is False."""
    how = sideline_of(sideline)
    if how is None:
        return assembly
    if prods is None and how.newest_first is None:
        raise SpecError(
            "sideline= holds rows that follow an early result, and early= asks for none; "
            "give early=lw.early_every('1 second'), hold the rows of a backlog, "
            "sideline=lw.sideline(newest_first='10 seconds'), or leave sideline= out"
        )
    _check(assembly.flow)
    flow = _laid_out(assembly.flow)
    return replace(assembly, flow=flow, sideliner=_sideliner(flow, how))


def sideline_of(sideline: Sidelining) -> Sideline | None:
    """Return the policy that releases held rows; None if no rows are held."""
    if not isinstance(sideline, bool | Sideline):
        raise SpecError(
            f"sideline={sideline!r} is neither True nor a pace for held rows; give "
            f"sideline=True or sideline=lw.sideline(every=3, max_delay='1 minute')"
        )
    if sideline is True:
        return Sideline()
    return sideline or None


def _check(flow: Dataflow) -> None:
    """Raise SpecError if the windows or the inputs of `flow` do not allow sidelining."""
    for number in sorted(flow.front):
        refuse("sideline", flow.operators[number].plan.labels, _NEEDED)
    if any(i.axis.kind != "time" for i in flow.inputs):
        raise SpecError(
            "sideline= measures by the clock whether a stream is behind, but the windows lie over "
            "numbers; take windows over time, or leave sideline= out"
        )


def _laid_out(flow: Dataflow) -> Dataflow:
    """Return `flow` with a hold operator on each route from an input.

    Rows only go to operators with larger numbers, so hold operators have the smallest numbers.
    """
    ways = [(n, route) for n, i in enumerate(flow.inputs) for route in i.routes]
    shift = len(ways)
    numbered = iter(range(shift))
    inputs = tuple(
        replace(i, routes=tuple(replace(r, hold=next(numbered)) for r in _shifted(i.routes, shift)))
        for i in flow.inputs
    )
    holds = [
        _hold(number, flow.inputs[start], flow.operators[route.operator].plan, route, shift)
        for number, (start, route) in enumerate(ways)
    ]
    others = [
        replace(
            o,
            plan=_with_holes(o.plan) if n in flow.front else o.plan,
            level=o.level + 1,
            routes=_shifted(o.routes, shift),
        )
        for n, o in enumerate(flow.operators)
    ]
    outputs = tuple(replace(o, operator=o.operator + shift) for o in flow.outputs)
    return Dataflow(inputs, (*holds, *others), outputs)


def _with_holes(plan: OperatorPlan) -> OperatorPlan:
    """Return the window plan `plan`, changed to allow held rows."""
    return replace(plan, ranged=True, sidelined=True)  # type: ignore[type-var]


def _shifted(routes: Sequence[Route], shift: int) -> tuple[Route, ...]:
    return tuple(replace(r, operator=r.operator + shift) for r in routes)


def _hold(number: int, start: Input, plan: OperatorPlan, route: Route, shift: int) -> Operator:
    """Return the operator that holds rows of the input `start` on their `route` to windows."""
    ((_, window),) = plan.fixed_windows
    schema = measured_schema(start)
    if KEPT in schema.names:
        schema = schema.remove(schema.get_field_index(KEPT))
    hold = HoldPlan(schema, start.axis, window, _keys(plan, route) or (start.axis.column,))
    name = f"hold {number + 1}" if number else "hold"
    return Operator(hold, name, 0, (start.axis,), _shifted([route], shift))


def _keys(plan: OperatorPlan, route: Route) -> tuple[str, ...]:
    """Return the group keys' names before the steps of `route`; () if a step computes a key."""
    columns: list[str | None] = list(plan.group_keys)
    for step in reversed(route.steps):
        columns = [None if column is None else step.origin(column) for column in columns]
    return () if None in columns else tuple(column for column in columns if column is not None)


def _sideliner(flow: Dataflow, how: Sideline) -> Sideliner:
    windows = []
    for number in sorted(flow.front):
        plan = flow.operators[number].plan
        ((_, window),) = plan.fixed_windows
        targets = enumerate({route.operator for route in i.routes} for i in flow.inputs)
        feeding = tuple(n for n, operators in targets if number in operators)
        windows.append(BurstWindow(number, flow.numbers[number, 0], window, feeding))
    holds = (
        HoldPoint(route.hold, flow.numbers[route.hold, 0], n)
        for n, start in enumerate(flow.inputs)
        for route in start.routes
        if route.hold is not None
    )
    return Sideliner(how, EventClock(), tuple(windows), tuple(holds))
