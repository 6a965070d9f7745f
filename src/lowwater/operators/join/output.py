"""The result rows of a join: pairs, and rows without a partner."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.operators.join.plan import OTHER, SELF, JoinPlan
from lowwater.operators.row_store import StoredRows


def paired(
    plan: JoinPlan,
    mine: StoredRows,
    theirs: StoredRows,
    my_rows: np.ndarray,
    their_rows: np.ndarray,
) -> pa.Table:
    """Return pairs of rows as results."""
    left, right = pa.array(my_rows), pa.array(their_rows)
    shown = [mine.table.column(f.name).take(left) for f in plan.schemas[SELF]]
    shown += [theirs.table.column(name).take(right) for name in plan.added]
    if plan.time in {"min", "max"}:
        shown.append(_time(plan, mine, theirs, my_rows, their_rows))
    return _as_result(plan, shown)


def _time(
    plan: JoinPlan,
    mine: StoredRows,
    theirs: StoredRows,
    my_rows: np.ndarray,
    their_rows: np.ndarray,
) -> pa.Array:
    """Return the earlier or the later time of each pair."""
    at = mine.ticks[my_rows], theirs.ticks[their_rows]
    earlier = at[SELF] <= at[OTHER]
    of_mine = earlier if plan.time == "min" else ~earlier
    first, second = plan.axes
    if first.type != second.type:
        return first.from_ticks(np.where(of_mine, *at))
    return pc.if_else(
        pa.array(of_mine),
        mine.table.column(first.column).take(pa.array(my_rows)),
        theirs.table.column(second.column).take(pa.array(their_rows)),
    )


def alone(plan: JoinPlan, port: int, rows: StoredRows) -> pa.Table:
    """Return rows without a partner as results."""
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
        same = plan.axes[SELF].type == plan.axes[OTHER].type
        own = plan.axes[port]
        shown.append(
            rows.table.column(own.column) if same else plan.axes[SELF].from_ticks(rows.ticks)
        )
    return _as_result(plan, shown)


def _as_result(plan: JoinPlan, columns: list[pa.Array]) -> pa.Table:
    schema = plan.result_schema
    fitting = [
        c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, schema, strict=True)
    ]
    return pa.table(fitting, schema=schema)
