"""Finished windows and late rows as the user sees them."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa

from lowwater.kernels.cells import Cells
from lowwater.kernels.closing import Closed
from lowwater.kernels.plan import SECOND, WindowPlan
from lowwater.kernels.rows import LATE_DEGREE
from lowwater.windows import Landmark, Shared

Kind = Literal["final", "revised"]


def window_column(
    plan: WindowPlan, first: np.ndarray, last: np.ndarray, ends: np.ndarray | None = None
) -> list[pa.Array]:
    """Return the start of the first and the end of the last window, as values of the axis."""
    spec = plan.window
    start = spec.start(first)
    unknown = isinstance(spec, Landmark) and spec.landmark is None
    missing = np.full(len(first), unknown)
    return [
        plan.bounds.from_ticks(np.where(missing, 0, start), missing),
        plan.bounds.from_ticks(spec.end(last) if ends is None else ends),
    ]


def result_rows(plan: WindowPlan, cells: Cells, closed: Closed, kind: Kind = "final") -> pa.Table:
    """Return finished windows as the rows the user sees."""
    schema = plan.result_schema
    window = pa.StructArray.from_arrays(
        _shared_bounds(plan, plan.spec, closed)
        if isinstance(plan.spec, Shared)
        else window_column(plan, closed.wid, closed.wid, closed.ends),
        fields=list(schema.field("window").type),
    )
    index = pa.array(closed.code)
    keys = [_shown(plan, k, cells.keys.column(k).take(index)) for k in plan.keys]
    values = [
        a.lower([plan.settled(p, closed.parts) for p in a.parts(plan.schema)], plan.schema)
        for a in plan.aggregates.values()
    ]
    named = []
    if isinstance(plan.spec, Shared):
        named = [pa.array([name for name, _ in plan.spec.named]).take(pa.array(closed.which))]
    kinds = pa.repeat(pa.scalar(kind), len(closed.wid))
    return pa.table([window, pa.array(closed.wid), *named, *keys, *values, kinds], schema=schema)


def _shared_bounds(plan: WindowPlan, spec: Shared, closed: Closed) -> list[pa.Array]:
    """Return where windows of several names start and end."""
    laid = [(w.origin, w.slide, w.range) for _, w in spec.named]
    origin, slide, size = np.array(laid).T[:, closed.which]
    start = origin + closed.wid * slide
    return [plan.bounds.from_ticks(start), plan.bounds.from_ticks(start + size)]


def _shown(plan: WindowPlan, key: str, values: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return the values of a key as the user sees them."""
    if plan.second is None or key != SECOND:
        return values
    start = values.combine_chunks().to_numpy()
    bounds = [plan.second.from_ticks(at) for at in (start, start + plan.spec.pane)]
    return pa.StructArray.from_arrays(bounds, fields=list(plan.key_field(SECOND).type))


def late_rows(
    plan: WindowPlan,
    rows: pa.Table,
    windows: tuple[np.ndarray, np.ndarray] | None,
    *,
    admitted: np.ndarray,
) -> pa.Table:
    """Return rows that missed `windows`, from the first to the last, as the user sees them.

    Which windows a row missed is not known where rows have numbers: it never got one.
    """
    schema = plan.late_schema
    kind = schema.field(len(schema) - 2).type
    missed = pa.nulls(len(rows), kind)
    if windows is not None:
        columns = [*map(pa.array, windows), *window_column(plan, *windows)]
        missed = pa.StructArray.from_arrays(columns, fields=list(kind))
    shown = [rows.column(name) for name in plan.schema.names]
    named = [] if plan.name is None else [pa.repeat(pa.scalar(plan.name), len(rows))]
    degree = rows.column(LATE_DEGREE)
    return pa.table([*shown, degree, *named, missed, pa.array(admitted)], schema=schema)
