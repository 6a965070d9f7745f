"""Admission: the windows that a row has missed, and the output of late and partly late rows.

A row is *late* if it missed all its windows, *partly late* if it missed some. Both are emitted as
late rows; a partly late row also enters the windows that are still open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import RawRows
from lowwater.control.watermark import WatermarkPair, Watermarks
from lowwater.operators.batch import DEAD, TICK, without_hidden
from lowwater.operators.group_codes import group_values
from lowwater.operators.late import late_rows
from lowwater.operators.packet import table_packet
from lowwater.operators.window.class_drops import needed_by_class
from lowwater.operators.window.epoch import WindowEpoch, window_bounds
from lowwater.operators.window.plan import SECOND, WindowPlan
from lowwater.ticks import END, FIRST_TICK
from lowwater.windows.sliding import SingleWindow


@dataclass(frozen=True)
class Missed:
    """The missed windows of the rows in the mask `rows`: row i missed `first[i] <= wid < end[i]`.

    `first` and `end` are None for windows of row numbers, because a late row has no number.
    """

    plan: WindowPlan
    rows: np.ndarray
    first: np.ndarray | None = None
    end: np.ndarray | None = None


def missed_behind(
    windows: Sequence[tuple[WindowPlan, SingleWindow]],
    table: pa.Table,
    ticks: np.ndarray,
    watermark: np.ndarray | int,
    dead: np.ndarray,
) -> tuple[list[Missed], np.ndarray]:
    """Return the windows that rows missed, and a mask of the rows that missed all their windows.

    A row misses a window if its element of `watermark` has reached the window's end. A dead row
    misses all its windows. Windows that are dropped in this epoch are ignored.
    """
    missed, late = [], np.ones(len(ticks), bool)
    for plan, spec in windows:
        first, last = needed_by_class(plan, spec, table, spec.first(ticks), spec.last(ticks))
        end = np.where(dead, last + 1, np.minimum(spec.first_open(watermark), last + 1))
        missed.append(Missed(plan, end > first, first, end))
        late &= end > last
    return missed, late


def account(
    epoch: WindowEpoch, table: pa.Table, seq: int, late: np.ndarray, missed: Sequence[Missed]
) -> None:
    """Count rows as admitted, late or partly late, and emit those that missed a window."""
    behind = np.logical_or.reduce([m.rows for m in missed])
    epoch.counts["late"] += int(late.sum())
    epoch.counts["partly_late"] += int((behind & ~late).sum())
    epoch.counts["admitted"] += int((~late).sum())
    for m in missed:
        if m.rows.any():
            rows = table.filter(pa.array(m.rows))
            columns = _missed_columns(epoch, m, rows)
            listed = late_rows(m.plan.late_schema, rows, ~late[m.rows], columns)
            epoch.out.emissions.append(table_packet("late", epoch.shard, seq, listed))


def _missed_columns(epoch: WindowEpoch, missed: Missed, rows: pa.Table) -> list[pa.Array]:
    """Return the columns of late rows that describe their missed windows."""
    plan, count = missed.plan, len(rows)
    named = [] if plan.name is None else [pa.repeat(pa.scalar(plan.name), count)]
    kind = plan.late_schema.field(-2).type
    if missed.first is None or missed.end is None:
        return [*named, pa.nulls(count, kind)]
    first, end = missed.first[missed.rows], missed.end[missed.rows]
    epoch.observer.missed(first, end, rows)
    ids = needed_by_class(plan, plan.window, rows, first, end - 1)
    columns = [*map(pa.array, ids), *window_bounds(plan, *ids)]
    return [*named, pa.StructArray.from_arrays(columns, fields=list(kind))]


def times_of(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return the ticks of rows at a port, and a mask of the dead rows (`DEAD`)."""
    dead = table.column(DEAD).combine_chunks().to_numpy(zero_copy_only=False)
    return table.column(TICK).combine_chunks().to_numpy(), dead


def raw_rows(table: pa.Table, ticks: np.ndarray, chosen: np.ndarray) -> RawRows:
    """Return the rows in the mask `chosen`, without hidden columns, with their ticks."""
    index = np.flatnonzero(chosen)
    return RawRows(without_hidden(table.take(pa.array(index))), ticks[index])


def row_watermarks(plan: WindowPlan, table: pa.Table, watermarks: Watermarks) -> np.ndarray | int:
    """Return the watermark that decides if a row is late: one for each row, or one for all rows."""
    low = FIRST_TICK if watermarks.low is None else watermarks.low
    if plan.second is not None:
        return _joint_watermarks(plan, table, int(low), watermarks.pair)
    if not (plan.sources_close_groups and watermarks.sources):
        return int(low)
    codes, sources = group_values(table.column(plan.source))
    own = [watermarks.of(source) for source in sources]
    known = np.array([FIRST_TICK if w is None else w for w in own], np.int64)
    return np.asarray(known[codes])


def _joint_watermarks(
    plan: WindowPlan, table: pa.Table, low: int, pair: WatermarkPair | None
) -> np.ndarray:
    """Return the watermark of each row if windows are measured on two attributes (OOP 7).

    Let `end` be the end of a row's window on the second attribute. The row's watermark is at least
    `pair.joint[0]` if `pair.joint[1]` has reached `end`, and END if `pair.second` has reached it.
    """
    start = table.column(SECOND).combine_chunks().to_numpy()
    watermark = np.full(len(start), low)
    if pair is None:
        return watermark
    end = start + plan.spec.pane
    watermark = np.where(end <= pair.joint[1], max(low, pair.joint[0]), watermark)
    return np.asarray(np.where(end <= pair.second, END, watermark))
