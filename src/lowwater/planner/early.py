"""Plans early results: the policies that request them, and the windows that have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lowwater.aggregates.aggregate import Growth
from lowwater.control.prod import Prod
from lowwater.dataflow.graph import Dataflow, Input
from lowwater.early.arrivals import Arrivals
from lowwater.early.calibration.learner import OperatorLearner
from lowwater.early.estimates import Estimate, Estimates, estimates_of
from lowwater.early.policies import EarlyBefore, EarlyOutput, ProdPolicy
from lowwater.early.prodder import Prodder
from lowwater.early.window_ends import WindowEnds
from lowwater.errors import SpecError
from lowwater.event_clock import EventClock
from lowwater.logical.nodes import Node, Source, below_steps
from lowwater.planner.compatibility import refuse
from lowwater.planner.physical_plan import PhysicalPlan

Prods = Any
"""A policy for early results, a stream whose rows are prods, or a list of these."""


def prodded(assembly: PhysicalPlan, prods: Prods, estimate: Estimate = "complete") -> PhysicalPlan:
    """Return `assembly` with the early results that `prods` requests; unchanged without `prods`."""
    how = estimates_of(estimate)
    if prods is None:
        return assembly
    given = list(prods) if isinstance(prods, list | tuple) else [prods]
    policies = [p for p in given if isinstance(p, ProdPolicy)]
    streams = [p for p in given if hasattr(p, "node")]
    if not given or len(policies) + len(streams) < len(given):
        raise SpecError(
            f"early={prods!r} is not a policy; give lw.early_every(...), lw.early_before(...), "
            f"lw.early_on_demand(), a stream whose rows are prods, or several of them in a list"
        )
    flow, own = assembly.flow, len(assembly.flow.inputs)
    numbered = sorted({o.operator for o in flow.outputs})
    outputs = tuple([_output(flow, n) for n in numbered])
    for policy in policies:
        if isinstance(policy, EarlyBefore):
            for plan in (flow.operators[number].plan for number in numbered):
                labels = plan.labels if plan.aggregates_rows else {"rows"}
                refuse("early_before", labels, "early=lw.early_before(...)")
        policy.bind(outputs)
    timed = all(i.axis.kind == "time" for i in flow.inputs)
    arrivals = _arrivals(flow)
    learned = [n for n in numbered if flow.operators[n].plan.numeric_aggregates]
    prodder = Prodder(
        tuple(policies),
        outputs,
        tuple(range(own)),
        EventClock(timed),
        arrivals,
        complete=how.complete,
        learning={n: _learning(flow, n, how) for n in learned},
    )
    if arrivals is not None:
        inputs = tuple(replace(i, bins=arrivals.width) for i in flow.inputs)
        assembly = replace(assembly, flow=replace(flow, inputs=inputs))
    for stream in streams:
        assembly = _with_stream(assembly, stream.node)
    return replace(assembly, prodder=prodder)


def _output(flow: Dataflow, operator: int) -> EarlyOutput:
    """Return the operator as one whose results are emitted."""
    known = flow.operators[operator].plan.scheduled_windows
    grid = WindowEnds(known) if known else None
    level = flow.operators[operator].level
    return EarlyOutput(operator, grid, flow.numbers[operator, 0], direct=level == 0)


BINS_PER_SLIDE = 8
SPANS = 2
"""How long arrivals are remembered, as a multiple of the longest range."""


def _arrivals(flow: Dataflow) -> Arrivals | None:
    """Return the bins that count arrivals; None if no window ends at a time known in advance."""
    plans = (operator.plan for operator in flow.operators)
    ends = [WindowEnds(windows) for plan in plans if (windows := plan.scheduled_windows)]
    if not ends:
        return None
    width = max(1, min(e.slide for e in ends) // BINS_PER_SLIDE)
    return Arrivals(width, SPANS * max(e.span for e in ends))


def _learning(flow: Dataflow, operator: int, how: Estimates) -> OperatorLearner:
    """Return the learner that estimates finals from early results of `operator`.

    The learner scales values only if the share of rows that have arrived is known.
    """
    plan = flow.operators[operator].plan
    scaled = how.complete and plan.spreads_rows
    kinds: dict[str, Growth] = {}
    for name in plan.numeric_aggregates:
        growth = plan.named_aggregates[name].growth
        kinds[name] = "other" if growth in {"counted", "scaled"} and not scaled else growth
    return OperatorLearner(kinds, how.interval, how.accuracy)


def _with_stream(assembly: PhysicalPlan, node: Node) -> PhysicalPlan:
    """Return `assembly` with one more input, the stream `node`, whose rows are prods."""
    leaf, steps = below_steps(node)
    if not isinstance(leaf, Source):
        raise SpecError(
            "early=: a stream of prods is read from a source, not from a union, a join or windows; "
            "give lw.stream(...), with filters and columns if needed"
        )
    axis = node.axis(node.time)
    if any(axis.kind != i.axis.kind for i in assembly.flow.inputs):
        raise SpecError(
            f"early=: the time of the prods, {axis.column!r}, is a {axis.kind}, but the time of "
            f"the query is not, so a prod cannot name one; give both the same kind of time"
        )
    names = tuple(n for n in _groups(assembly.flow) if n in node.schema.names)
    schema = getattr(leaf.source, "full_schema", leaf.source.schema)
    start = Input(schema, axis, before=steps, prods=names)
    flow = replace(assembly.flow, inputs=(*assembly.flow.inputs, start))
    sources = (*assembly.sources, leaf.source)
    policies = (*assembly.policies, leaf.watermark)
    return replace(assembly, flow=flow, sources=sources, policies=policies)


def _groups(flow: Dataflow) -> Mapping[str, pa.DataType]:
    """Return {group key: type} for the group keys that every output has."""
    keys = [flow.operators[o.operator].plan.group_keys for o in flow.outputs]
    return {k: t for k, t in keys[0].items() if all(k in other for other in keys)}


def demand(flow: Dataflow, upto: Any, groups: Mapping[str, Any]) -> Prod:
    """Return the prod of `run.prod()`, for windows up to the time `upto` and for `groups`."""
    known = _groups(flow)
    where = {}
    for name, value in groups.items():
        if name not in known:
            keys = f"these are: {', '.join(known)}" if known else "it has none"
            raise SpecError(f"prod({name}={value!r}): {name!r} is not a group of the query; {keys}")
        where[name] = _text(name, value, known[name])
    end = None if upto is None else flow.inputs[0].axis.point(upto, name="upto")
    return Prod(None, end, where)


def _text(name: str, value: Any, kind: pa.DataType) -> str | None:
    if value is None:
        return None
    try:
        text: str = pa.scalar(value, kind).cast(pa.string()).as_py()
    except (pa.ArrowException, TypeError, ValueError) as wrong:
        raise SpecError(
            f"prod({name}={value!r}) does not fit the group, of type {kind}: {wrong}; give a value "
            f"of that type"
        ) from wrong
    return text
