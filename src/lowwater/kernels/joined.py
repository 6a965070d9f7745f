"""Keys of two streams that are compared, and the rows that a join gives out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.kernels.groups import code_column, compact
from lowwater.kernels.joins import OTHER, SELF, JoinPlan
from lowwater.kernels.row_buckets import Kept

_FEW = 1 << 16


def key_codes(plan: JoinPlan, mine: pa.Table, theirs: pa.Table) -> np.ndarray:
    """Number the keys of both sides alike, rows of self first.

    As in Spark, NaN equals NaN and −0.0 equals 0.0. NULL has a number, too: `has_keys` tells who
    may have a partner. Numbers may have gaps: to close them would cost more than all else where
    many rows are stored.
    """
    n = len(mine) + len(theirs)
    codes, bound = np.zeros(n, np.int64), 1
    for pair in plan.on:
        sides = zip((mine, theirs), pair, strict=True)
        both = [_whole(t.column(name)).cast(plan.key_type(pair)) for t, name in sides]
        more, width = code_column(pa.concat_arrays(both))
        codes, bound = codes * width + more, bound * width
        if bound > max(4 * n, _FEW):
            codes, found = compact(codes, bound)
            bound = len(found)
    return codes


def has_keys(plan: JoinPlan, port: int, table: pa.Table) -> np.ndarray:
    """Return which rows of a side have a key that may equal another: as in SQL, NULL does not."""
    present = np.ones(len(table), bool)
    for pair in plan.on:
        column = _whole(table.column(pair[port]))
        if column.null_count:
            present &= column.is_valid().to_numpy(zero_copy_only=False)
    return present


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def paired(
    plan: JoinPlan, mine: Kept, theirs: Kept, my_rows: np.ndarray, their_rows: np.ndarray
) -> pa.Table:
    """Return pairs of rows as results."""
    left, right = pa.array(my_rows), pa.array(their_rows)
    shown = [mine.table.column(f.name).take(left) for f in plan.schemas[SELF]]
    shown += [theirs.table.column(name).take(right) for name in plan.added]
    if plan.time in {"min", "max"}:
        shown.append(_time(plan, mine, theirs, my_rows, their_rows))
    return _as_result(plan, shown)


def _time(
    plan: JoinPlan, mine: Kept, theirs: Kept, my_rows: np.ndarray, their_rows: np.ndarray
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


def alone(plan: JoinPlan, port: int, rows: Kept) -> pa.Table:
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
