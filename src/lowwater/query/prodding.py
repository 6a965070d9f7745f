"""Early results of a query: who may ask for them, and what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lowwater.aggregates import Growth
from lowwater.control import Prod
from lowwater.errors import SpecError
from lowwater.kernels import Dataflow, Input, WindowPlan
from lowwater.prodding import (
    Arrivals,
    EventClock,
    Grid,
    Learning,
    Prodder,
    ProdPolicy,
    grids,
)
from lowwater.query.assembly import Assembly
from lowwater.query.early_columns import numbers
from lowwater.query.estimates import Estimate, Estimates, estimates_of
from lowwater.query.nodes import Leaf, Stepped
from lowwater.sources.steps import Transform

if TYPE_CHECKING:
    from lowwater.query.stream import Stream

Prods = Any
"""A policy, a stream whose rows are prods, or several of them."""


def prodded(assembly: Assembly, prods: Prods, estimate: Estimate = "complete") -> Assembly:
    """Return a query with the prods that a run was asked to have."""
    how = estimates_of(estimate)
    if prods is None:
        return assembly
    given = list(prods) if isinstance(prods, list | tuple) else [prods]
    policies = [p for p in given if isinstance(p, ProdPolicy)]
    streams = [p for p in given if hasattr(p, "node")]
    odd = [p for p in given if not (isinstance(p, ProdPolicy) or hasattr(p, "node"))]
    if odd or not given:
        raise SpecError(
            f"prods={prods!r} says nothing about when to ask; give lw.every(...), "
            f"lw.aggressive(...), lw.on_demand(), a stream whose rows are prods, or several of "
            f"them in a list"
        )
    flow, own = assembly.flow, len(assembly.flow.inputs)
    numbered = sorted({o.operator for o in flow.outputs})
    specs = [(n, _spec(flow, n)) for n in numbered]
    asked = grids(specs)
    for policy in policies:
        policy.bind(asked)
    timed = all(i.axis.kind == "time" for i in flow.inputs)
    arrivals = _arrivals(flow)
    made = Prodder(
        tuple(policies),
        asked,
        tuple(range(own)),
        EventClock(timed),
        arrivals,
        complete=how.complete,
        learning={n: _learning(flow, n, how) for n in numbered if numbers(flow, n)},
    )
    if arrivals is not None:
        inputs = tuple(replace(i, bins=arrivals.width) for i in flow.inputs)
        assembly = replace(assembly, flow=replace(flow, inputs=inputs))
    for stream in streams:
        assembly = _with_stream(assembly, stream)
    return replace(assembly, prodder=made)


BINS_PER_SLIDE = 8
SPANS = 2
"""Arrivals are remembered for so many ranges."""


def _arrivals(flow: Dataflow) -> Arrivals | None:
    """Return how arrivals are learned: in bins that suit the windows of the query."""
    plans = [o.plan for o in flow.operators if isinstance(o.plan, WindowPlan)]
    grids_found = [Grid.of(p.spec) for p in plans if p.numbering is None]
    known = [g for g in grids_found if g is not None]
    if not known:
        return None
    width = max(1, min(g.slide for g in known) // BINS_PER_SLIDE)
    return Arrivals(width, SPANS * max(g.span for g in known))


def _learning(flow: Dataflow, operator: int, how: Estimates) -> Learning:
    """Return what is learned of an operator's early results.

    What has arrived is completed only where it is known how much that is.
    """
    plan = flow.operators[operator].plan
    assert isinstance(plan, WindowPlan)  # noqa: S101
    scaled = how.complete and plan.numbering is None
    kinds: dict[str, Growth] = {}
    for name in numbers(flow, operator):
        growth = plan.aggregates[name].growth
        kinds[name] = "other" if growth in {"counted", "scaled"} and not scaled else growth
    return Learning(kinds, how.interval, how.accuracy)


def _spec(flow: Dataflow, operator: int) -> Any:
    plan = flow.operators[operator].plan
    return plan.spec if isinstance(plan, WindowPlan) and plan.numbering is None else None


def _with_stream(assembly: Assembly, stream: Stream) -> Assembly:
    """Return a query with one more input, whose rows are prods."""
    at: Any = stream
    steps: tuple[Transform, ...] = ()
    while isinstance(at.node, Stepped):
        at, steps = at.node.of, (at.node.transform, *steps)
    leaf = at.node
    if not isinstance(leaf, Leaf):
        raise SpecError(
            "prods=: a stream of prods comes from outside; it cannot be a union, a join or the "
            "result of windows"
        )
    axis = stream.axis(stream.time)
    if any(axis.kind != i.axis.kind for i in assembly.flow.inputs):
        raise SpecError(
            f"prods=: the time of the prods, {axis.column!r}, is a {axis.kind}, that of the query "
            f"is not; a prod names a time of the query"
        )
    names = tuple(n for n in _groups(assembly.flow) if n in stream.schema.names)
    schema = getattr(leaf.source, "full_schema", leaf.source.schema)
    start = Input(schema, axis, before=steps, prods=names)
    flow = replace(assembly.flow, inputs=(*assembly.flow.inputs, start))
    return replace(
        assembly,
        flow=flow,
        sources=(*assembly.sources, leaf.source),
        policies=(*assembly.policies, leaf.progress),
    )


def _groups(flow: Dataflow) -> Mapping[str, pa.DataType]:
    """Return the columns by which groups are named: those that all windows have as keys."""
    plans = [flow.operators[o.operator].plan for o in flow.outputs]
    found = [
        {k: plan.key_field(k).type for k in plan.keys} if isinstance(plan, WindowPlan) else {}
        for plan in plans
    ]
    return {k: t for k, t in found[0].items() if all(k in other for other in found)}


def demand(flow: Dataflow, upto: Any, groups: Mapping[str, Any]) -> Prod:
    """Return the prod that a person asks for."""
    known = _groups(flow)
    where = {}
    for name, value in groups.items():
        if name not in known:
            told = f"these are: {', '.join(known)}" if known else "it has none"
            raise SpecError(f"prod({name}={value!r}): {name!r} is no group of the query; {told}")
        where[name] = _text(name, value, known[name])
    axis = flow.inputs[0].axis
    return Prod(None, None if upto is None else axis.point(upto, name="upto"), where)


def _text(name: str, value: Any, kind: pa.DataType) -> str | None:
    if value is None:
        return None
    try:
        found: str = pa.scalar(value, kind).cast(pa.string()).as_py()
    except (pa.ArrowException, TypeError, ValueError) as wrong:
        raise SpecError(f"prod({name}={value!r}): the group is a {kind}; {wrong}") from wrong
    return found
