"""Windows that may be left out under load: which queries allow it, and where rows are dropped."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lowwater.errors import ShedWarning, SpecError
from lowwater.kernels import Dataflow, OperatorPlan, WindowPlan
from lowwater.kernels.distinct import DistinctPlan
from lowwater.kernels.joins import JoinPlan
from lowwater.kernels.passing import PassPlan
from lowwater.kernels.skipping import reach
from lowwater.query.assembly import Assembly
from lowwater.shedding import LoadShedder, Root, Shedding, Slots, gap_of, results_in
from lowwater.windows import Shared, Sliding

Shed = Shedding | None
"""How windows are left out, if they are."""


def shedding(assembly: Assembly, shed: Shed, sideline: Any = None) -> Assembly:
    """Return a query whose windows are left out under load, if a run was asked to."""
    if shed is None:
        return assembly
    if not isinstance(shed, Shedding):
        raise SpecError(
            f"shed={shed!r} does not say how; give shed=lw.shed(latency='5 seconds', max_gap=10), "
            f"or lw.shed(p=0.3, max_gap=10) for a share of your own"
        )
    if sideline:
        raise SpecError(
            "sideline= lets rows of a burst wait and shed= leaves them out; choose one of the two"
        )
    flow = assembly.flow
    _check(flow)
    if len({i.axis.kind for i in flow.inputs if i.routes}) > 1:
        raise SpecError(
            "shed= decides over stretches of one time for all windows of a run, and some of these "
            "lie over time, others over numbers; run them apart"
        )
    roots = tuple(_roots(flow, shed.max_gap))
    made = LoadShedder(shed, roots, Slots.of(roots), _inputs(flow))
    check_gap(made)
    if shed.latency is not None and any(flow.inputs[n].axis.kind != "time" for n in made.inputs):
        raise SpecError(
            "shed(latency=...) is about time, and the windows lie over numbers; take windows over "
            "time, or a share of your own, lw.shed(p=0.3)"
        )
    advice = late_only(made)
    if advice is not None:
        warnings.warn(advice, ShedWarning, stacklevel=4)
    return replace(assembly, shedder=made)


def _check(flow: Dataflow) -> None:
    """Refuse a query in which leaving windows out is not defined, or would make wrong results."""
    for output in flow.outputs:
        plan = flow.operators[output.operator].plan
        if not isinstance(plan, WindowPlan):
            what = "rows" if isinstance(plan, PassPlan) else f"the rows of a {plan.word}"
            raise SpecError(
                f"shed= leaves whole windows out, and {what} leave the query as they are; end it "
                f"with window(...).agg(...), or leave shed= out"
            )
    for operator in flow.operators:
        found = _obstacle(operator.plan)
        if found is not None:
            raise SpecError(f"shed= does not fit this query: {found}")


def _obstacle(plan: OperatorPlan) -> str | None:
    """Say why windows cannot be left out, and what would help."""
    if isinstance(plan, JoinPlan) and plan.how != "inner":
        return (
            f"below a {plan.how!r} join, a row that is left out would make its partners come out "
            f"alone, which is wrong; take how='inner', or shed before the join, in a query of its "
            f"own"
        )
    if isinstance(plan, DistinctPlan) and plan.within:
        return (
            "distinct(within=...) lets a row through if none near it came, which one may have that "
            "is left out; take distinct() of equal times, or put it behind the windows"
        )
    if not isinstance(plan, WindowPlan):
        return None
    kind = type(plan.spec).__name__
    found = {
        "windows count rows, so each would hold other rows if some were left out; take windows "
        "over time": plan.numbering is not None,
        f"a window of the kind {kind} does not lie where its spec says, or has no end; take a "
        f"fixed range and slide": not isinstance(plan.spec, Sliding | Shared),
        "smooth= gives results out later than their windows close; leave smooth= out": (
            plan.smooth is not None
        ),
        "windows lie on two times; take windows on one": plan.second is not None,
        "revise_for= keeps windows open for late rows; leave one of the two out": plan.revise > 0,
        "lw.punctuated(since=...) closes windows before earlier ones; take marks without since=": (
            plan.ranged
        ),
    }
    return next((why for why, so in found.items() if so), None)


def _roots(flow: Dataflow, max_gap: Any) -> Iterator[Root]:
    """Yield the windows whose results leave, each as it is for the drop."""
    names = {o.name: o.operator for o in flow.outputs}
    for name, number in names.items():
        plan = flow.operators[number].plan
        assert isinstance(plan, WindowPlan)  # noqa: S101
        gap = gap_of(name, max_gap, names)
        back = _back(flow, number)
        spec = plan.spec
        windows = spec.named if isinstance(spec, Shared) else (("", spec),)
        for called, window in windows:
            assert isinstance(window, Sliding)  # noqa: S101
            results = results_in(gap, window.slide)
            yield Root(number, window, back, results, called or name, name)


def _back(flow: Dataflow, number: int) -> int:
    """Return how far before a row at an operator the rows from outside may lie that made it."""
    found = [0]
    for below, operator in enumerate(flow.operators):
        if any(route.operator == number for route in operator.routes):
            found.append(_made_from(operator.plan) + _back(flow, below))
    return max(found)


def _made_from(plan: OperatorPlan) -> int:
    """Return how far before a result the rows may lie that an operator made it from."""
    if not isinstance(plan, WindowPlan):
        return reach(plan)[1]
    spec = plan.spec
    windows = [w for _, w in spec.named] if isinstance(spec, Shared) else [spec]
    return max(w.range - 1 for w in windows if isinstance(w, Sliding))


def _inputs(flow: Dataflow) -> dict[int, int]:
    """Return the streams that flow into windows, and to how many operators rows of each go."""
    return {n: len(i.routes) for n, i in enumerate(flow.inputs) if i.routes}


def check_gap(made: LoadShedder) -> None:
    """Refuse a gap that allows nothing, and a share that the gap does not allow."""
    most, shed = made.most, made.how
    if most < 1:
        least = ", ".join(f"{r.name} {made.slots.slide // r.spec.slide}" for r in made.roots)
        raise SpecError(
            f"shed(max_gap={shed.max_gap!r}) allows no window to be left out: all queries share "
            f"one drop, which leaves out at least so many results of each: {least}. Allow as many"
        )
    if shed.p is not None and shed.p > most / (most + 1):
        raise SpecError(
            f"shed(p={shed.p}, max_gap={shed.max_gap!r}): of {most + 1} windows one must come, so "
            f"p is at most {most / (most + 1):.3f}; take less, or allow a longer gap"
        )


def late_only(made: LoadShedder) -> str | None:
    """Say that no row can be dropped early, if so, and which gap would help (semantics 22)."""
    params, most = made.slots.params, made.most
    if most >= params.overlap:
        return None
    need = {r.name: params.overlap * (made.slots.slide // r.spec.slide) for r in made.roots}
    told = ", ".join(f"{gap} for {name}" for name, gap in need.items())
    return (
        f"shed(max_gap={made.how.max_gap!r}): every row is in {params.overlap} windows or more, "
        f"and only {most} in a row may be left out, so no row can be dropped before it is worked "
        f"on: results are left out, and little is saved. max_gap from {told} would help"
    )


def shed_lines(made: LoadShedder, flow: Dataflow) -> list[str]:
    """Say where the drop sits, and why there."""
    say = flow.inputs[next(iter(made.inputs))].axis.say
    params = made.slots.params
    how = (
        f"a share of {made.how.p}"
        if made.how.latency is None
        else f"as results no older than {say(made.how.latency)} need"
    )
    named = ", ".join(dict.fromkeys(flow.operators[r.operator].name for r in made.roots))
    lines = [
        f"shed        windows of {named}: {how}, at most {made.most} in a row",
        f"            ω = {say(params.size)} of rows are needed, every δ = {say(params.slide)}",
    ]
    advice = late_only(made)
    if advice is not None:
        return [*lines, f"            {advice}"]
    return [*lines, *(f"            {line}" for line in _places(made, flow))]


def _places(made: LoadShedder, flow: Dataflow) -> Iterator[str]:
    """Say where rows are dropped: before all steps but those that progress is measured on."""
    for number in made.inputs:
        start = flow.inputs[number]
        name = f"input {number + 1}" if len(flow.inputs) > 1 else "the stream"
        after = f", after {'; '.join(map(str, start.before))} (its time)" if start.before else ""
        steps = [str(step) for route in start.routes for step in route.steps]
        before = f", before {'; '.join(dict.fromkeys(steps))}" if steps else ""
        yield f"rows of {name} are dropped as they come in{after}{before}"
