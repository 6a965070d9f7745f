"""The fingerprint of a query, which must equal the fingerprint in the checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from lowwater.dataflow.graph import Input, Route
from lowwater.planner.physical_plan import PhysicalPlan

STATE_VERSION = 9
"""The version of checkpoints; increased when Lowwater can no longer read older checkpoints."""


def fingerprint(assembly: PhysicalPlan, shards: int) -> dict[str, Any]:
    """Return {"version": STATE_VERSION, "query": plan as a dict, "digest": hash of "query"}."""
    flow = assembly.flow
    described: dict[str, Any] = {}
    for start, source, policy in zip(flow.inputs, assembly.sources, assembly.policies, strict=True):
        about = _input(start, policy)
        if steps := getattr(source, "steps", ()):
            about["steps in Spark"] = _texts(steps)
        described[f"input {len(described) + 1}" if described else "input"] = about
    for operator in flow.operators:
        routes = [_route(r) for r in operator.routes]
        described[operator.name] = {**operator.plan.fingerprint(), "routes": routes}
    described["outputs"] = [[o.name, o.operator, _texts(o.steps)] for o in flow.outputs]
    described["shards"] = shards
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    return {"version": STATE_VERSION, "query": described, "digest": digest}


def _input(start: Input, policy: Any) -> dict[str, Any]:
    return {
        "columns": start.schema.to_string(show_schema_metadata=False),
        "over": f"{start.axis.column} {start.axis.type}",
        "progress": [type(policy).__name__, start.source, start.mark_when],
        "steps": _texts(start.before),
        "routes": [_route(r) for r in start.routes],
    }


def _route(route: Route) -> list[Any]:
    return [route.operator, route.port, route.on, _texts(route.steps)]


def _texts(steps: Iterable[Any]) -> list[str]:
    return [str(step) for step in steps]
