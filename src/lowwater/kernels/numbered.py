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
from lowwater.kernels.groups import group_rows
from lowwater.kernels.ingest import DEAD, LATE_DEGREE, TICK
from lowwater.kernels.lifting import lift
from lowwater.kernels.packets import packed, table_packet, unpacked
from lowwater.kernels.ranges import places
from lowwater.kernels.results import late_rows, result_rows
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
        tallies = Tallies.read(self.state, NUMBERS, plan.partition)
        numbered, after = self._number(ready, tallies)
        kept = [Packed.from_bytes(self.state[b.name]) for b in self.meta.buckets]
        came = [lift(plan, r) for r in numbered]
        self.meta.marks = marks
        if kept or came:
            cells = merge(kept + came, plan.parts)
            since = plan.spec.first_open(tallies.of(cells.keys, cells.groups))
            count = after.of(cells.keys, cells.groups)
            until = plan.spec.first_open(np.full(cells.groups, FOREVER) if ended else count)
            self._close(cells, since, until)
            needed = cells.pane >= until[cells.code] * plan.spec.panes_per_slide
            self.write_all(cells.take(needed))
        if numbered:
            self.out.changes[NUMBERS] = after.to_bytes()
        self.out.changes["meta"] = self.meta.to_bytes()

    def admit_all(self, tables: list[tuple[int, pa.Table]]) -> list[Rows]:
        """Take in all rows; by rank, those behind the mark are late: their ranks are settled."""
        rows = []
        for seq, table in tables:
            ticks = table.column(TICK).combine_chunks().to_numpy()
            late = np.zeros(len(ticks), bool)
            if self.plan.numbering == "rank":
                low = self.meta.marks.low
                dead = table.column(DEAD).combine_chunks().to_numpy(zero_copy_only=False)
                late = dead if low is None else dead | (ticks < low)
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
        if len(left):
            self.out.changes[HELD] = packed(whole.take(pa.array(left)))
        elif kept is not None:
            self.out.changes[HELD] = None
        if not len(ready):
            return []
        order = ready[np.argsort(ticks[ready], kind="stable")]
        return [Rows(whole.take(pa.array(order)).drop_columns(["__tick"]), ticks[order])]

    def _number(self, rows: list[Rows], tallies: Tallies) -> tuple[list[Rows], Tallies]:
        """Give every row its number, in its partition, as its position."""
        if not rows:
            return [], tallies
        plan = self.plan
        table = pa.concat_tables([r.table for r in rows]).combine_chunks()
        whole = Rows(table, np.concatenate([r.ticks for r in rows]))
        keys = [whole.column(k) for k in plan.partition]
        code, chosen = group_rows(keys, len(whole))
        order = np.argsort(code, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order], _ = places(code[order])
        names = pa.table([k.take(pa.array(chosen)) for k in keys], list(plan.partition))
        number = tallies.of(names, len(chosen))[code] + place
        more = np.bincount(code, minlength=len(chosen))
        return [Rows(table, number)], tallies.plus(names, more)

    def _close(self, cells: Cells, since: np.ndarray, until: np.ndarray) -> None:
        for seq, chunk in enumerate(
            close(cells, self.plan.parts, self.plan.positioned, since, until)
        ):
            if len(chunk.wid):
                self.counts["results"] += len(chunk.wid)
                self.send_results(result_rows(self.plan, cells, chunk), seq)
