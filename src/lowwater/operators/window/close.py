"""Closing windows: windows of many groups are computed at once from panes, without subtraction.

Windows that close together are divided into batches of at most RANGE/SLIDE windows. All windows of
a batch share a core of panes. A window also holds a suffix of the panes to the left of the core and
a prefix of the panes to the right (two stacks; van Herk's blocks, anchored at the batch):

    panes      . . L L L C C R R R . .        window i = suffix of L from i, C, prefix of R to i
    window 0       |---------|
    window 1         |---------|
    window 3             |---------|

Cells are folded once. Suffixes and prefixes are running totals down the columns of a grid. A column
is a batch of windows of one name and group, and element i of the column is window i of the batch.
The work is one operation per cell and per result, whatever RANGE/SLIDE is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from lowwater.aggregates.accumulators.base import Accumulator, AccumulatorColumns
from lowwater.aggregates.accumulators.values import spread
from lowwater.intervals import Intervals
from lowwater.operators.window.cells import Cells, first_cells, number_cells
from lowwater.operators.window.scan import PORTION, merged, portions
from lowwater.shedding.drop_geometry import window_runs, within
from lowwater.ticks import FIRST_TICK
from lowwater.windows.landmark import Landmark
from lowwater.windows.sliding import Sliding

_Cut: TypeAlias = tuple[np.ndarray, np.ndarray]
"""The indices of some cells, and the place of each cell in the grid."""

GRID_CELLS = 2_000_000
"""Windows are closed in portions of about this many grid cells, to bound memory."""
_SMALL_GRID = 1 << 16
"""Windows of several names share a grid if the grid has at most this many cells."""


@dataclass(frozen=True)
class ClosedWindows:
    """Closed windows: element i is window `wid[i]` of group `code[i]`."""

    code: np.ndarray
    wid: np.ndarray
    parts: list[AccumulatorColumns]
    ends: np.ndarray | None = None
    """The ends of the windows, if they do not follow from the window ids."""
    which: np.ndarray | None = None
    """The number of each window's spec, if several specs share the panes."""
    read: np.ndarray | None = None
    """The number of rows of each window that were read, if others were skipped."""

    @property
    def rows(self) -> np.ndarray:
        """The number of rows of each window that were read."""
        return self.parts[0].arrays[0] if self.read is None else self.read

    def take(self, chosen: np.ndarray) -> ClosedWindows:
        """Return the windows in the mask `chosen`."""
        return ClosedWindows(
            self.code[chosen],
            self.wid[chosen],
            [part.take(chosen) for part in self.parts],
            None if self.ends is None else self.ends[chosen],
            None if self.which is None else self.which[chosen],
            None if self.read is None else self.read[chosen],
        )


@dataclass(frozen=True)
class WindowRun:
    """A run of windows of one spec: `since[g] <= wid < until[g]` for every group g."""

    spec: Sliding
    since: np.ndarray
    until: np.ndarray

    @property
    def batch(self) -> int:
        """The largest number of windows that have a pane in common."""
        return max(1, self.spec.panes // self.spec.panes_per_slide)

    @property
    def height(self) -> int:
        """The largest number of windows that close in one batch."""
        return int(min(self.batch, (self.until - self.since).max(initial=0)))

    def holding(self, cells: Cells) -> WindowRun:
        """Return the run without windows that lie entirely before or after all `cells`."""
        size, step = self.spec.panes, self.spec.panes_per_slide
        since = np.maximum(self.since, (cells.pane.min() - size) // step + 1)
        until = np.minimum(self.until, cells.pane.max() // step + 1)
        return WindowRun(self.spec, since, np.maximum(until, since))

    def spread(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        """Return arrays (cell, batch): a pair for each cell and each batch that needs it."""
        size, step, batch = self.spec.panes, self.spec.panes_per_slide, self.batch
        low, high = self.since[cells.code], self.until[cells.code]
        first = np.maximum((cells.pane - size) // step + 1, low)
        last = np.minimum(cells.pane // step, high - 1)
        used = np.flatnonzero(first <= last)
        low, first, last = low[used], first[used], last[used]
        number, which = spread((first - low) // batch, (last - low) // batch + 1)
        return used[which], number


def close(
    cells: Cells,
    parts: Sequence[Accumulator],
    spec: Sliding | Landmark,
    since: np.ndarray,
    until: np.ndarray,
    *,
    dropped: Intervals = (),
) -> Iterator[ClosedWindows]:
    """Yield, for every group g, its windows `since[g] <= wid < until[g]` that contain a row.

    `parts[0]` is the row count. Windows whose results have times in `dropped` are not closed.
    """
    if isinstance(spec, Landmark):
        yield from _close_landmark(cells, parts, since, until)
    else:
        yield from close_together(cells, parts, [WindowRun(spec, since, until)], dropped)


def close_together(
    cells: Cells, parts: Sequence[Accumulator], runs: Sequence[WindowRun], dropped: Intervals
) -> Iterator[ClosedWindows]:
    """Yield the windows of `runs` that contain a row; all runs use the same panes as `cells`.

    Windows whose results have times in `dropped` are not closed.
    """
    if not len(cells):
        return
    runs = [r.holding(cells) for r in runs]
    spreads = [r.spread(cells) for r in runs]
    index, batch = map(np.concatenate, zip(*spreads, strict=True))
    owner = np.repeat(np.arange(len(runs)) * cells.groups, [len(i) for i, _ in spreads])
    segment, owner, batch = number_cells(owner + cells.code[index], len(runs) * cells.groups, batch)
    which, group = owner // cells.groups, owner % cells.groups
    sizes = [(r.batch, r.spec.panes, r.spec.panes_per_slide) for r in runs]
    batch_size, size, step = np.array(sizes).T[:, which]
    begin = batch * batch_size + np.concatenate([r.since for r in runs])[owner]
    end = np.minimum(begin + batch_size, np.concatenate([r.until for r in runs])[owner])
    layout = which, group, begin, end, size, step
    # If one batch holds all windows, the cells are in this order already.
    in_order = bool(np.all(segment[1:] >= segment[:-1]))
    order = np.arange(len(segment)) if in_order else np.argsort(segment, kind="stable")
    bounds = np.searchsorted(segment[order], np.arange(len(owner) + 1))
    columns = np.bincount(which, minlength=len(runs)).tolist()
    for a, b, height in _slices(columns, [r.height for r in runs]):
        chosen = order[bounds[a] : bounds[b]]
        grid = _Grid(height, *[column[a:b] for column in layout])
        if dropped:
            grid.dropped = [window_runs(r.spec, dropped) for r in runs]
        yield from grid.close(cells.take(index[chosen]), parts, segment[chosen] - a)


def _slices(columns: list[int], heights: list[int]) -> Iterator[tuple[int, int, int]]:
    """Yield grids as (first column, end column, height); run i has `columns[i]` columns."""
    grids: list[tuple[int, int]] = []
    for wide, high in zip(columns, heights, strict=True):
        width, height = grids[-1] if grids else (0, 0)
        if (width + wide) * max(height, high) <= _SMALL_GRID:
            grids[-1:] = [(width + wide, max(height, high))]
        else:
            grids.append((wide, high))
    start = 0
    for width, height in grids:
        stride = max(1, GRID_CELLS // max(1, height))
        for a in range(start, start + width, stride):
            yield a, min(a + stride, start + width), height
        start += width


@dataclass
class _Grid:
    """A grid whose column j is a batch: the windows `begin[j] <= wid < end[j]` of `group[j]`.

    A window of column j has `size[j]` panes and begins `step[j]` panes after the previous window.
    """

    height: int
    which: np.ndarray
    group: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    size: np.ndarray
    step: np.ndarray
    dropped: Sequence[Intervals] = field(default=(), init=False)
    """The dropped windows of each run, as intervals of window ids."""

    def close(
        self, cells: Cells, parts: Sequence[Accumulator], segment: np.ndarray
    ) -> Iterator[ClosedWindows]:
        """Yield the windows of all batches; `segment[i]` is the grid column of cell i."""
        grids = self._totals(cells, parts, segment)
        wid = self.begin + np.arange(self.height)[:, None]
        counted = grids[0]
        assert counted is not None  # noqa: S101
        holds = (counted.arrays[0] > 0) & (wid < self.end)
        for n, runs in enumerate(self.dropped):
            holds &= (self.which != n) | ~within(runs, wid)
        column, wid = np.nonzero(holds)[1], wid[holds]
        code, which = self.group[column], self.which[column]
        done = [None if grid is None else grid.take(holds) for grid in grids]
        if all(part.bounded for part in parts):
            yield ClosedWindows(code, wid, [d for d in done if d is not None], which=which)
            return
        start = wid * self.step[column]
        until = start + self.size[column]
        first, end = first_cells(segment, cells.pane, column, start, until)
        for chosen in portions(parts, cells.parts, first, end, PORTION):
            finished = [
                merged(part, content, first[chosen], end[chosen])
                if totals is None
                else totals.take(chosen)
                for part, content, totals in zip(parts, cells.parts, done, strict=True)
            ]
            yield ClosedWindows(code[chosen], wid[chosen], finished, which=which[chosen])

    def _totals(
        self, cells: Cells, parts: Sequence[Accumulator], segment: np.ndarray
    ) -> list[AccumulatorColumns | None]:
        """Return each accumulator's content in all windows; None if it grows with the rows."""
        pane, step, width = cells.pane, self.step[segment], len(self.begin)
        start = (self.begin * self.step)[segment]
        core_start = ((self.end - 1) * self.step)[segment]
        core_end = (self.begin * self.step + self.size)[segment]
        left, right = np.flatnonzero(pane < core_start), np.flatnonzero(pane >= core_end)
        core = np.flatnonzero((pane >= core_start) & (pane < core_end))
        left_at = (pane[left] - start[left]) // step[left] * width + segment[left]
        right_row = (pane[right] - core_end[right]) // step[right] + 1
        right_at = right_row * width + segment[right]
        cuts = (left, left_at), (core, segment[core]), (right, right_at)
        return [
            self._total(part, content, *cuts) if part.bounded else None
            for part, content in zip(parts, cells.parts, strict=True)
        ]

    def _total(
        self, part: Accumulator, content: AccumulatorColumns, left: _Cut, core: _Cut, right: _Cut
    ) -> AccumulatorColumns:
        shape = self.height, len(self.begin)
        whole = part.merge(content.take(core[0]), core[1], shape[1]).reshape(1, shape[1])
        wide = tuple([np.broadcast_to(a, shape) for a in whole.arrays])
        grid = AccumulatorColumns(wide, whole.values)
        if len(left[0]):
            cut = part.merge(content.take(left[0]), left[1], shape[0] * shape[1])
            grid = part.combine(part.scan_up(cut.reshape(*shape)), grid)
        if len(right[0]):
            cut = part.merge(content.take(right[0]), right[1], shape[0] * shape[1])
            grid = part.combine(grid, part.scan(cut.reshape(*shape)))
        return grid


def _close_landmark(
    cells: Cells, parts: Sequence[Accumulator], since: np.ndarray, until: np.ndarray
) -> Iterator[ClosedWindows]:
    """Yield landmark windows: running totals over all panes up to the end of each window."""
    width = cells.groups
    if not len(cells) or not len(since):
        return
    begin, span = since, int((until - since).max())
    total = [part.empty(width, content) for part, content in zip(parts, cells.parts, strict=True)]
    stride = max(1, GRID_CELLS // width)
    done = np.full(width, FIRST_TICK)
    for top in range(0, span, stride):
        height = min(stride, span - top)
        row = cells.pane - (begin[cells.code] + top)
        fresh = np.flatnonzero((row < height) & (cells.pane > done[cells.code]))
        at = np.maximum(row[fresh], 0) * width + cells.code[fresh]
        grids = []
        for part, content, before in zip(parts, cells.parts, total, strict=True):
            cut = part.merge(content.take(fresh), at, height * width).reshape(height, width)
            cut.put(0, part.combine(before, cut.take(0)))
            grids.append(part.scan(cut))
        wid = begin + top + np.arange(height)[:, None]
        holds = (grids[0].arrays[0] > 0) & (wid < until)
        group = np.broadcast_to(np.arange(width), holds.shape)
        yield ClosedWindows(group[holds], wid[holds], [g.take(holds) for g in grids])
        total = [g.take(height - 1) for g in grids]
        done = begin + top + height - 1
