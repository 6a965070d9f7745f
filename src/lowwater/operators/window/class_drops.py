"""Windows that are dropped for single classes of groups: they miss no row, and have no result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.control.drop import CLASSES, ClassDrops
from lowwater.operators.group_codes import class_of
from lowwater.operators.window.cells import Cells
from lowwater.operators.window.close import ClosedWindows
from lowwater.operators.window.plan import WindowPlan
from lowwater.shedding.drop_geometry import needed_windows, window_runs, within
from lowwater.windows.sliding import SingleWindow, Sliding


def fair_class(value: Any) -> int:
    """Return the class of a value of the key `fair_by`, as the output `dropped` numbers it.

    >>> fair_class("acme")
    51
    """
    return int(class_of(pa.array([value]), CLASSES)[0])


def without_classes(
    plan: WindowPlan, cells: Cells, closed: Iterator[ClosedWindows], specs: Sequence[Sliding]
) -> Iterator[ClosedWindows]:
    """Yield the closed windows of `cells` that are not dropped for the class of their group."""
    if not plan.dropped_classes or not cells.groups:
        yield from closed
        return
    mine = list(_members(plan.dropped_classes, cells.keys))
    for some in closed:
        kept = np.ones(len(some.wid), bool)
        for drops, groups in mine:
            for number, spec in enumerate(specs):
                gone = groups[some.code] & within(window_runs(spec, drops.intervals), some.wid)
                kept &= ~gone if some.which is None else ~gone | (some.which != number)
        yield some if kept.all() else some.take(kept)


def needed_by_class(
    plan: WindowPlan, spec: SingleWindow, table: pa.Table, first: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each row, the smallest and the largest id in [first, last] of a kept window.

    If no window is kept for the row, the second id is below the first.
    """
    first, last = needed_windows(plan.dropped, spec, first, last)
    for drops, mine in _members(plan.dropped_classes, table) if plan.dropped_classes else ():
        first, last = first.copy(), last.copy()
        first[mine], last[mine] = needed_windows(drops.intervals, spec, first[mine], last[mine])
    return first, last


def _members(
    classes: Sequence[ClassDrops], table: pa.Table
) -> Iterator[tuple[ClassDrops, np.ndarray]]:
    """Yield (drops of a class, a mask of the rows of `table` in the class), if it has any."""
    numbers = {one.column: class_of(table.column(one.column), CLASSES) for one in classes}
    for one in classes:
        mine = numbers[one.column] == one.number
        if mine.any():
            yield one, mine
