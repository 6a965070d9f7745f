"""The plan nodes of `distinct`, `order` and `join`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lowwater.errors import SpecError, unknown_name
from lowwater.logical.build import refuse_hidden
from lowwater.logical.nodes import Apply, Node
from lowwater.operators.distinct import DistinctPlan
from lowwater.operators.join.ordered_plan import OrderedJoinPlan
from lowwater.operators.join.plan import JoinPlan
from lowwater.operators.operator import OperatorPlan
from lowwater.operators.sort import SortPlan
from lowwater.planner.assemble import check
from lowwater.planner.compatibility import refuse
from lowwater.planner.flush import smooth_join
from lowwater.query.join_args import JoinArgs, check_time, key_pairs, resolve_band, usual_time
from lowwater.windows.axis import Axis


def distinct(of: Node, columns: Sequence[str], within: Any) -> Apply:
    """Return a node with the rows of `of`, without duplicates; see `Stream.distinct`."""
    chosen = tuple(dict.fromkeys(columns)) or tuple(of.schema.names)
    for column in chosen:
        if column not in of.schema.names:
            raise unknown_name("column", column, of.schema.names)
        if pa.types.is_map(of.schema.field(column).type):
            raise SpecError(
                f"distinct({column!r}): a map is not hashable; take one of its keys first, "
                f"with_columns(key=\"{column}['...']\")"
            )
    axis = of.axis(of.time)
    near = 0 if within is None else axis.span(within, name="within")
    if near < 0:
        raise SpecError(f"within={within!r} must not be negative; leave it out for equal times")
    return _apply(DistinctPlan(of.schema, axis, chosen, near), (of,), (axis,))


def in_order(of: Node) -> Apply:
    """Return a node with the rows of `of` in the order of their event time."""
    axis = of.axis(of.time)
    return _apply(SortPlan(of.schema, axis), (of,), (axis,))


def _apply(
    plan: OperatorPlan, of: tuple[Node, ...], times: tuple[Axis, ...], time: str | None = None
) -> Apply:
    """Return the node of the operator `plan`; raise SpecError if the planner refuses `plan`."""
    schema, at = plan.result_schema, time or times[0].column
    node = Apply(schema=schema, time=at, times=times, plan=plan, of=of)
    check({"results": node})
    return node


def join(mine: Node, other: Node, args: JoinArgs) -> Apply:
    """Return a node with the pairs of rows of two nodes that have equal keys and near times."""
    if args.order not in ("free", "time"):
        raise SpecError(f"order={args.order!r} is unknown; write 'free' or 'time'")
    if args.order == "time" and args.flush is not None:
        refuse("flush", {"ordered join"}, f"flush={args.flush!r}")
    at = args.times or (mine.time, other.time)
    axes = (mine.axis(at[0]), other.axis(at[1]))
    how, band = args.how, resolve_band(args.band, axes)
    plan_type = OrderedJoinPlan if args.order == "time" else JoinPlan
    plan = plan_type(
        (mine.schema, other.schema),
        axes,
        key_pairs(mine.schema, other.schema, args.on),
        band,
        how,
        args.time or usual_time(how, args.order),
        args.suffix,
        flush=smooth_join(args.flush, axes[0], band),
    )
    check_time(plan)
    refuse_hidden(plan.result_schema)
    columns = plan.own_times.values()
    times = [replace(axis, column=plan.names[port][axis.column]) for port, axis in enumerate(axes)]
    kept = [a for a in times if a.column in columns]
    if plan.time in ("min", "max"):
        kept.append(Axis(plan.result_times[0], plan.time_type))
    return _apply(plan, (mine, other), tuple(kept), plan.result_times[0])
