"""Windows under range punctuation: what is complete need not be all that is before some mark.

A punctuation may say that a stretch of time is complete while rows of an earlier one are still on
their way (a hole). Windows that lie wholly in complete stretches are closed; those that reach into
a hole stay open, and so does what they need.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from lowwater.aggregates import Rows
from lowwater.control import Marks
from lowwater.kernels.aggregate import WindowEpoch
from lowwater.kernels.cells import Cells
from lowwater.kernels.closing import close
from lowwater.kernels.packets import table_packet
from lowwater.kernels.results import late_rows, result_rows
from lowwater.kernels.rows import DEAD, LATE_DEGREE, TICK
from lowwater.windows import FOREVER, Sliding

Windows = list[tuple[int, int]]
"""Stretches `[first, last)` of window ids, in order and apart."""


class RangedEpoch(WindowEpoch):
    """An epoch of windows that may close before earlier ones."""

    def complete(self, marks: Marks) -> Windows:
        """Return which windows are complete."""
        spec = self.plan.positioned
        found = [] if marks.low is None else [(-FOREVER, int(spec.first_open(marks.low)))]
        return found + windows_within(spec, marks.ranges)

    def admit(self, table: pa.Table, seq: int) -> Rows:
        """Sort whole rows into late, partly late and in time; return those that enter a window."""
        spec = self.plan.positioned
        ticks = table.column(TICK).combine_chunks().to_numpy()
        first, last = spec.first(ticks), spec.last(ticks)
        missed, lowest, highest = among(self.complete(self.meta.marks), first, last)
        late = missed > last - first
        self.counts["late"] += int(late.sum())
        self.counts["partly_late"] += int(((missed > 0) & ~late).sum())
        self.counts["admitted"] += int((~late).sum())
        some = missed > 0
        if some.any():
            rows = late_rows(
                self.plan,
                table.filter(pa.array(some)),
                (lowest[some], highest[some]),
                admitted=~late[some],
            )
            self.out.emissions.append(table_packet("late", self.shard, seq, rows))
        kept = np.flatnonzero(~late)
        return Rows(table.take(pa.array(kept)).drop_columns([TICK, LATE_DEGREE, DEAD]), ticks[kept])

    def needed(self, before: Marks, after: Marks) -> set[int]:
        """Return the buckets that windows which close may reach into."""
        if before.ranges or after.ranges:
            return set(self.meta.buckets.all)
        return super().needed(before, after)

    def emit(self, cells: Cells, before: Marks, after: Marks) -> None:
        """Close the windows that have become complete."""
        plan, seq = self.plan, 0
        complete = _without(self.complete(after), self.complete(before))
        for whole, first, end in (c for stretch in complete for c in self.closing(cells, *stretch)):
            if not len(whole):
                continue
            since, until = (np.full(whole.groups, at) for at in (first, end))
            for chunk in close(whole, plan.parts, plan.positioned, since, until):
                if len(chunk.wid):
                    self.counts["results"] += len(chunk.wid)
                    self.send_results(result_rows(plan, whole, chunk), seq)
                    seq += 1

    def closing(self, cells: Cells, first: int, end: int) -> Iterator[tuple[Cells, int, int]]:
        """Yield the windows from `first` to before `end`, and the cells that they are made of."""
        del self
        yield cells, first, end

    def fold(self, cells: Cells, after: Marks) -> tuple[Cells, np.ndarray]:
        """Drop the cells that no open window needs."""
        spec = self.plan.positioned
        if not after.ranges or not isinstance(spec, Sliding):
            return super().fold(cells, after)
        last = cells.pane // spec.panes_per_slide
        first = (cells.pane - spec.panes) // spec.panes_per_slide + 1
        closed, _, _ = among(self.complete(after), first, last)
        kept = closed <= last - first
        return cells.take(kept), np.unique(cells.pane[~kept])


def windows_within(spec: object, ranges: tuple[tuple[int, int], ...]) -> Windows:
    """Return which windows lie wholly in stretches of time."""
    assert isinstance(spec, Sliding)  # noqa: S101
    found = [
        (-((spec.origin - start) // spec.slide), int(spec.first_open(end))) for start, end in ranges
    ]
    return [(first, end) for first, end in found if first < end]


def among(
    complete: Windows, first: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return how many of the windows first … last are complete, the lowest and the highest."""
    count, lowest, highest = np.zeros_like(first), last.copy(), first.copy()
    for start, end in complete:
        low, high = np.maximum(first, start), np.minimum(last, end - 1)
        some = high >= low
        lowest = np.where(some & (count == 0), low, lowest)
        highest = np.where(some, high, highest)
        count = count + np.where(some, high - low + 1, 0)
    return count, lowest, highest


def _without(after: Windows, before: Windows) -> Windows:
    """Return what is in one list of stretches and not in the other."""
    found = []
    for begin, end in after:
        start = begin
        for low, high in before:
            if high <= start or low >= end:
                continue
            if low > start:
                found.append((start, low))
            start = max(start, high)
        if start < end:
            found.append((start, end))
    return found
