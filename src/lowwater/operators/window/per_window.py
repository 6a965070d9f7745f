"""Cells per window instead of per pane, for aggregates whose accumulators do not combine.

Each row is added to all its open windows, which costs range/slide operations per row. To close a
window, the kernel only reads the window's cell.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import RawRows
from lowwater.aggregates.accumulators.values import spread
from lowwater.control.watermark import Watermarks
from lowwater.operators.group_codes import group_rows
from lowwater.operators.window.admit import row_watermarks
from lowwater.operators.window.cells import Cells, PackedCells, codes_of, merge, number_cells
from lowwater.operators.window.close import ClosedWindows
from lowwater.operators.window.plan import SECOND, WindowPlan
from lowwater.shedding.drop_geometry import window_runs, within
from lowwater.ticks import BEGIN
from lowwater.windows.sliding import Sliding


def no_cells(plan: WindowPlan) -> Cells:
    """Return the cells of a shard that has received no row."""
    keys = pa.schema([_stored(plan, k) for k in plan.keys]).empty_table()
    empty = np.zeros(0, np.int64)
    return Cells(keys, 0, empty, empty, [p.empty(0) for p in plan.parts])


def _stored(plan: WindowPlan, key: str) -> pa.Field:
    """Return the column of a key in stored cells."""
    is_second = plan.second is not None and key == SECOND
    return pa.field(SECOND, pa.int64()) if is_second else plan.schema.field(key)


def open_windows(
    plan: WindowPlan, rows: RawRows, watermarks: Watermarks
) -> tuple[np.ndarray, np.ndarray]:
    """Return arrays (row, wid): a pair for each open window of each row, in arrival order."""
    spec = plan.window
    watermark = np.maximum(row_watermarks(plan, rows.table, watermarks), BEGIN)
    first = np.maximum(spec.first(rows.ticks), spec.first_open(watermark))
    wid, row = spread(first, spec.last(rows.ticks) + 1)
    if plan.dropped and isinstance(spec, Sliding):
        needed = ~within(window_runs(spec, plan.dropped), wid)
        row, wid = row[needed], wid[needed]
    return row, wid


def absorb(plan: WindowPlan, cells: Cells, rows: RawRows, watermarks: Watermarks) -> Cells:
    """Return `cells` after every row has been added to the cells of its open windows."""
    row, wid = open_windows(plan, rows, watermarks)
    keys = [rows.column(k) for k in plan.keys]
    group, chosen = group_rows(keys, len(rows))
    names = pa.table([k.take(pa.array(chosen)) for k in keys], list(plan.keys))
    blank = [c for p in plan.parts for c in p.store(p.empty(len(row)))]
    holes = PackedCells(names, max(len(chosen), 1), group[row], wid, blank)
    cells = merge([cells.pack(plan.parts), holes], plan.parts)
    seat = _seats(cells, codes_of(cells, names)[group[row]], wid)
    expanded = rows.take(row)
    parts = [
        p.absorb(content, expanded, seat)
        for p, content in zip(plan.parts, cells.parts, strict=True)
    ]
    return Cells(cells.keys, cells.groups, cells.code, cells.pane, parts)


def _seats(cells: Cells, group: np.ndarray, pane: np.ndarray) -> np.ndarray:
    """Return the index in `cells` of each pair (group, pane)."""
    codes = np.concatenate([cells.code, group])
    cell, _, _ = number_cells(codes, cells.groups, np.concatenate([cells.pane, pane]))
    place = np.empty(int(cell.max()) + 1, np.int64)
    place[cell[: len(cells)]] = np.arange(len(cells))
    return np.asarray(place[cell[len(cells) :]])


def closed_windows(cells: Cells, since: np.ndarray, until: np.ndarray) -> Iterator[ClosedWindows]:
    """Yield, for every group g, its windows `since[g] <= wid < until[g]`; a window is one cell."""
    chosen = (cells.pane >= since[cells.code]) & (cells.pane < until[cells.code])
    yield ClosedWindows(
        cells.code[chosen], cells.pane[chosen], [p.take(chosen) for p in cells.parts]
    )
