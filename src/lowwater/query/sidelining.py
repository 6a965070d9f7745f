"""Rows that may be put aside: where in a query they wait, and which queries allow it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lowwater.control import Arrived, Entry
from lowwater.control.controller import SIDELINE
from lowwater.errors import SpecError
from lowwater.kernels import Dataflow, Input, Operator, OperatorPlan, Route, WindowPlan
from lowwater.kernels.holding import HoldPlan
from lowwater.kernels.rows import KEPT
from lowwater.prodding import EventClock, Sideline, Sideliner
from lowwater.prodding.sidelining import Hit, Hold
from lowwater.query.assembly import Assembly
from lowwater.windows import Sliding

Sidelining = bool | Sideline
"""Whether rows of a burst are put aside, or how they are worked off."""


def sidelined(assembly: Assembly, sideline: Sidelining, prods: Any) -> Assembly:
    """Return a query in which rows of a burst are put aside, if a run was asked to."""
    how = sideline_of(sideline)
    if how is None:
        return assembly
    if prods is None:
        raise SpecError(
            "sideline= puts rows aside that follow an early result, and prods= asks for none; "
            "give prods=lw.every('1 second'), or leave sideline= out"
        )
    _check(assembly.flow)
    flow = _laid_out(assembly.flow)
    return replace(assembly, flow=flow, sideliner=_sideliner(flow, how))


def sideline_of(sideline: Sidelining) -> Sideline | None:
    """Return how what is put aside is worked off; None if nothing is."""
    if not isinstance(sideline, bool | Sideline):
        raise SpecError(
            f"sideline={sideline!r} is neither True nor how to work off what is put aside; give "
            f"sideline=True or sideline=lw.sideline(every=3, max_delay='1 minute')"
        )
    if sideline is True:
        return Sideline()
    return sideline or None


def without_waiting(
    arrived: Sequence[Arrived | None],
    flow: Dataflow,
    before: Entry,
    measured: Sequence[Mapping[str, Any]],
) -> list[Arrived | None]:
    """Return what has arrived of each input and does not wait, after an epoch."""
    found = list(arrived)
    for number, start in enumerate(flow.inputs):
        waiting = [_waiting(route.hold, before, measured) for route in start.routes]
        for stretch in before.standing.held:
            rows = max((w.get(stretch.number, 0) for w in waiting), default=0)
            one = found[number]
            if rows and one is not None:
                found[number] = one.without(stretch.start, stretch.end, rows)
    return found


def _waiting(
    hold: int | None, before: Entry, measured: Sequence[Mapping[str, Any]]
) -> Counter[int]:
    """Return how many rows wait in a hold, by stretch; those called for are on their way."""
    found: Counter[int] = Counter()
    queues = before.prodding.get(SIDELINE, {}).get("queues", {}).get(str(hold), {})
    for stretch, _, rows in (entry for queue in queues.values() for entry in queue):
        found[stretch] += rows
    for m in measured:
        if m.get("came") and m["operator"] == hold:
            found.update(dict(m["came"]))
    return found


def _check(flow: Dataflow) -> None:
    """Refuse a query whose windows cannot close before earlier ones."""
    for number in sorted(flow.front):
        found = _obstacle(flow.operators[number].plan)
        if found is not None:
            raise SpecError(
                f"sideline= needs windows of a fixed range and slide right behind the streams, "
                f"which may close before earlier ones; here {found}. Leave sideline= out"
            )
    if any(i.mark_since is not None for i in flow.inputs):
        raise SpecError(
            "sideline= says itself which stretches of time are complete, and so does "
            "lw.punctuated(since=...); leave one of the two out"
        )
    if any(i.axis.kind != "time" for i in flow.inputs):
        raise SpecError(
            "sideline= tells by the clock that a stream is behind, and the windows lie over "
            "numbers; take windows over time, or leave sideline= out"
        )


def _obstacle(plan: OperatorPlan) -> str | None:
    """Say why windows cannot close before earlier ones, or that there are none."""
    if not isinstance(plan, WindowPlan):
        return f"there is {'an' if plan.word[0] in 'aeiou' else 'a'} {plan.word}"
    found = {
        "windows of several names share their panes": plan.several,
        "windows lie over row numbers": plan.numbering is not None,
        f"the window is a {type(plan.spec).__name__}": not isinstance(plan.spec, Sliding),
        "an aggregate by init/incr/final is kept per window": plan.keeping != "panes",
        "smooth= gives results out little by little": plan.smooth is not None,
        "windows lie on two times": plan.second is not None,
        "sources close their own groups": plan.sources_close_groups,
        "revise_for= keeps windows for late rows": plan.revise > 0,
    }
    return next((why for why, so in found.items() if so), None)


def _laid_out(flow: Dataflow) -> Dataflow:
    """Return a dataflow with an operator on each way from outside, where rows can wait.

    Operators stand in an order in which rows go forward, so these come first.
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
    """Return windows as they are where their rows may be put aside."""
    assert isinstance(plan, WindowPlan)  # noqa: S101
    return replace(plan, ranged=True, sidelined=True)


def _shifted(routes: Sequence[Route], shift: int) -> tuple[Route, ...]:
    return tuple(replace(r, operator=r.operator + shift) for r in routes)


def _hold(number: int, start: Input, plan: OperatorPlan, route: Route, shift: int) -> Operator:
    """Return the operator where rows of an input wait on their way to windows."""
    assert isinstance(plan, WindowPlan)  # noqa: S101
    assert isinstance(plan.spec, Sliding)  # noqa: S101
    schema = start.before[-1].schema if start.before else start.schema
    if KEPT in schema.names:
        schema = schema.remove(schema.get_field_index(KEPT))
    hold = HoldPlan(schema, start.axis, plan.spec, _keys(plan, route) or (start.axis.column,))
    name = f"hold {number + 1}" if number else "hold"
    return Operator(hold, name, 0, (start.axis,), _shifted([route], shift))


def _keys(plan: WindowPlan, route: Route) -> tuple[str, ...]:
    """Return the keys of windows as they were before the steps; none if one was made there."""
    found = []
    for key in plan.keys:
        column: str | None = key
        for step in reversed(route.steps):
            column = None if column is None else step.origin(column)
        if column is None:
            return ()
        found.append(column)
    return tuple(found)


def _sideliner(flow: Dataflow, how: Sideline) -> Sideliner:
    windows, holds = [], []
    for number in sorted(flow.front):
        plan = flow.operators[number].plan
        assert isinstance(plan, WindowPlan)  # noqa: S101
        assert isinstance(plan.spec, Sliding)  # noqa: S101
        feeding = [
            n for n, i in enumerate(flow.inputs) if any(r.operator == number for r in i.routes)
        ]
        windows.append(Hit(number, flow.numbers[number, 0], plan.spec, tuple(feeding)))
    for n, start in enumerate(flow.inputs):
        for route in start.routes:
            assert route.hold is not None  # noqa: S101
            holds.append(Hold(route.hold, flow.numbers[route.hold, 0], n))
    return Sideliner(how, EventClock(), tuple(windows), tuple(holds))
