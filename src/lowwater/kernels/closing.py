"""Closing windows: from panes to windows, many windows and groups at once, without subtraction.

Windows that close together are cut into batches of at most RANGE/SLIDE. All windows of a batch
share a core of panes; what one window has beyond it is a suffix of the panes to the left of the
core and a prefix of those to its right (two stacks; van Herk's blocks, anchored at the batch):

    panes      . . L L L C C R R R . .        window i = suffix of L from i, C, prefix of R to i
    window 0       |---------|
    window 1         |---------|
    window 3             |---------|

Cells are folded once, suffixes and prefixes are running totals down a grid of (window in batch) ×
(group, batch). The work is one step per cell and per result, whatever RANGE/SLIDE is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lowwater.aggregates import Part, Partial
from lowwater.kernels.cells import Cells, compact_wide
from lowwater.kernels.ranges import PORTION, merged, portions
from lowwater.windows import Landmark, Sliding

GRID_CELLS = 2_000_000
"""Windows are closed in slices of about this many grid cells, to bound memory."""


@dataclass(frozen=True)
class Closed:
    """Finished windows: row i is window `wid[i]` of group `code[i]`."""

    code: np.ndarray
    wid: np.ndarray
    parts: list[Partial]
    ends: np.ndarray | None = None
    """Where they end, if the window id alone does not say."""


def close(
    cells: Cells,
    parts: Sequence[Part],
    spec: Sliding | Landmark,
    since: np.ndarray,
    until: np.ndarray,
) -> Iterator[Closed]:
    """Yield the windows `since[g] <= wid < until[g]` of every group g that hold a row.

    `parts[0]` is the row count.
    """
    if isinstance(spec, Landmark):
        yield from _close_landmark(cells, parts, since, until)
    else:
        yield from _close_sliding(cells, parts, spec, since, until)


def _close_sliding(
    cells: Cells, parts: Sequence[Part], spec: Sliding, since: np.ndarray, until: np.ndarray
) -> Iterator[Closed]:
    if not len(cells):
        return
    size, step = spec.panes, spec.panes_per_slide
    # Marks may be infinitely far away; windows that hold a row are not.
    since = np.maximum(since, (cells.pane.min() - size) // step + 1)
    until = np.maximum(np.minimum(until, cells.pane.max() // step + 1), since)
    lo, hi = since[cells.code], until[cells.code]
    first = np.maximum((cells.pane - size) // step + 1, lo)
    last = np.minimum(cells.pane // step, hi - 1)
    used = np.flatnonzero(first <= last)
    if not len(used):
        return
    batch_size = max(1, size // step)
    lo, first, last = lo[used], first[used], last[used]
    from_batch, to_batch = (first - lo) // batch_size, (last - lo) // batch_size
    copies = to_batch - from_batch + 1
    index = np.repeat(used, copies)
    nth = np.arange(len(index)) - np.repeat(np.cumsum(copies) - copies, copies)
    batch = np.repeat(from_batch, copies) + nth
    numbered, batches = compact_wide(batch)
    segment, segments = compact_wide(cells.code[index] * len(batches) + numbered)
    group, begin = segments // len(batches), batches[segments % len(batches)] * batch_size
    begin = begin + since[group]
    height = int(min(batch_size, (until - since).max()))
    order = np.argsort(segment, kind="stable")
    bounds = np.searchsorted(segment[order], np.arange(len(segments) + 1))
    stride = max(1, GRID_CELLS // height)
    for a in range(0, len(segments), stride):
        b = min(a + stride, len(segments))
        chosen = order[bounds[a] : bounds[b]]
        end = np.minimum(begin[a:b] + batch_size, until[group[a:b]])
        grid = _Grid(spec, group[a:b], begin[a:b], end, height)
        yield from grid.close(cells.take(index[chosen]), parts, segment[chosen] - a)


@dataclass(frozen=True)
class _Grid:
    """Batches of windows, one per column: column j holds windows begin[j] to end[j] of group[j]."""

    spec: Sliding
    group: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    height: int

    def close(self, cells: Cells, parts: Sequence[Part], segment: np.ndarray) -> Iterator[Closed]:
        """Close all batches; `segment` is the column of each cell."""
        width, size, step = len(self.begin), self.spec.panes, self.spec.panes_per_slide
        start = self.begin[segment] * step
        core_start = (self.end[segment] - 1) * step
        core_end = start + size
        left = np.flatnonzero(cells.pane < core_start)
        right = np.flatnonzero(cells.pane >= core_end)
        core = np.flatnonzero((cells.pane >= core_start) & (cells.pane < core_end))
        left_at = (cells.pane[left] - start[left]) // step * width + segment[left]
        right_at = ((cells.pane[right] - core_end[right]) // step + 1) * width + segment[right]
        grids: list[Partial | None] = []
        for part, kept in zip(parts, cells.parts, strict=True):
            if not part.bounded:
                grids.append(None)
                continue
            whole = part.merge(kept.take(core), segment[core], width).reshape(1, width)
            grid = Partial(
                tuple(np.broadcast_to(a, (self.height, width)) for a in whole.arrays), whole.values
            )
            if len(left):
                cut = part.merge(kept.take(left), left_at, self.height * width)
                grid = part.combine(part.scan_up(cut.reshape(self.height, width)), grid)
            if len(right):
                cut = part.merge(kept.take(right), right_at, self.height * width)
                grid = part.combine(grid, part.scan(cut.reshape(self.height, width)))
            grids.append(grid)
        wid = self.begin + np.arange(self.height)[:, None]
        counted = grids[0]
        assert counted is not None  # noqa: S101
        holds = (counted.arrays[0] > 0) & (wid < self.end)
        code, wid = np.broadcast_to(self.group, holds.shape)[holds], wid[holds]
        done = [None if grid is None else grid.take(holds) for grid in grids]
        if all(part.bounded for part in parts):
            yield Closed(code, wid, [d for d in done if d is not None])
            return
        ranges = _ranges(cells, segment, np.nonzero(holds)[1], wid * step, size)
        for chosen in portions(parts, cells.parts, *ranges, PORTION):
            first, end = (r[chosen] for r in ranges)
            finished = [
                merged(part, kept, first, end) if totals is None else totals.take(chosen)
                for part, kept, totals in zip(parts, cells.parts, done, strict=True)
            ]
            yield Closed(code[chosen], wid[chosen], finished)


def _ranges(
    cells: Cells, segment: np.ndarray, column: np.ndarray, start: np.ndarray, size: int
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
