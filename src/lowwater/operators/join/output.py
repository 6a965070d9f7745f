"""The result rows of a join: pairs, and rows without a partner."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.operators.join.plan import OTHER, SELF, JoinPlan
from lowwater.operators.row_store import StoredRows


def paired(
    plan: JoinPlan, mine: StoredRows, theirs: StoredRows, left: np.ndarray, right: np.ndarray
) -> pa.Table:
    """Return the pairs of row `left[i]` of self and row `right[i]` of other as results."""
    index = pa.array(left), pa.array(right)
    shown = [mine.table.column(f.name).take(index[SELF]) for f in plan.schemas[SELF]]
    shown += [theirs.table.column(name).take(index[OTHER]) for name in plan.added]
    if plan.time in {"min", "max"}:
        shown.append(_time(plan, mine, theirs, left, right))
    return _as_result(plan, shown)


def _time(
    plan: JoinPlan, mine: StoredRows, theirs: StoredRows, left: np.ndarray, right: np.ndarray
) -> pa.Array:
    """Return the time of each pair: the earlier of its two times for "min", the later for "max"."""
    at = mine.ticks[left], theirs.ticks[right]
    earlier = at[SELF] <= at[OTHER]
    of_mine = earlier if plan.time == "min" else ~earlier
    first, second = plan.axes
    if first.type != second.type:
        return first.from_ticks(np.where(of_mine, *at))
    return pc.if_else(
        pa.array(of_mine),
        mine.table.column(first.column).take(pa.array(left)),
        theirs.table.column(second.column).take(pa.array(right)),
    )


def alone(plan: JoinPlan, port: int, rows: StoredRows) -> pa.Table:
    """Return `rows`, which are of side `port` and have no partner, as results."""
    if plan.how == "anti":
        return rows.table.select(plan.schemas[SELF].names)
    n = len(rows)
    shown = [
        rows.table.column(f.name) if port == SELF or f.name in plan.common else pa.nulls(n, f.type)
        for f in plan.schemas[SELF]
    ]
    theirs = plan.schemas[OTHER]
    shown += [
        rows.table.column(name) if port == OTHER else pa.nulls(n, theirs.field(name).type)
        for name in plan.added
    ]
    if plan.time in {"min", "max"}:
        mine, other = plan.axes
        own = rows.table.column(plan.axes[port].column)
        shown.append(own if mine.type == other.type else mine.from_ticks(rows.ticks))
    return _as_result(plan, shown)


def _as_result(plan: JoinPlan, columns: list[pa.Array]) -> pa.Table:
    """Return `columns` as a table with the result schema of the join."""
    both = zip(columns, plan.result_schema, strict=True)
    fitting = [c if c.type == f.type else c.cast(f.type) for c, f in both]
    return pa.table(fitting, schema=plan.result_schema)
