"""Allowed lateness: late rows correct windows whose results have been emitted.

A lagging watermark, behind the watermark in force, decides which rows are late. Panes stay in state
until the lagging watermark has passed them. Windows that end between the two watermarks are closed,
and their finals are emitted. If rows enter such a window, the epoch emits the window's result
again, once, with all rows received so far.

    lagging watermark              watermark in force
          |                             |
    late  |  corrects finals: revised   |  on time

Only the windows that late rows entered are computed again, and only for the groups of these rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import RawRows
from lowwater.aggregates.accumulators.values import spread
from lowwater.control.watermark import Watermarks
from lowwater.operators.group_codes import group_rows
from lowwater.operators.window.admit import row_watermarks
from lowwater.operators.window.cells import Cells, PackedCells, codes_of, first_cells, session_of
from lowwater.operators.window.close import ClosedWindows, close
from lowwater.operators.window.completion import WatermarkCompletion
from lowwater.operators.window.per_window import closed_windows
from lowwater.ticks import BEGIN
from lowwater.windows.sliding import Sliding

_APART = 2
"""The least difference of two window ids that are not neighbours."""


@dataclass(frozen=True)
class Revision:
    """Runs of windows to emit again: run i is `first[i] <= wid < end[i]` of group `code[i]`.

    `names` has the keys of each group; `panes` is (low, high): run i needs panes [low[i], high[i]).
    """

    window: Sliding
    names: pa.Table
    code: np.ndarray
    first: np.ndarray
    end: np.ndarray
    panes: tuple[np.ndarray, np.ndarray]

    def of(self, cells: Cells) -> Cells:
        """Return the cells of the runs, with each run as a separate group."""
        group = codes_of(cells, self.names)[self.code]
        index, run = spread(*first_cells(cells.code, cells.pane, group, *self.panes))
        chosen = cells.take(index)
        keys = cells.keys.take(pa.array(group)) if cells.keys.num_columns else cells.keys
        return Cells(keys, len(group), run, chosen.pane, chosen.parts)


class LaggingCompletion(WatermarkCompletion):
    """The completion with allowed lateness: a lagging watermark decides which rows are late."""

    def advance(self, fresh: list[PackedCells], rows: list[RawRows], after: Watermarks) -> None:
        """Determine the closed windows that late rows entered, then run the epoch."""
        behind = [some for some in map(self._behind, rows) if len(some)]
        windows = [window for _, window in self.layout.windows if isinstance(window, Sliding)]
        self.revisions = [self._entered(w, behind) if behind else None for w in windows]
        super().advance(fresh, rows, after)

    def _behind(self, rows: RawRows) -> RawRows:
        """Return the rows that may have entered a closed window."""
        watermark = row_watermarks(self.plan, rows.table, self.epoch.meta.watermarks)
        return rows.take(np.flatnonzero(rows.ticks < watermark))

    def _entered(self, window: Sliding, behind: list[RawRows]) -> Revision | None:
        """Return the closed windows that the rows `behind` have entered; None if there are none."""
        plan, before = self.plan, self.epoch.meta.watermarks
        table = pa.concat_tables([rows.table for rows in behind]).combine_chunks()
        ticks = np.concatenate([rows.ticks for rows in behind])
        since, until = (
            window.first_open(np.maximum(row_watermarks(plan, table, watermarks), BEGIN))
            for watermarks in (plan.late_by(before), before)
        )
        first = np.maximum(window.first(ticks), since)
        last = np.minimum(window.last(ticks), until - 1)
        used = np.flatnonzero(first <= last)
        if not len(used):
            return None
        keys = [table.column(k).combine_chunks().take(pa.array(used)) for k in plan.keys]
        group, chosen = group_rows(keys, len(used))
        names = pa.table([k.take(pa.array(chosen)) for k in keys], list(plan.keys))
        first, last = first[used], last[used]
        run, one = session_of(group, first, last, _APART)
        end = np.full(len(one), BEGIN)
        np.maximum.at(end, run, last + 1)
        panes = plan.panes_of(window, first[one], end)
        return Revision(window, names, group[one], first[one], end, panes)

    def buckets_to_read(self, before: Watermarks, after: Watermarks) -> set[int]:
        """Return the buckets that the finals and the revised results of the epoch need."""
        needed = super().buckets_to_read(before, after)
        for revision in self.revisions:
            if revision is not None:
                needed |= self.epoch.meta.buckets.between(*revision.panes)
        return needed

    def emit(self, cells: Cells, before: Watermarks, after: Watermarks) -> None:
        """Emit finals, then the revised results of windows that late rows have entered."""
        super().emit(cells, before, after)
        emitted = [p.seq for p in self.epoch.out.emissions if p.kind == "results"]
        seq = max(emitted, default=-1) + 1
        for which, revision in enumerate(self.revisions):
            if revision is None:
                continue
            chosen = revision.of(cells)
            for closed in self._close(revision, chosen):
                named = replace(closed, which=np.full(len(closed.wid), which))
                self.epoch.emit(chosen, named, seq, "revised")
                seq += 1

    def _close(self, revision: Revision, cells: Cells) -> Iterator[ClosedWindows]:
        if self.plan.keeping == "windows":
            return closed_windows(cells, revision.first, revision.end)
        return close(cells, self.plan.parts, revision.window, revision.first, revision.end)
