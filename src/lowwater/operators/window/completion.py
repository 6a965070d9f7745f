"""Completions: they decide which windows are complete and which rows are late.

`WatermarkCompletion` closes windows in order, when the watermark passes their ends, and defines the
work of an epoch. `IntervalCompletion` closes windows under range punctuation: a punctuation may
complete an interval of time while rows of an earlier interval are still missing (a hole). Windows
inside complete intervals close; windows that overlap a hole stay open.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import RawRows
from lowwater.control.watermark import Watermarks
from lowwater.intervals import Intervals, difference, union
from lowwater.operators.window.admit import (
    Missed,
    account,
    missed_behind,
    raw_rows,
    row_watermarks,
    times_of,
)
from lowwater.operators.window.cells import Cells, PackedCells, lift, merge
from lowwater.operators.window.close import close
from lowwater.operators.window.epoch import WindowEpoch
from lowwater.operators.window.layout import SlidingLayout, Tables
from lowwater.operators.window.per_window import absorb, no_cells, open_windows
from lowwater.ticks import BEGIN, END
from lowwater.windows.sliding import Sliding


class WatermarkCompletion:
    """The completion in order: a window is complete when the watermark has reached its end."""

    def __init__(self, epoch: WindowEpoch, layout: SlidingLayout) -> None:
        self.epoch, self.layout, self.plan = epoch, layout, epoch.plan

    # -- data ----------------------------------------------------------------------------------

    def receive(self, fresh: list[PackedCells]) -> None:
        """Receive new cells, because lateness may depend on them. Called before admission."""

    def admit_all(self, tables: Tables) -> list[RawRows]:
        """Emit late rows, and return the rows that enter a window."""
        admitted = [self.admit(table, seq) for seq, table in self.layout.arrive(tables)]
        rows = [some for some in admitted if len(some)]
        self.layout.admitted(rows)
        return rows

    def admit(self, table: pa.Table, seq: int) -> RawRows:
        """Emit the late rows of `table`, and return the rows that enter a window."""
        ticks, dead = times_of(table)
        late_by = self.plan.late_by(self.epoch.meta.watermarks)
        watermark = np.maximum(row_watermarks(self.plan, table, late_by), BEGIN)
        missed, late = missed_behind(self.layout.windows, table, ticks, watermark, dead)
        account(self.epoch, table, seq, late, missed)
        return raw_rows(table, ticks, ~late)

    # -- control -------------------------------------------------------------------------------

    def advance(self, fresh: list[PackedCells], rows: list[RawRows], after: Watermarks) -> None:
        """Merge new data into state, close complete windows, evict cells that no window needs."""
        plan, epoch = self.plan, self.epoch
        meta, before = epoch.meta, epoch.meta.watermarks
        if plan.keeping == "panes":
            fresh = fresh + [lift(plan, r) for r in rows]
        closing, late_by = after != before, plan.late_by(before)
        touched = meta.buckets.taking(self._new_panes(fresh, rows, late_by))
        needed = touched | self.buckets_to_read(before, after)
        packs = epoch.read(needed)
        meta.watermarks = after
        if packs or fresh or rows:
            cells = merge(packs + fresh, plan.parts) if packs or fresh else no_cells(plan)
            if plan.keeping == "windows":
                for some in rows:
                    cells = absorb(plan, cells, some, late_by)
            self.emit(cells, before, after)
            if closing:
                cells, changed = self.fold(cells, after)
                touched |= meta.buckets.taking(changed)
            self.write(cells, touched, needed)
        if closing:
            self.evict()
        epoch.write_meta()

    def _new_panes(
        self, fresh: list[PackedCells], rows: list[RawRows], watermarks: Watermarks
    ) -> np.ndarray:
        """Return the panes (or windows) of the new cells and rows."""
        panes = [p.pane for p in fresh]
        if self.plan.keeping == "windows":
            panes += [open_windows(self.plan, r, watermarks)[1] for r in rows]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *panes]))

    def buckets_to_read(self, before: Watermarks, after: Watermarks) -> set[int]:
        """Return the buckets that the results of the epoch need."""
        return self.layout.buckets_between(before, after) if after != before else set()

    def emit(self, cells: Cells, before: Watermarks, after: Watermarks) -> None:
        """Emit the windows that close when the watermarks rise from `before` to `after`."""
        if after == before or not len(cells):
            return
        for seq, closed in enumerate(self.layout.close(cells, before, after)):
            self.epoch.emit(cells, closed, seq)

    def fold(self, cells: Cells, after: Watermarks) -> tuple[Cells, np.ndarray]:
        """Return the cells that open windows need, and the panes whose cells changed."""
        return self.layout.fold(cells, after)

    def write(self, cells: Cells, touched: set[int], loaded: set[int]) -> None:
        """Write new cells and the cells of `touched` buckets; other buckets are not rewritten."""
        buckets, first_open = self.epoch.meta.buckets, self._first_open()
        rewritten = np.ones(len(cells), bool)
        for b in loaded - touched:
            bucket = buckets.all[b]
            rewritten &= (cells.pane < bucket.low) | (cells.pane > bucket.high)
        if first_open is not None:
            rewritten &= self.layout.still_needed(cells.pane, first_open)
        chosen = cells if rewritten.all() else cells.take(np.flatnonzero(rewritten))
        self.epoch.rewrite(chosen, touched)

    def evict(self) -> None:
        """Delete the buckets that no open window needs."""
        first_open = self._first_open()
        if first_open is None:
            return
        for bucket in list(self.epoch.meta.buckets):
            if not self.layout.still_needed(np.array(bucket.high), first_open):
                self.epoch.delete(bucket)

    def _first_open(self) -> int | None:
        """Return the first open window of the shard; None if every pane is needed."""
        low = self.plan.late_by(self.epoch.meta.watermarks).low
        if low is None or self.layout.keeps_all:
            return None
        return int(self.plan.spec.first_open(min(low, END)))


class IntervalCompletion(WatermarkCompletion):
    """The completion by intervals: a window may close while earlier windows are still open."""

    @property
    def spec(self) -> Sliding:
        """The spec of the windows."""
        assert isinstance(self.plan.spec, Sliding)  # noqa: S101
        return self.plan.spec

    def complete(self, watermarks: Watermarks) -> Intervals:
        """Return the ids of complete windows, as intervals `[first, end)`."""
        spec, low = self.spec, watermarks.low
        passed = [] if low is None else [(BEGIN, int(spec.first_open(low)))]
        inside = [
            (-((spec.origin - start) // spec.slide), int(spec.first_open(end)))
            for start, end in watermarks.ranges
        ]
        return union(passed + inside)

    def admit(self, table: pa.Table, seq: int) -> RawRows:
        """Emit the late rows of `table`, and return the rows with a window that is not complete."""
        ticks, _ = times_of(table)
        first, last = self.spec.first(ticks), self.spec.last(ticks)
        count, lowest, highest = among(self.complete(self.epoch.meta.watermarks), first, last)
        late = count > last - first
        missed = Missed(self.plan, count > 0, lowest, highest + 1)
        account(self.epoch, table, seq, late, [missed])
        return raw_rows(table, ticks, ~late)

    def buckets_to_read(self, before: Watermarks, after: Watermarks) -> set[int]:
        """Return the buckets that results need: all, if an interval after a hole is complete."""
        if after != before and (before.ranges or after.ranges):
            return set(self.epoch.meta.buckets.all)
        return super().buckets_to_read(before, after)

    def emit(self, cells: Cells, before: Watermarks, after: Watermarks) -> None:
        """Emit the windows that have become complete."""
        seq, runs = 0, difference(self.complete(after), self.complete(before))
        for some, first, end in (part for run in runs for part in self.cut(cells, *run)):
            if not len(some):
                continue
            since, until = (np.full(some.groups, wid) for wid in (first, end))
            for closed in close(some, self.plan.parts, self.spec, since, until):
                self.epoch.emit(some, closed, seq)
                seq += len(closed.wid) > 0

    def cut(self, cells: Cells, first: int, end: int) -> Iterator[tuple[Cells, int, int]]:
        """Divide the windows `first <= wid < end` into runs; yield each as (cells, first, end)."""
        yield cells, first, end

    def fold(self, cells: Cells, after: Watermarks) -> tuple[Cells, np.ndarray]:
        """Return the cells that open windows need, and the panes of the other cells."""
        if not after.ranges:
            return super().fold(cells, after)
        last = cells.pane // self.spec.panes_per_slide
        first = (cells.pane - self.spec.panes) // self.spec.panes_per_slide + 1
        closed, _, _ = among(self.complete(after), first, last)
        needed = closed <= last - first
        return cells.take(needed), np.unique(cells.pane[~needed])


def among(
    runs: Intervals, first: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, for each i, (count, lowest, highest) of the ids of `runs` in [first[i], last[i]]."""
    count, lowest, highest = np.zeros_like(first), last.copy(), first.copy()
    for start, end in runs:
        low, high = np.maximum(first, start), np.minimum(last, end - 1)
        some = high >= low
        lowest = np.where(some & (count == 0), low, lowest)
        highest = np.where(some, high, highest)
        count = count + np.where(some, high - low + 1, 0)
    return count, lowest, highest
