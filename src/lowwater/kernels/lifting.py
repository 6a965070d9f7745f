"""Rows to cells: one per group and pane, or one per piece of a session."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lowwater.aggregates import Rows
from lowwater.kernels.cells import Packed, number_cells
from lowwater.kernels.groups import group_rows
from lowwater.kernels.plan import WindowPlan
from lowwater.windows import Session


def lift(plan: WindowPlan, rows: Rows) -> Packed:
    """Reduce rows to packed cells."""
    keys = [rows.column(k) for k in plan.keys]
    group, chosen = group_rows(keys, len(rows))
    if isinstance(plan.spec, Session):
        cell, first = session_of(group, rows.ticks, rows.ticks, plan.spec.gap)
        code, panes = group[first], rows.ticks[first]
    else:
        cell, code, panes = number_cells(group, len(chosen), plan.spec.pane_of(rows.positions))
    columns = [c for part in plan.parts for c in part.store(part.lift(rows, cell, len(code)))]
    names = pa.table([k.take(pa.array(chosen)) for k in keys], list(plan.keys))
    return Packed(names, len(chosen), code, panes, columns)


def session_of(
    group: np.ndarray, start: np.ndarray, last: np.ndarray, gap: int
) -> tuple[np.ndarray, np.ndarray]:
    """Join pieces [start, last] of groups: (session of each, first piece of each session).

    Sessions are numbered by group and, within one, by time.

    >>> group, at = np.array([0, 1, 0, 0]), np.array([7, 0, 0, 4])
    >>> [x.tolist() for x in session_of(group, at, at, gap=4)]
    [[1, 2, 0, 1], [2, 3, 1]]
    """
    order = np.lexsort((start, group))
    group, start, last = group[order], start[order], last[order]
    if not len(order):
        return order, order
    # The latest position so far, group by group: ranks of positions leave room for the group.
    known, rank = np.unique(last, return_inverse=True)
    latest = known[np.maximum.accumulate(group * len(known) + rank) % len(known)]
    fresh = np.append([True], (np.diff(group) != 0) | (start[1:] - latest[:-1] >= gap))
    session = np.empty(len(order), np.int64)
    session[order] = np.cumsum(fresh) - 1
    return session, order[fresh]
