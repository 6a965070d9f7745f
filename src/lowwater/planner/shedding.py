"""Plans load shedding: which queries may drop windows, and where rows are skipped."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from lowwater.control.drop import CLASSES
from lowwater.dataflow.graph import Dataflow, Transform
from lowwater.errors import ShedWarning, SpecError
from lowwater.operators.window.sample_weights import can_be_sampled
from lowwater.planner.compatibility import refuse
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.shedding.drop_geometry import Root, Slots
from lowwater.shedding.policy import ShedPolicy, gap_of, results_in
from lowwater.shedding.sample import POWERS
from lowwater.shedding.sampler import RowSampler
from lowwater.shedding.shedder import LoadShedder

Shed = ShedPolicy | None
"""The policy that drops windows, or None."""


def shedding(assembly: PhysicalPlan, shed: Shed, sideline: Any = None) -> PhysicalPlan:
    """Return `assembly` with load shedding by the policy `shed`; unchanged if `shed` is None."""
    if shed is None:
        return assembly
    if not isinstance(shed, ShedPolicy):
        raise SpecError(
            f"shed={shed!r} is not a policy; give shed=lw.shed(latency='5 seconds', max_gap=10), "
            f"or lw.shed(share=0.3, max_gap=10) for a fixed share"
        )
    if sideline:
        refuse("shed", {"sideline"}, "shed= and sideline=")
    flow = assembly.flow
    _check(flow)
    if len({i.axis.kind for i in flow.inputs if i.routes}) > 1:
        raise SpecError(
            "shed= decides over intervals of one time for all windows of a run, but some of these "
            "lie over time, others over numbers; run them as separate queries"
        )
    check_weights(flow, shed)
    if shed.fair_by is not None:
        check_fair_by(flow, shed.fair_by, f"shed(fair_by={shed.fair_by!r})")
        flow = replace(flow, fair_by=shed.fair_by)
        assembly = replace(assembly, flow=flow)
    roots = tuple(_roots(flow, shed.max_gap))
    shedder = LoadShedder(
        shed,
        roots,
        Slots.of(roots),
        {n: len(i.routes) for n, i in enumerate(flow.inputs) if i.routes},
    )
    if shed.kind == "sampled":
        _check_sampled(flow)
        shedder = RowSampler(shed, roots, RowSampler.row_slots(roots), shedder.inputs)
        assembly = replace(assembly, flow=_showing_rates(flow, shedder.slots))
    else:
        check_gap(shedder)
    if shed.latency is not None and any(flow.inputs[n].axis.kind != "time" for n in shedder.inputs):
        raise SpecError(
            "shed(latency=...) bounds the age of results, but the windows lie over numbers; take "
            "windows over time, or a fixed share, lw.shed(share=0.3)"
        )
    advice = None if shed.kind == "sampled" else late_only(shedder)
    if advice is not None:
        warnings.warn(advice, ShedWarning, stacklevel=4)
    return replace(assembly, shedder=shedder)


def _check(flow: Dataflow) -> None:
    """Raise SpecError if `flow` has no windows to drop, or drops would make results wrong."""
    for output in flow.outputs:
        plan = flow.operators[output.operator].plan
        if not plan.aggregates_rows:
            what = "emits rows" if plan.word == "rows" else f"emits the rows of {plan.word}()"
            refuse("shed", {"rows"}, f"shed= drops whole windows, but this query {what}")
    for operator in flow.operators:
        refuse("shed", operator.plan.labels, "shed= does not fit this query")


def check_weights(flow: Dataflow, shed: ShedPolicy) -> None:
    """Raise SpecError if `weights` has the name of another query."""
    names = [output.name for output in flow.outputs]
    for name in shed.weights:
        if name not in names:
            raise SpecError(
                f"shed(weights={shed.weights!r}): no query has the name {name!r}; the queries are: "
                f"{', '.join(names)}"
            )


def check_fair_by(flow: Dataflow, column: str, written: str) -> None:
    """Raise SpecError unless all windows of `flow` are grouped by the column of its inputs."""
    for operator in flow.operators:
        plan = operator.plan
        refuse("fair_by", set(plan.labels) - {"no groups"}, written)
        if column not in plan.group_keys:
            keys = ", ".join(plan.group_keys) or "nothing"
            raise SpecError(
                f"{written}: {operator.name} is grouped by {keys}, so a window cannot be dropped "
                f"for some values of {column!r} alone; add group_by({column!r}), or leave "
                f"fair_by= out"
            )
    starts = [*(i.routes for i in flow.inputs), *(o.routes for o in flow.operators)]
    origins = {route.origin(column) for routes in starts for route in routes}
    if None in origins:
        raise SpecError(
            f"{written}: the query computes {column!r}, but rows are dropped as they come in, "
            f"before any step; name a column of the stream itself"
        )
    for start in flow.inputs:
        if len({route.origin(column) for route in start.routes}) > 1:
            raise SpecError(
                f"{written}: {column!r} comes from different columns of one stream; give them one "
                f"name, or leave fair_by= out"
            )


def _check_sampled(flow: Dataflow) -> None:
    """Raise SpecError unless a share of the rows is enough to estimate all results of `flow`."""
    written = "shed(kind='sampled')"
    read = {route.operator for start in flow.inputs for route in start.routes}
    for number, operator in enumerate(flow.operators):
        plan = operator.plan
        if not plan.aggregates_rows or number not in read or operator.routes:
            refuse("sampled", {"second level"}, written)
        for name, aggregate in plan.named_aggregates.items():
            if not can_be_sampled(aggregate):
                refuse("sampled", {"holistic"}, f"{written} of {name!r}")
        if plan.compared:
            refuse("sampled", {"quality error"}, written)


def _showing_rates(flow: Dataflow, slots: Slots) -> Dataflow:
    """Return `flow` with a column of results that has the share of rows that was read."""
    operators = []
    for operator in flow.operators:
        plan = operator.plan
        for _, window in plan.fixed_windows:
            if (slots.anchor - window.origin) % window.pane:
                raise SpecError(
                    "shed(kind='sampled') sets one rate for a pane, but the panes of the queries "
                    "do not begin together; give their windows one origin, or run them apart"
                )
        operators.append(replace(operator, plan=plan.showing_rate()))
    outputs = []
    for output in flow.outputs:
        steps: list[Transform] = []
        schema = operators[output.operator].plan.result_schema
        rate = schema.names[-2]
        for step in output.steps:
            steps.append(step.over(schema, rate))
            schema = steps[-1].schema
        outputs.append(replace(output, steps=tuple(steps)))
    return replace(flow, operators=tuple(operators), outputs=tuple(outputs))


def _roots(flow: Dataflow, max_gap: Any) -> Iterator[Root]:
    """Yield the windows whose results the query emits, as roots for the shedder."""
    names = {o.name: o.operator for o in flow.outputs}
    for name, number in names.items():
        plan = flow.operators[number].plan
        gap, back = gap_of(name, max_gap, names), _back(flow, number)
        for called, window in plan.fixed_windows:
            results = results_in(gap, window.slide)
            yield Root(number, window, back, results, called or name, name)


def _back(flow: Dataflow, number: int) -> int:
    """Return how much older, in ticks, input rows may be than the rows operator `number` reads."""
    spans = (
        operator.plan.made_from + _back(flow, below)
        for below, operator in enumerate(flow.operators)
        if any(route.operator == number for route in operator.routes)
    )
    return max(spans, default=0)


def check_gap(shedder: LoadShedder) -> None:
    """Raise SpecError if `max_gap` allows no drops, or fewer drops than `share` demands."""
    most, shed = shedder.most, shedder.how
    if most < 1:
        least = ", ".join(f"{r.name} {shedder.slots.slide // r.spec.slide}" for r in shedder.roots)
        raise SpecError(
            f"shed(max_gap={shed.max_gap!r}) allows no window to be dropped: all queries share "
            f"one drop, which takes at least these numbers of results: {least}; set max_gap to "
            f"these or more"
        )
    if shed.share is not None and shed.share > most / (most + 1):
        raise SpecError(
            f"shed(share={shed.share}, max_gap={shed.max_gap!r}): one of {most + 1} windows must "
            f"be kept, so share is at most {most / (most + 1):.3f}; take less, or a longer gap"
        )


def late_only(shedder: LoadShedder) -> str | None:
    """Return advice on `max_gap` if it allows no row to be skipped; otherwise return None."""
    params, most = shedder.slots.params, shedder.most
    if most >= params.overlap:
        return None
    need = {r.name: params.overlap * (shedder.slots.slide // r.spec.slide) for r in shedder.roots}
    gaps = ", ".join(f"{gap} for {name}" for name, gap in need.items())
    return (
        f"shed(max_gap={shedder.how.max_gap!r}): every row is in {params.overlap} windows or more, "
        f"and only {most} in a row may be dropped, so every row must be processed: results are "
        f"dropped, and little is saved. max_gap from {gaps} would help"
    )


def shed_lines(shedder: LoadShedder, flow: Dataflow, sources: Sequence[Any] = ()) -> list[str]:
    """Return the lines of `explain()` on dropped windows, and on where their rows are skipped."""
    say = flow.inputs[next(iter(shedder.inputs))].axis.say
    params = shedder.slots.params
    how = _how(shedder.how, say)
    if isinstance(shedder, RowSampler):
        rate = f"at one rate for each {say(params.slide)}"
        return [
            f"shed        rows: {how}; at least one in {2**POWERS} is read, {rate}",
            *(f"            {line}" for line in _places(shedder, flow, sources)),
        ]
    if shedder.how.fair_by is not None:
        how += f", in fair shares by {CLASSES} classes of {shedder.how.fair_by}"
    if (weights := shedder.weights) is not None:
        names = {root.operator: root.query for root in shedder.roots}
        order = [names[n] for n in sorted(weights, key=weights.__getitem__)]
        how += f", by weight: {order[0]} first, {order[-1]} last"
    named = ", ".join(dict.fromkeys(flow.operators[r.operator].name for r in shedder.roots))
    lines = [
        f"shed        windows of {named}: {how}, at most {shedder.most} in a row",
        f"            ω = {say(params.size)} of rows are needed, every δ = {say(params.slide)}",
    ]
    advice = late_only(shedder)
    if advice is not None:
        return [*lines, f"            {advice}"]
    return [*lines, *(f"            {line}" for line in _places(shedder, flow, sources))]


def _how(shed: ShedPolicy, say: Callable[[int], str]) -> str:
    """Return how many windows are dropped, in words."""
    if shed.share is not None:
        return f"a share of {shed.share}"
    bounds = [] if shed.latency is None else [f"results no older than {say(shed.latency)}"]
    bounds += [] if shed.memory is None else [f"state of at most {shed.memory:,} bytes"]
    return f"as {' and '.join(bounds)} need"


def _places(shedder: LoadShedder, flow: Dataflow, sources: Sequence[Any]) -> Iterator[str]:
    """For each input, yield a line that names the steps between which rows are skipped.

    Spark knows neither classes nor samples, so it computes the steps on a DataFrame for all rows.
    """
    for number in shedder.inputs:
        start = flow.inputs[number]
        name = f"input {number + 1}" if len(flow.inputs) > 1 else "the stream"
        after = f", after {'; '.join(map(str, start.before))} (its time)" if start.before else ""
        steps = [str(step) for route in start.routes for step in route.steps]
        before = f", before {'; '.join(dict.fromkeys(steps))}" if steps else ""
        yield f"rows of {name} are dropped as they come in{after}{before}"
        before_us = getattr(sources[number], "steps", ()) if number < len(sources) else ()
        if before_us and (shedder.how.fair_by is not None or shedder.how.kind == "sampled"):
            yield f"Spark computes {'; '.join(map(str, before_us))} for all of them before"
