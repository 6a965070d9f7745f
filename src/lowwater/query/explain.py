"""What a query means and how it will be run, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from lowwater.kernels import ARRIVAL, WindowPlan
from lowwater.prodding import Sideline
from lowwater.query.adapting import refuse_unfed
from lowwater.query.assembly import Assembly
from lowwater.query.quality import explained
from lowwater.query.shedding import shed_lines
from lowwater.windows import (
    Axis,
    Landmark,
    Session,
    Shared,
    SlideByRow,
    Sliding,
    WindowClass,
    classify,
    describe,
)

_CLASSES = {
    "CF": "context free: a row's windows follow from the row alone",
    "FCF": "forward-context free: a row's windows follow from it and the rows before it",
    "FCB": "forward-context bounded: rows still to come, within range, make a row's windows",
    "FCU": "forward-context unbounded: rows still to come decide over a row's windows",
}


def explain(assembly: Assembly, aside: Sideline | None = None) -> str:
    """Describe a query: each operator, what it works on and how far that is known.

    `aside` says how rows of a burst are worked off, if they are put aside.
    """
    refuse_unfed(assembly)
    flow = assembly.flow
    several = len(flow.operators) > 1 or len(flow.inputs) > 1
    told = []
    for number, operator in enumerate(flow.operators):
        starts = [
            (i.before + route.steps, f"input {n + 1}" if several else "", policy)
            for n, (i, policy) in enumerate(zip(flow.inputs, assembly.policies, strict=True))
            for route in i.routes
            if route.operator == number
        ]
        rows = [line for steps, name, _ in starts for line in _rows(steps, name)]
        rows += [
            line
            for other in flow.operators
            for route in other.routes
            if route.operator == number
            for line in _rows(route.steps, f"results of {other.name}")
        ]
        plan = operator.plan
        lines = rows + (_window_lines(plan) if isinstance(plan, WindowPlan) else plan.explain())
        lines += [f"progress    {_said(policy)}" for _, _, policy in starts]
        decisions = () if assembly.adapter is None else assembly.adapter.decisions
        for one in decisions:
            lines += explained(one, plan.axes[0]) if one.operator == number else []
        if isinstance(plan, WindowPlan) and plan.sources_close_groups:
            lines.append(f"            the mark of each {plan.source} closes its own groups")
        if aside is not None and starts and isinstance(plan, WindowPlan):
            lines.append(f"put aside   {_aside(aside, plan)}")
        head = [f"-- {operator.name}"] if several else []
        told.append("\n".join([*head, *lines]))
    if assembly.shedder is not None:
        told += shed_lines(assembly.shedder, flow)
    return "\n".join(told)


def _aside(how: Sideline, plan: WindowPlan) -> str:
    return (
        f"rows of a burst behind an early result; one is worked off for every {how.every} new "
        f"ones, each within {plan.axis.say(how.max_delay)}"
    )


def _said(spec: Any) -> str:
    """Say a spec as it might have been written: without what was left out."""
    if not is_dataclass(spec) or isinstance(spec, type):
        return str(spec)
    given = [
        (f.name, getattr(spec, f.name))
        for f in fields(spec)
        if f.repr and getattr(spec, f.name) not in (None, f.default, ())
    ]
    alone = len(given) == 1
    words = [
        _said(value) if is_dataclass(value) else repr(value) if alone else f"{name}={value!r}"
        for name, value in given
    ]
    return f"{type(spec).__name__.lower()}({', '.join(words)})"


def _rows(steps: Sequence[Any], origin: str) -> list[str]:
    """Say where rows come from and what is done to them first."""
    said = ([origin] if origin else []) + [str(step) for step in steps]
    return [f"{'rows' if i == 0 else '':<12}{text}" for i, text in enumerate(said)]


def _window_lines(plan: WindowPlan) -> list[str]:
    wclass = _class(plan)
    lines = [
        f"window      {window_words(plan)}",
        f"class       {wclass} ({_CLASSES[wclass]})",
        f"group by    {', '.join(plan.keys) or '(none)'}",
        f"aggregates  {', '.join(f'{n} = {_said(a)}' for n, a in plan.aggregates.items())}",
        *(f"error       {n}: {a.error}" for n, a in plan.aggregates.items() if a.error),
        f"state       {_state(plan)}",
    ]
    if plan.revise:
        span = plan.axis.say(plan.revise)
        lines.append(f"revised     by late rows, until the mark is {span} beyond a window's end")
    if plan.sequential:
        lines.append("shards      one, since all rows are counted together")
    return lines


def _class(plan: WindowPlan) -> WindowClass:
    if plan.numbering == "rank":
        return "FCU"
    if plan.numbering == "arrival":
        return "FCF" if plan.partition else "CF"
    return classify(plan.spec)


def window_words(plan: WindowPlan) -> str:
    """Say what the windows of a plan are."""
    spec, say, on = plan.spec, plan.bounds.say, plan.axis.column
    by = f", partitioned by {', '.join(plan.partition)}" if plan.partition else ""
    if plan.numbering is not None:
        assert isinstance(spec, Sliding)  # noqa: S101
        order = "order of arrival" if plan.numbering == "arrival" else f"order of {on}"
        return f"{describe(spec)}: range {spec.range} rows, slide {spec.slide} rows, in {order}{by}"
    if isinstance(spec, Shared):
        sizes = (f"{n} (range {say(w.range)}, slide {say(w.slide)})" for n, w in spec.named)
        return f"{describe(spec)}: {', '.join(sizes)}, on {on}{by}"
    if isinstance(spec, Session):
        return f"session: gap {say(spec.gap)}, on {on}{by}"
    if isinstance(spec, SlideByRow):
        return f"{describe(spec)}: range {say(spec.range)} on {on}, {_ending(plan, spec)}{by}"
    size = "unbounded" if isinstance(spec, Landmark) else say(spec.range)
    return f"{describe(spec)}: range {size}, slide {say(spec.slide)}, on {on}{by}"


def _ending(plan: WindowPlan, spec: SlideByRow) -> str:
    if spec.slide_on is None:
        return (
            "ending at every row" if spec.slide == 1 else f"ending at every {spec.slide}th by rank"
        )
    if spec.slide_on == ARRIVAL:
        return f"ending at every {spec.slide}th row that arrives"
    other = Axis(spec.slide_on, plan.schema.field(spec.slide_on).type)
    return f"ending where {spec.slide_on} is a multiple of {other.say(spec.slide)}"


def _state(plan: WindowPlan) -> str:
    """Say what is kept, and why (OOP 5.5)."""
    spec, parts = plan.spec, ", ".join(type(p).__name__ for p in plan.parts)
    buffered = [type(p).__name__ for p in plan.parts if not p.bounded]
    more = f"; all values, since these do not shrink: {', '.join(buffered)}" if buffered else ""
    kept = f"({parts}){more}"
    if plan.keeping == "windows":
        return f"one partial per group and window, since not all aggregates combine {kept}"
    if plan.numbering is not None:
        held = "rows until the mark has passed them, then " if plan.numbering == "rank" else ""
        return f"{held}panes of row numbers, and how many rows there were {kept}"
    if isinstance(spec, Session):
        return f"one partial per open session {kept}"
    if isinstance(spec, SlideByRow):
        return f"one partial per group and position, for one range {kept}"
    if isinstance(spec, Landmark):
        return f"one partial per group for closed panes, and open panes of one slide {kept}"
    count = "shared by all" if isinstance(spec, Shared) else f"{spec.panes} to a window"
    return f"panes of {plan.axis.say(spec.pane)}, {count}, one partial per group and pane {kept}"
