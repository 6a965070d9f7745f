"""Revision: late rows correct windows whose results have been given out.

What is late is decided by a mark that lags behind the one in force, and panes are kept until it has
passed them. Windows between the two marks are closed, their finals given out; a row that enters one
of them has the result given out again, once in its epoch, with all rows that came so far.

    lagging mark m'               mark m in force
          |                             |
    late  |  corrects finals: revised   |  in time

Only windows that such rows have entered are computed again, each for the groups of these rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lowwater.aggregates import Rows, spread
from lowwater.control import Marks
from lowwater.kernels.aggregate import WindowEpoch
from lowwater.kernels.cells import Cells, Packed, codes_of, compact_wide
from lowwater.kernels.closing import Closed, close
from lowwater.kernels.delivery import row_marks
from lowwater.kernels.groups import group_rows
from lowwater.kernels.lifting import session_of
from lowwater.kernels.per_window import closed_windows
from lowwater.kernels.results import result_rows
from lowwater.kernels.sharing import SharedEpoch
from lowwater.windows import Shared, Sliding

_NEVER = -(2**62)
_APART = 2
"""Window ids at least this far from each other have a window between them."""


@dataclass(frozen=True)
class Corrected:
    """Windows to be given out again: first[i] <= wid < end[i] of group code[i] of `names`.

    Each holds `size` panes and begins `step` panes after the one before.
    """

    window: Sliding
    names: pa.Table
    code: np.ndarray
    first: np.ndarray
    end: np.ndarray
    size: int
    step: int

    @property
    def panes(self) -> tuple[np.ndarray, np.ndarray]:
        """The panes [low, high) that each run of windows holds."""
        return self.first * self.step, (self.end - 1) * self.step + self.size

    def of(self, cells: Cells) -> Cells:
        """Return the cells of these windows, each run of them as a group of its own."""
        group = codes_of(cells, self.names)[self.code]
        place, known = compact_wide(cells.pane)
        held = cells.code * (len(known) + 1) + place
        bounds = [group * (len(known) + 1) + np.searchsorted(known, p) for p in self.panes]
        index, run = spread(*(np.searchsorted(held, b) for b in bounds))
        chosen = cells.take(index)
        keys = cells.keys.take(pa.array(group)) if cells.keys.num_columns else cells.keys
        return Cells(keys, len(group), run, chosen.pane, chosen.parts)


class RevisingEpoch(WindowEpoch):
    """An epoch of windows whose results are revised."""

    def advance(self, fresh: list[Packed], rows: list[Rows], marks: Marks) -> None:
        """Find out which results late rows correct, then go on as ever."""
        behind = [self._behind(block) for block in rows]
        late = [block for block in behind if len(block)]
        self.corrected = [self._entered(w, late) if late else None for w in self.windows]
        super().advance(fresh, rows, marks)

    @property
    def windows(self) -> Sequence[Sliding]:
        """The window, or all that share the panes."""
        spec = self.plan.spec
        if isinstance(spec, Shared):
            return [window for _, window in spec]
        assert isinstance(spec, Sliding)  # noqa: S101
        return [spec]

    def _behind(self, rows: Rows) -> Rows:
        """Return the rows that may have entered a window which is closed."""
        mark = row_marks(self.plan, rows.table, self.meta.marks)
        return rows.take(np.flatnonzero(rows.ticks < mark))

    def _entered(self, window: Sliding, late: list[Rows]) -> Corrected | None:
        """Return the closed windows that late rows have entered."""
        plan, before = self.plan, self.meta.marks
        table = pa.concat_tables([rows.table for rows in late]).combine_chunks()
        ticks = np.concatenate([rows.ticks for rows in late])
        since, until = (
            window.first_open(np.maximum(row_marks(plan, table, marks), _NEVER))
            for marks in (plan.late_by(before), before)
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
        end = np.full(len(one), _NEVER)
        np.maximum.at(end, run, last + 1)
        per_pane = plan.keeping == "panes"
        size, step = (window.panes, window.panes_per_slide) if per_pane else (1, 1)
        return Corrected(window, names, group[one], first[one], end, size, step)

    def to_read(self, before: Marks, after: Marks) -> set[int]:
        """Return also the buckets that corrected windows reach into."""
        found = super().to_read(before, after)
        for again in self.corrected:
            if again is not None:
                low, high = again.panes
                found |= self.meta.buckets.between(low, high)
        return found

    def give_out(self, cells: Cells, before: Marks, after: Marks) -> None:
        """Give out finals, then what late rows have corrected."""
        super().give_out(cells, before, after)
        given = [p.seq for p in self.out.emissions if p.kind == "results"]
        seq = max(given, default=-1) + 1
        for which, again in enumerate(self.corrected):
            if again is None:
                continue
            chosen = again.of(cells)
            for chunk in self._computed(again, chosen):
                closed = replace(chunk, which=np.full(len(chunk.wid), which))
                self.counts["results"] += len(closed.wid)
                self.send_results(result_rows(self.plan, chosen, closed, "revised"), seq)
                seq += 1

    def _computed(self, again: Corrected, cells: Cells) -> Iterator[Closed]:
        if self.plan.keeping == "windows":
            return closed_windows(cells, again.first, again.end)
        return close(cells, self.plan.parts, again.window, again.first, again.end)


class RevisingSharedEpoch(RevisingEpoch, SharedEpoch):
    """An epoch of several windows on common panes whose results are revised."""
