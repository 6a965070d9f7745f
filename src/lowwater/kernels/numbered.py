"""Windows over row numbers (WID Q2, Q4): rows are counted, then cut into windows.

Rows are numbered from 0 as they come or, by rank, in the order of an attribute once the mark has
passed them; all of them together, or each partition by itself. A window is complete when the last
of its rows has its number, so no punctuation is waited for; the end of the stream closes the rest.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lowwater.aggregates import Rows
from lowwater.control import Marks
from lowwater.kernels.aggregate import WindowEpoch
from lowwater.kernels.cells import Cells, Packed, merge
from lowwater.kernels.closing import close
from lowwater.kernels.lifting import lift
from lowwater.kernels.packets import packed, table_packet, unpacked
from lowwater.kernels.results import late_rows, result_rows
from lowwater.kernels.rows import DEAD, LATE_DEGREE, TICK
from lowwater.kernels.tallies import Tallies
from lowwater.windows import FOREVER

HELD = "held"
NUMBERS = "numbers"


class NumberedEpoch(WindowEpoch):
    """An epoch of windows over row numbers."""

    def advance(self, fresh: list[Packed], rows: list[Rows], marks: Marks) -> None:
        """Number the rows that can be, merge them into state, close what is complete."""
        del fresh
        plan = self.plan
        ended = marks.low is not None and marks.low >= FOREVER
        ready = self._by_rank(rows, marks) if plan.numbering == "rank" else rows
        self.meta.marks = marks
        if ready or ended:
            self._take_in(ready, ended=ended)
        self.out.changes["meta"] = self.meta.to_bytes()

    def _take_in(self, ready: list[Rows], *, ended: bool) -> None:
        plan, spec = self.plan, self.plan.positioned
        tallies = after = Tallies.read(self.state, NUMBERS, plan.partition)
        came = []
        for rows in ready:
            number, after = after.numbered(rows.table)
            inside = np.flatnonzero(spec.last(number) >= spec.first(number))
            self.counts["outside"] += len(number) - len(inside)
            self.counts["admitted"] -= len(number) - len(inside)
            if len(inside):
                came.append(lift(plan, Rows(rows.table, rows.ticks, number).take(inside)))
        if ready:
            self.out.changes[NUMBERS] = after.to_bytes()
        kept = [Packed.from_bytes(self.state[b.name]) for b in self.meta.buckets]
        if not kept and not came:
            return
        cells = merge(kept + came, plan.parts)
        since = spec.first_open(tallies.of(cells.keys, cells.groups))
        count = after.of(cells.keys, cells.groups)
        until = spec.first_open(np.full(cells.groups, FOREVER) if ended else count)
        self._close(cells, since, until)
        needed = cells.pane >= until[cells.code] * spec.panes_per_slide
        self.write_all(cells.take(needed))

    def admit_all(self, tables: list[tuple[int, pa.Table]]) -> list[Rows]:
        """Take in all rows until the stream has ended.

        By rank, rows behind the mark are late: their ranks are settled.
        """
        rows = []
        for seq, table in tables:
            ticks = table.column(TICK).combine_chunks().to_numpy()
            late, low = np.zeros(len(ticks), bool), self.meta.marks.low
            if self.plan.numbering == "rank":
                dead = table.column(DEAD).combine_chunks().to_numpy(zero_copy_only=False)
                late = dead if low is None else dead | (ticks < low)
            elif low is not None and low >= FOREVER:
                late = np.ones(len(ticks), bool)
            if late.any():
                lost = late_rows(
                    self.plan, table.filter(pa.array(late)), None, admitted=~late[late]
                )
                self.out.emissions.append(table_packet("late", self.shard, seq, lost))
            self.counts["late"] += int(late.sum())
            self.counts["admitted"] += int((~late).sum())
            kept = np.flatnonzero(~late)
            if len(kept):
                clean = table.take(pa.array(kept)).drop_columns([TICK, LATE_DEGREE, DEAD])
                rows.append(Rows(clean, ticks[kept]))
        return rows

    def _by_rank(self, rows: list[Rows], marks: Marks) -> list[Rows]:
        """Return the rows that the mark has passed, by rank, and hold the others."""
        kept = self.state.get(HELD)
        held = [] if kept is None else [unpacked(kept)]
        held += [r.table.append_column("__tick", pa.array(r.ticks)) for r in rows]
        if not held:
            return []
        whole = pa.concat_tables(held).combine_chunks()
        ticks = whole.column("__tick").to_numpy()
        mark = -FOREVER if marks.low is None else marks.low
        left = np.flatnonzero(ticks >= mark)
        ready = np.flatnonzero(ticks < mark)
        self.waiting = len(left)
        if not rows and not len(ready):
            return []
        if len(left):
            self.out.changes[HELD] = packed(whole.take(pa.array(left)))
        elif kept is not None:
            self.out.changes[HELD] = None
        if not len(ready):
            return []
        order = ready[np.argsort(ticks[ready], kind="stable")]
        return [Rows(whole.take(pa.array(order)).drop_columns(["__tick"]), ticks[order])]

    def _close(self, cells: Cells, since: np.ndarray, until: np.ndarray) -> None:
        for seq, chunk in enumerate(
            close(cells, self.plan.parts, self.plan.positioned, since, until)
        ):
            if len(chunk.wid):
                self.counts["results"] += len(chunk.wid)
                self.send_results(result_rows(self.plan, cells, chunk), seq)
