"""Layouts: the windows of a row, and the panes of a window.

A layout determines the windows of a row, the buckets that closing windows read, and the panes that
open windows still need. It also computes closed windows from cells. The completion decides which
windows close (completion.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import Accumulator, RawRows
from lowwater.aggregates.user_functions import ResumableFold
from lowwater.control.watermark import Watermarks
from lowwater.operators.packet import Packet
from lowwater.operators.window.admit import row_watermarks
from lowwater.operators.window.cells import Cells, PackedCells, merge
from lowwater.operators.window.class_drops import without_classes
from lowwater.operators.window.close import ClosedWindows, WindowRun, close, close_together
from lowwater.operators.window.epoch import WindowEpoch
from lowwater.operators.window.per_window import closed_windows
from lowwater.operators.window.plan import WindowPlan
from lowwater.operators.window.sample_weights import closed_with_weights
from lowwater.ticks import BEGIN, END
from lowwater.windows.common_panes import Shared
from lowwater.windows.sliding import SingleWindow

Tables = list[tuple[int, pa.Table]]
"""Tables of rows at the port, as pairs (place in arrival order, table)."""


class SlidingLayout:
    """The layout of windows with a fixed range and slide, which are cut into panes."""

    keeps_all = False
    """Whether open windows need every pane."""

    def __init__(self, epoch: WindowEpoch) -> None:
        self.epoch, self.plan = epoch, epoch.plan

    # -- rows ------------------------------------------------------------------------------------

    @property
    def windows(self) -> Sequence[tuple[WindowPlan, SingleWindow]]:
        """Pairs (plan, spec): the plan defines the late rows, and the spec defines the windows."""
        return [(self.plan, self.plan.window)]

    def prepare(self, packets: Sequence[Packet]) -> None:
        """Read the packets that only this layout uses. Called first in an epoch."""

    def arrive(self, tables: Tables) -> Tables:
        """Return the rows with the columns that the layout adds. Called before admission."""
        return tables

    def admitted(self, rows: list[RawRows]) -> None:
        """Receive the rows that entered a window. Called after admission."""

    def finish(self, watermarks: Watermarks) -> None:
        """Write state other than cells. Called last in an epoch, with the new watermarks."""

    # -- panes -----------------------------------------------------------------------------------

    def group_open(self, cells: Cells, watermarks: Watermarks) -> np.ndarray:
        """Return the first open window of every group."""
        watermark = self.group_watermarks(cells.keys, cells.groups, watermarks)
        return np.asarray(self.plan.spec.first_open(watermark))

    def group_watermarks(self, keys: pa.Table, groups: int, watermarks: Watermarks) -> np.ndarray:
        """Return the watermark of every group."""
        if self.plan.groups_have_marks and groups:
            own = np.asarray(row_watermarks(self.plan, keys, watermarks))
            return np.asarray(np.clip(np.broadcast_to(own, groups), BEGIN, END))
        low = BEGIN if watermarks.low is None else min(max(watermarks.low, BEGIN), END)
        return np.full(groups, low, np.int64)

    def buckets_between(self, before: Watermarks, after: Watermarks) -> set[int]:
        """Return the buckets with cells of windows that close as watermarks rise to `after`."""
        plan, buckets = self.plan, self.epoch.meta.buckets
        if before.low is None or plan.groups_have_marks or self.keeps_all:
            return set(buckets.all)
        reached = min(before.low if after.low is None else after.low, END)
        needed: set[int] = set()
        for _, window in plan.spec if isinstance(plan.spec, Shared) else plan.spec.fixed:
            low, high = int(window.first_open(before.low)), int(window.first_open(reached))
            if high > low:
                needed |= buckets.between(*plan.panes_of(window, low, high))
        return needed

    def still_needed(self, pane: np.ndarray, first_open: np.ndarray | int) -> np.ndarray:
        """Return a mask of the elements of `pane` that windows from `first_open` on need."""
        if self.plan.keeping == "windows":
            return np.asarray(pane >= first_open)
        return np.asarray(pane >= first_open * self.plan.spec.panes_per_slide)

    def close(self, cells: Cells, before: Watermarks, after: Watermarks) -> Iterator[ClosedWindows]:
        """Yield, in portions, the windows that close as watermarks rise to `after`."""
        return self.close_runs(cells, self.group_open(cells, before), self.group_open(cells, after))

    def close_runs(
        self, cells: Cells, since: np.ndarray, until: np.ndarray
    ) -> Iterator[ClosedWindows]:
        """Yield, for every group g, its windows `since[g] <= wid < until[g]`."""
        plan = self.plan
        if plan.keeping == "windows":
            closed = closed_windows(cells, since, until)
            return without_classes(plan, cells, closed, [spec for _, spec in plan.fixed_windows])

        def chosen(cells: Cells, parts: Sequence[Accumulator]) -> Iterator[ClosedWindows]:
            return close(cells, parts, plan.positioned, since, until, dropped=plan.dropped)

        closed = closed_with_weights(plan, cells, chosen)
        return without_classes(plan, cells, closed, [spec for _, spec in plan.fixed_windows])

    def fold(self, cells: Cells, after: Watermarks) -> tuple[Cells, np.ndarray]:
        """Return the cells that open windows need, and the panes whose cells changed.

        If all groups have one watermark, no cell is removed here: whole buckets are deleted later.
        """
        if not self.plan.groups_have_marks:
            return cells, cells.pane[:0]
        return self.drop_closed(cells, self.plan.late_by(after))

    def drop_closed(self, cells: Cells, watermarks: Watermarks) -> tuple[Cells, np.ndarray]:
        """Return the cells that open windows need, and the panes of the other cells."""
        needed = self.still_needed(cells.pane, self.group_open(cells, watermarks)[cells.code])
        return cells.take(needed), np.unique(cells.pane[~needed])


class LandmarkLayout(SlidingLayout):
    """The layout of landmark windows, which have a common start and need every pane."""

    keeps_all = True

    def close_runs(
        self, cells: Cells, since: np.ndarray, until: np.ndarray
    ) -> Iterator[ClosedWindows]:
        """Yield, for every group g, its windows `since[g] <= wid < until[g]` that hold a row."""
        born = np.full(cells.groups, END)
        np.minimum.at(born, cells.code, cells.pane)
        return super().close_runs(cells, np.clip(born, since, until), until)

    def fold(self, cells: Cells, after: Watermarks) -> tuple[Cells, np.ndarray]:
        """Merge each group's cells in closed panes; return all cells, and the changed panes."""
        plan, until = self.plan, self.group_open(cells, self.plan.late_by(after))
        closed = np.maximum(cells.pane, until[cells.code] - 1)
        moved = closed != cells.pane
        if not moved.any():
            return cells, cells.pane[:0]
        packed = cells.pack(plan.parts)
        folded = PackedCells(packed.keys, packed.groups, packed.code, closed, packed.columns)
        cells = self._settled(merge([folded], plan.parts), after)
        return cells, np.unique([*packed.pane[moved], *closed[moved]])

    def _settled(self, cells: Cells, after: Watermarks) -> Cells:
        """Return `cells` after every `ResumableFold` has added the values of closed panes."""
        done = cells.pane < self.group_open(cells, after)[cells.code]
        parts = [
            part.settle(content, done) if isinstance(part, ResumableFold) else content
            for part, content in zip(self.plan.parts, cells.parts, strict=True)
        ]
        return replace(cells, parts=parts)


class SharedLayout(SlidingLayout):
    """The layout of several named windows on common panes.

    `spec.first_open` returns a watermark, not a window id, since each name has its own ids.
    """

    @property
    def spec(self) -> Shared:
        """The specs of the windows, by name."""
        assert isinstance(self.plan.spec, Shared)  # noqa: S101
        return self.plan.spec

    @property
    def windows(self) -> Sequence[tuple[WindowPlan, SingleWindow]]:
        """Pairs (plan, spec), one for each named window; each plan has only its own window."""
        return [(self.plan.only(name, window), window) for name, window in self.spec]

    def still_needed(self, pane: np.ndarray, first_open: np.ndarray | int) -> np.ndarray:
        """Return a mask of the panes that open windows need; `first_open` is a watermark."""
        return np.asarray(pane >= self.spec.first_pane(first_open))

    def close_runs(
        self, cells: Cells, since: np.ndarray, until: np.ndarray
    ) -> Iterator[ClosedWindows]:
        """Yield, for every group g, its windows of all names with `since[g] < end <= until[g]`."""
        runs = [WindowRun(w, w.first_open(since), w.first_open(until)) for _, w in self.spec]

        def chosen(cells: Cells, parts: Sequence[Accumulator]) -> Iterator[ClosedWindows]:
            return close_together(cells, parts, runs, self.plan.dropped)

        closed = closed_with_weights(self.plan, cells, chosen)
        return without_classes(self.plan, cells, closed, [spec for _, spec in self.spec])
