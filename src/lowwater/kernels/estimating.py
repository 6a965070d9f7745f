"""From what has arrived of a window to an estimate of what it will hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates import Count
from lowwater.control import Arrived
from lowwater.kernels.groups import compact
from lowwater.kernels.operators import OperatorPlan
from lowwater.kernels.plan import WindowPlan
from lowwater.windows import Axis

ROWS = "__rows"
"""The column of an answer that counts the rows it rests on."""


def counted(plan: OperatorPlan) -> OperatorPlan:
    """Return a plan whose results say how many rows they rest on; its state is the same."""
    if not isinstance(plan, WindowPlan):
        return plan
    return replace(plan, aggregates={**plan.aggregates, ROWS: Count()})


def bare(rows: pa.Table) -> pa.Table:
    """Return answers without the rows they rest on."""
    return rows.drop_columns([ROWS]) if ROWS in rows.column_names else rows


def completeness(plan: OperatorPlan, rows: pa.Table, arrived: Arrived | None) -> np.ndarray | None:
    """Return the share of each window that is expected to have arrived, None if nobody knows."""
    if arrived is None or not isinstance(plan, WindowPlan) or plan.numbering is not None:
        return None
    start, end = window_ticks(rows)
    # There are few windows, however many groups.
    starts, nth_start = np.unique(start, return_inverse=True)
    ends, nth_end = np.unique(end, return_inverse=True)
    which, found = compact(nth_start * len(ends) + nth_end, len(starts) * len(ends))
    shares = arrived.completeness(starts[found // len(ends)], ends[found % len(ends)])
    return np.asarray(shares[which])


def window_ticks(rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return where the windows of results start and end."""
    window = rows.column("window").combine_chunks()
    start, end = (_ticks(pc.struct_field(window, name)) for name in ("start", "end"))
    return start, end


def _ticks(column: pa.Array) -> np.ndarray:
    """Return where windows begin or end; a landmark that nobody has named, before all time."""
    ticks, valid = Axis("bound", column.type).to_ticks(column)
    return ticks if valid.all() else np.where(valid, ticks, np.iinfo(np.int64).min // 4)


def completed(plan: OperatorPlan, rows: pa.Table, share: np.ndarray | None) -> pa.Table:
    """Return results as they are expected to be in the end."""
    if share is None or not isinstance(plan, WindowPlan):
        return rows
    for name, aggregate in plan.aggregates.items():
        at = rows.column_names.index(name)
        found = aggregate.extrapolate(rows.column(at).combine_chunks(), share)
        rows = rows.set_column(at, rows.schema.field(at), found)
    return rows
