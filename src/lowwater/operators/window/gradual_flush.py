"""Gradual flush: the results of a window with very many groups are emitted over several epochs.

The groups of a shard are divided into slices by a hash of their keys. The windows of a slice close
by the slice's own watermark, a fixed distance behind the watermark in force: slice 0 closes them
at once, the last slice after nearly the whole delay (OOP 6). So results are emitted evenly over
time, in amounts that do not block the stream. Only the watermark in force decides lateness: a
window that waits for its slice accepts no more rows.

A *lazy* flush waits longer while there is room: a slice is emitted when the state has more than
`room` cells, otherwise in the second half of the delay.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import RawRows
from lowwater.control.watermark import Watermarks
from lowwater.operators.group_codes import shard_of
from lowwater.operators.kernel import META, StateOverlay, StatePart, Step
from lowwater.operators.operator import GradualFlush
from lowwater.operators.window.cells import Cells, PackedCells, lift
from lowwater.operators.window.completion import WatermarkCompletion
from lowwater.operators.window.epoch import Meta, WindowEpoch
from lowwater.operators.window.layout import SlidingLayout
from lowwater.ticks import END


class SlicedFlush:
    """The flush of a shard, slice by slice; each slice has its own watermark and buckets."""

    def __init__(self, epoch: WindowEpoch, flush: GradualFlush) -> None:
        self.epoch, self.plan, self.flush = epoch, epoch.plan, flush

    def advance(self, fresh: list[PackedCells], rows: list[RawRows], after: Watermarks) -> None:
        """Merge new cells into their slices, then close windows by the watermark of each slice."""
        parts = self._by_slice(fresh + [lift(self.plan, r) for r in rows])
        slices = self._slices()
        for one, cells in zip(slices, parts, strict=True):
            due = self._due(after, one.number)
            if cells or due != one.epoch.meta.watermarks:
                self._advance(one, cells, due)
        self._make_room(slices, after)
        meta = {"marks": after.to_json(), "slices": [one.epoch.meta.to_json() for one in slices]}
        self.epoch.out.changes[META] = json.dumps(meta).encode()
        for one in slices:
            self.epoch.more_cells += one.epoch.meta.buckets.cells
            self.epoch.more_bytes += one.epoch.meta.buckets.size

    def _slices(self) -> list[_Slice]:
        """Return the slices, read from state."""
        content, count = self.epoch.state.get(META), len(self.flush.lags)
        metas = [None] * count if content is None else json.loads(content)["slices"]
        plan, shard, state = replace(self.plan, flush=None), self.epoch.shard, self.epoch.state
        slices = []
        for number, meta in enumerate(metas):
            epoch = WindowEpoch(plan, shard, StatePart(state, f"{number}/"))
            epoch.meta = Meta.from_json(meta)
            slices.append(_Slice(epoch, SlidingLayout(epoch), number))
        return slices

    def _due(self, watermarks: Watermarks, number: int) -> Watermarks:
        """Return the watermarks that close the windows of slice `number`."""
        lag, spec = self.flush.lags[number], self.plan.positioned
        return watermarks.mapped(lambda w: w if w >= END else spec.align(w - lag))

    def _advance(self, one: _Slice, fresh: list[PackedCells], watermarks: Watermarks) -> None:
        """Run the epoch of a slice, and add its changes and emissions to those of the shard."""
        epoch, out = one.epoch, self.epoch.out
        epoch.out = Step()
        one.advance(fresh, [], epoch.meta.watermarks.raised(watermarks))
        for name, content in epoch.out.changes.items():
            if name != META:
                out.changes[f"{one.number}/{name}"] = content
        out.emissions += [replace(p, seq=len(out.emissions)) for p in epoch.out.emissions]
        for tally in ("results", "overflows"):
            if n := epoch.counts.pop(tally, 0):
                self.epoch.counts[tally] = self.epoch.counts.get(tally, 0) + n
        epoch.counts["results"] = 0

    def _make_room(self, slices: list[_Slice], watermarks: Watermarks) -> None:
        """Emit waiting windows, slice by slice, while the state has more cells than `room`."""
        if self.flush.room is None:
            return
        room = self.flush.room // self.plan.shards
        for one in slices:
            if sum(s.epoch.meta.buckets.cells for s in slices) <= room:
                return
            if one.epoch.meta.watermarks != watermarks:
                changes = StatePart(self.epoch.out.changes, f"{one.number}/")  # type: ignore[arg-type]
                one.epoch.state = StateOverlay(one.epoch.state, dict(changes))
                self._advance(one, [], watermarks)

    def _by_slice(self, packs: list[PackedCells]) -> list[list[PackedCells]]:
        """Return the cells in `packs`, divided into one list of packed cells for each slice."""
        count = len(self.flush.lags)
        parts: list[list[PackedCells]] = [[] for _ in range(count)]
        for packed in packs:
            keys = [packed.keys.column(k).combine_chunks() for k in self.plan.keys]
            shard = shard_of(keys, packed.groups, self.plan.shards * count)
            for number, part in _cut_by_slice(packed, shard // self.plan.shards, count):
                parts[number].append(part)
        return parts


class _Slice(WatermarkCompletion):
    """One slice; it deletes the cells of emitted windows at once, because `room` counts cells."""

    def __init__(self, epoch: WindowEpoch, layout: SlidingLayout, number: int) -> None:
        super().__init__(epoch, layout)
        self.number = number

    def fold(self, cells: Cells, after: Watermarks) -> tuple[Cells, np.ndarray]:
        """Return the cells that future results need, and the panes of the other cells."""
        return self.layout.drop_closed(cells, after)


def _cut_by_slice(
    packed: PackedCells, number: np.ndarray, count: int
) -> Iterator[tuple[int, PackedCells]]:
    """Yield (slice, cells) for each slice with cells; `number` has the slice of each group."""
    by_slice = np.argsort(number.astype(np.uint8), kind="stable")
    place = np.empty(packed.groups, np.int64)
    place[by_slice] = np.arange(packed.groups)
    first = np.searchsorted(number[by_slice], np.arange(count + 1))
    of_cell = number[packed.code].astype(np.uint8)
    order = np.argsort(of_cell, kind="stable")
    start = np.searchsorted(of_cell[order], np.arange(count + 1))
    keys = packed.keys.take(pa.array(by_slice))
    code, pane = place[packed.code][order], packed.pane[order]
    columns = [c.take(pa.array(order)) for c in packed.columns]
    for i, (low, high) in enumerate(pairwise(start.tolist())):
        if high > low:
            groups = int(first[i + 1] - first[i])
            mine = keys.slice(int(first[i]), groups)
            cut = [c.slice(low, high - low) for c in columns]
            yield i, PackedCells(mine, groups, code[low:high] - first[i], pane[low:high], cut)
