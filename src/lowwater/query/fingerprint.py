"""What a checkpoint must agree on to be a query's."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from typing import Any

from lowwater.kernels import Input, Operator, OperatorPlan, Route, WindowPlan
from lowwater.query.assembly import Assembly

STATE_VERSION = 5
"""Raised when a new version cannot read the checkpoints of an older one."""


def fingerprint(assembly: Assembly, shards: int) -> dict[str, Any]:
    """Return what a checkpoint must agree on."""
    flow = assembly.flow
    described: dict[str, Any] = {}
    for start, source, policy in zip(flow.inputs, assembly.sources, assembly.policies, strict=True):
        number = len([k for k in described if k.startswith("input")])
        told = _input(start, policy)
        steps = getattr(source, "steps", ())
        if steps:
            told["steps in Spark"] = [str(s) for s in steps]
        described[f"input {number + 1}" if number else "input"] = told
    for operator in flow.operators:
        described[operator.name] = _operator(operator)
    described["outputs"] = [[o.name, o.operator, [str(s) for s in o.steps]] for o in flow.outputs]
    described["shards"] = shards
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    return {"version": STATE_VERSION, "query": described, "digest": digest}


def _input(start: Input, policy: Any) -> dict[str, Any]:
    return {
        "columns": start.schema.to_string(show_schema_metadata=False),
        "over": f"{start.axis.column} {start.axis.type}",
        "progress": [type(policy).__name__, start.source, start.mark_when],
        "steps": [str(s) for s in start.before],
        "routes": [_route(r) for r in start.routes],
    }


def _operator(operator: Operator) -> dict[str, Any]:
    return {**_plan(operator.plan), "routes": [_route(r) for r in operator.routes]}


def _route(route: Route) -> list[Any]:
    return [route.operator, route.port, route.on, [str(s) for s in route.steps]]


def _plan(plan: OperatorPlan) -> dict[str, Any]:
    if not isinstance(plan, WindowPlan):
        told = {f.name: getattr(plan, f.name) for f in fields(plan)}  # type: ignore[arg-type]
        # What is remembered to measure quality by changes no result.
        return {n: _said(v) for n, v in told.items() if n not in {"shards", "remember"}}
    # Only where it is asked for: checkpoints of other queries need not hear of it.
    revised = {"revised for": plan.revise} if plan.revise else {}
    return {
        "window": repr(plan.spec),
        "over": f"{plan.axis.column} {plan.axis.type}",
        "group by": [f"{k} {plan.key_field(k).type}" for k in plan.keys],
        "aggregates": {n: _said(a) for n, a in plan.aggregates.items()},
        "columns": plan.schema.to_string(show_schema_metadata=False),
        "rows": [plan.numbering, plan.partition],
        "given out": _said(plan.smooth),
        **revised,
    }


def _said(value: Any) -> str:
    return repr(value).split(" at 0x")[0]
