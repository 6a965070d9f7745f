"""Several windows on the same panes: rows are reduced and kept once, and closed for each window."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lowwater.aggregates import Rows
from lowwater.control import Marks
from lowwater.kernels.aggregate import WindowEpoch
from lowwater.kernels.cells import Cells
from lowwater.kernels.closing import Stretch, close_together
from lowwater.kernels.delivery import row_marks
from lowwater.kernels.packets import table_packet
from lowwater.kernels.results import late_rows, result_rows
from lowwater.kernels.rows import DEAD, LATE_DEGREE, TICK
from lowwater.shedding.reaching import needed_windows
from lowwater.windows import FOREVER, Shared

_NEVER = -(2**62)


class SharedEpoch(WindowEpoch):
    """An epoch of several windows on common panes."""

    @property
    def spec(self) -> Shared:
        """The windows."""
        assert isinstance(self.plan.spec, Shared)  # noqa: S101
        return self.plan.spec

    def admit(self, table: pa.Table, seq: int) -> Rows:
        """Sort whole rows: late if no window of any name takes them, partly late if some do not."""
        ticks = table.column(TICK).combine_chunks().to_numpy()
        dead = table.column(DEAD).combine_chunks().to_numpy(zero_copy_only=False)
        late_by = self.plan.late_by(self.meta.marks)
        mark = np.maximum(row_marks(self.plan, table, late_by), _NEVER)
        entered = np.zeros(len(ticks), bool)
        lost = []
        for name, window in self.spec:
            ids = window.first(ticks), window.last(ticks)
            first, last = needed_windows(self.plan.dropped, window, *ids)
            until = np.where(dead, last + 1, np.minimum(window.first_open(mark), last + 1))
            lost.append((name, window, first, np.maximum(until, first)))
            entered |= until <= last
        missed = np.logical_or.reduce([until > first for _, _, first, until in lost])
        late = ~entered
        self.counts["late"] += int(late.sum())
        self.counts["partly_late"] += int((missed & entered).sum())
        self.counts["admitted"] += int(entered.sum())
        for name, window, first, until in lost:
            mine = until > first
            if mine.any():
                rows = late_rows(
                    self.plan.only(name, window),
                    table.filter(pa.array(mine)),
                    needed_windows(self.plan.dropped, window, first[mine], until[mine] - 1),
                    admitted=entered[mine],
                )
                self.out.emissions.append(table_packet("late", self.shard, seq, rows))
        kept = np.flatnonzero(entered)
        return Rows(table.take(pa.array(kept)).drop_columns([TICK, LATE_DEGREE, DEAD]), ticks[kept])

    def needed(self, before: Marks, after: Marks) -> set[int]:
        """Return the buckets that windows of any name between two marks reach into."""
        if before.low is None or self.plan.groups_have_marks:
            return set(self.meta.buckets.all)
        reached = min(before.low if after.low is None else after.low, FOREVER)
        found: set[int] = set()
        for _, window in self.spec:
            low, high = int(window.first_open(before.low)), int(window.first_open(reached))
            if high > low:
                step = window.panes_per_slide
                end = (high - 1) * step + window.panes
                found |= self.meta.buckets.between(low * step, end)
        return found

    def still_needed(self, pane: np.ndarray, first_open: np.ndarray | int) -> np.ndarray:
        """Return which panes belong to a window that is open; `first_open` is a mark here."""
        return np.asarray(pane >= self.spec.first_pane(first_open))

    def emit(self, cells: Cells, before: Marks, after: Marks) -> None:
        """Close the windows of every name between two marks."""
        if not len(cells):
            return
        since, until = self.group_open(cells, before), self.group_open(cells, after)
        asked = [Stretch(w, w.first_open(since), w.first_open(until)) for _, w in self.spec]
        for seq, chunk in enumerate(
            close_together(cells, self.plan.parts, asked, dropped=self.plan.dropped)
        ):
            if len(chunk.wid):
                self.counts["results"] += len(chunk.wid)
                self.send_results(result_rows(self.plan, cells, chunk), seq)
