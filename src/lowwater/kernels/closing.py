"""Closing windows: from panes to windows, many windows and groups at once, without subtraction.

Windows that close together are cut into batches of at most RANGE/SLIDE. All windows of a batch
share a core of panes; what one window has beyond it is a suffix of the panes to the left of the
core and a prefix of those to its right (two stacks; van Herk's blocks, anchored at the batch):

    panes      . . L L L C C R R R . .        window i = suffix of L from i, C, prefix of R to i
    window 0       |---------|
    window 1         |---------|
    window 3             |---------|

Cells are folded once, suffixes and prefixes are running totals down a grid of (window in batch) ×
(name, group, batch): windows of several names that are on the same panes are columns next to each
other. The work is one step per cell and per result, whatever RANGE/SLIDE is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np

from lowwater.aggregates import Part, Partial
from lowwater.control import Stretches
from lowwater.kernels.cells import Cells, compact_wide, number_cells
from lowwater.kernels.ranges import PORTION, merged, portions
from lowwater.shedding.reaching import window_runs, within
from lowwater.windows import Landmark, Sliding

_Cut: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Some cells, and where in the grid each of them goes."""

GRID_CELLS = 2_000_000
"""Windows are closed in slices of about this many grid cells, to bound memory."""
_SMALL_GRID = 1 << 16
"""Windows of several names share a grid up to here: a call costs more than its empty cells."""


@dataclass(frozen=True)
class Closed:
    """Finished windows: row i is window `wid[i]` of group `code[i]`."""

    code: np.ndarray
    wid: np.ndarray
    parts: list[Partial]
    ends: np.ndarray | None = None
    """Where they end, if the window id alone does not say."""
    which: np.ndarray | None = None
    """Which of several windows each belongs to."""


@dataclass(frozen=True)
class Stretch:
    """The windows `since[g] <= wid < until[g]` of every group g."""

    spec: Sliding
    since: np.ndarray
    until: np.ndarray

    @cached_property
    def size(self) -> int:
        """Panes in a window."""
        return self.spec.panes

    @cached_property
    def step(self) -> int:
        """Panes from the start of a window to the start of the next."""
        return self.spec.panes_per_slide

    @property
    def batch(self) -> int:
        """How many windows at most have a pane in common."""
        return max(1, self.size // self.step)

    @property
    def height(self) -> int:
        """How many windows at most close in one batch."""
        return int(min(self.batch, (self.until - self.since).max(initial=0)))

    def holding(self, cells: Cells) -> Stretch:
        """Leave out windows before all cells and after: marks may be infinitely far away."""
        size, step = self.size, self.step
        since = np.maximum(self.since, (cells.pane.min() - size) // step + 1)
        until = np.minimum(self.until, cells.pane.max() // step + 1)
        return Stretch(self.spec, since, np.maximum(until, since))

    def spread(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        """Return (cell, batch) for every batch of windows that a cell is in."""
        size, step = self.size, self.step
        low, high = self.since[cells.code], self.until[cells.code]
        first = np.maximum((cells.pane - size) // step + 1, low)
        last = np.minimum(cells.pane // step, high - 1)
        used = np.flatnonzero(first <= last)
        low, first, last = low[used], first[used], last[used]
        from_batch = (first - low) // self.batch
        copies = (last - low) // self.batch - from_batch + 1
        index = np.repeat(used, copies)
        nth = np.arange(len(index)) - np.repeat(np.cumsum(copies) - copies, copies)
        return index, np.repeat(from_batch, copies) + nth


def close(
    cells: Cells,
    parts: Sequence[Part],
    spec: Sliding | Landmark,
    since: np.ndarray,
    until: np.ndarray,
    *,
    dropped: Stretches = (),
) -> Iterator[Closed]:
    """Yield the windows `since[g] <= wid < until[g]` of every group g that hold a row.

    `parts[0]` is the row count. Windows with results in `dropped` are left out.
    """
    if isinstance(spec, Landmark):
        yield from _close_landmark(cells, parts, since, until)
    else:
        yield from close_together(cells, parts, [Stretch(spec, since, until)], dropped=dropped)


def close_together(
    cells: Cells, parts: Sequence[Part], asked: Sequence[Stretch], *, dropped: Stretches = ()
) -> Iterator[Closed]:
    """Yield the windows of several stretches, all on the panes of `cells`, that hold a row.

    Windows with results in `dropped` are left out.
    """
    if not len(cells):
        return
    asked = [a.holding(cells) for a in asked]
    found = [a.spread(cells) for a in asked]
    index, batch = (np.concatenate(columns) for columns in zip(*found, strict=True))
    owner = np.repeat(np.arange(len(asked)) * cells.groups, [len(i) for i, _ in found])
    segment, owner, batch = number_cells(
        owner + cells.code[index], len(asked) * cells.groups, batch
    )
    which, group = owner // cells.groups, owner % cells.groups
    batch_size, size, step = np.array([(a.batch, a.size, a.step) for a in asked]).T[:, which]
    begin = batch * batch_size + np.concatenate([a.since for a in asked])[owner]
    end = np.minimum(begin + batch_size, np.concatenate([a.until for a in asked])[owner])
    layout = which, group, begin, end, size, step
    # Where one batch holds all windows, cells are in this order already.
    in_order = bool(np.all(segment[1:] >= segment[:-1]))
    order = np.arange(len(segment)) if in_order else np.argsort(segment, kind="stable")
    bounds = np.searchsorted(segment[order], np.arange(len(owner) + 1))
    columns = np.bincount(which, minlength=len(asked)).tolist()
    for a, b, height in _slices(columns, [stretch.height for stretch in asked]):
        chosen = order[bounds[a] : bounds[b]]
        grid = _Grid(height, *(column[a:b] for column in layout))
        if dropped:
            grid.left_out = [window_runs(stretch.spec, dropped) for stretch in asked]
        yield from grid.close(cells.take(index[chosen]), parts, segment[chosen] - a)


def _slices(columns: list[int], heights: list[int]) -> Iterator[tuple[int, int, int]]:
    """Cut columns, so many of each height, into grids (first, end, height) of bounded size."""
    runs: list[tuple[int, int]] = []
    for wide, high in zip(columns, heights, strict=True):
        width, height = runs[-1] if runs else (0, 0)
        if (width + wide) * max(height, high) <= _SMALL_GRID:
            runs[-1:] = [(width + wide, max(height, high))]
        else:
            runs.append((wide, high))
    start = 0
    for width, height in runs:
        stride = max(1, GRID_CELLS // max(1, height))
        for a in range(start, start + width, stride):
            yield a, min(a + stride, start + width), height
        start += width


@dataclass
class _Grid:
    """Batches of windows, one per column: column j holds windows begin[j] to end[j] of group[j].

    Each is `size[j]` panes long and begins `step[j]` panes after the one before.
    """

    height: int
    which: np.ndarray
    group: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    size: np.ndarray
    step: np.ndarray
    left_out: Sequence[Stretches] = field(default=(), init=False)
    """The runs of windows of each stretch that are left out, if any are."""

    def close(self, cells: Cells, parts: Sequence[Part], segment: np.ndarray) -> Iterator[Closed]:
        """Close all batches; `segment` is the column of each cell."""
        grids = self._totals(cells, parts, segment)
        wid = self.begin + np.arange(self.height)[:, None]
        counted = grids[0]
        assert counted is not None  # noqa: S101
        holds = (counted.arrays[0] > 0) & (wid < self.end)
        for n, runs in enumerate(self.left_out):
            holds &= (self.which != n) | ~within(runs, wid)
        column, wid = np.nonzero(holds)[1], wid[holds]
        code, which = self.group[column], self.which[column]
        done = [None if grid is None else grid.take(holds) for grid in grids]
        if all(part.bounded for part in parts):
            yield Closed(code, wid, [d for d in done if d is not None], which=which)
            return
        ranges = _ranges(cells, segment, column, wid * self.step[column], self.size[column])
        for chosen in portions(parts, cells.parts, *ranges, PORTION):
            first, end = (r[chosen] for r in ranges)
            finished = [
                merged(part, kept, first, end) if totals is None else totals.take(chosen)
                for part, kept, totals in zip(parts, cells.parts, done, strict=True)
            ]
            yield Closed(code[chosen], wid[chosen], finished, which=which[chosen])

    def _totals(
        self, cells: Cells, parts: Sequence[Part], segment: np.ndarray
    ) -> list[Partial | None]:
        """Return the content of every window; None for parts that running totals would copy."""
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
            self._total(part, kept, *cuts) if part.bounded else None
            for part, kept in zip(parts, cells.parts, strict=True)
        ]

    def _total(self, part: Part, kept: Partial, left: _Cut, core: _Cut, right: _Cut) -> Partial:
        shape = self.height, len(self.begin)
        whole = part.merge(kept.take(core[0]), core[1], shape[1]).reshape(1, shape[1])
        grid = Partial(tuple(np.broadcast_to(a, shape) for a in whole.arrays), whole.values)
        if len(left[0]):
            cut = part.merge(kept.take(left[0]), left[1], shape[0] * shape[1])
            grid = part.combine(part.scan_up(cut.reshape(*shape)), grid)
        if len(right[0]):
            cut = part.merge(kept.take(right[0]), right[1], shape[0] * shape[1])
            grid = part.combine(grid, part.scan(cut.reshape(*shape)))
        return grid


def _ranges(
    cells: Cells, segment: np.ndarray, column: np.ndarray, start: np.ndarray, size: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return which cells [first, end) each window of a column holds; cells are sorted by column."""
    place, known = compact_wide(cells.pane)
    ordered = segment * (len(known) + 1) + place
    sought = [column * (len(known) + 1) + np.searchsorted(known, p) for p in (start, start + size)]
    return np.searchsorted(ordered, sought[0]), np.searchsorted(ordered, sought[1])


def _close_landmark(
    cells: Cells, parts: Sequence[Part], since: np.ndarray, until: np.ndarray
) -> Iterator[Closed]:
    width = cells.groups
    if not len(cells) or not len(since):
        return
    begin, span = since, int((until - since).max())
    total = [part.empty(width, kept) for part, kept in zip(parts, cells.parts, strict=True)]
    stride = max(1, GRID_CELLS // width)
    done = np.full(width, np.iinfo(np.int64).min)
    for top in range(0, span, stride):
        height = min(stride, span - top)
        row = cells.pane - (begin[cells.code] + top)
        fresh = np.flatnonzero((row < height) & (cells.pane > done[cells.code]))
        at = np.maximum(row[fresh], 0) * width + cells.code[fresh]
        grids = []
        for part, kept, before in zip(parts, cells.parts, total, strict=True):
            cut = part.merge(kept.take(fresh), at, height * width).reshape(height, width)
            cut.put(0, part.combine(before, cut.take(0)))
            grids.append(part.scan(cut))
        wid = begin + top + np.arange(height)[:, None]
        holds = (grids[0].arrays[0] > 0) & (wid < until)
        group = np.broadcast_to(np.arange(width), holds.shape)
        yield Closed(group[holds], wid[holds], [g.take(holds) for g in grids])
        total = [g.take(height - 1) for g in grids]
        done = begin + top + height - 1
