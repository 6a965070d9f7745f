"""Session windows: rows of a group with less than a gap between neighbours.

A cell is a session, or a piece of one: its pane is the position of its first row, the part `Span`
keeps that of its last. Ingest reduces a block to such pieces. Here pieces and sessions are laid
side by side and joined where less than a gap is between them, so rows out of order extend and
bridge sessions like rows in order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lowwater.aggregates import Rows, Span
from lowwater.control import Marks
from lowwater.kernels.aggregate import WindowEpoch
from lowwater.kernels.cells import Cells, Packed, load, unify
from lowwater.kernels.closing import Closed
from lowwater.kernels.delivery import row_marks
from lowwater.kernels.lifting import lift, session_of
from lowwater.kernels.packets import table_packet
from lowwater.kernels.results import late_rows, result_rows
from lowwater.kernels.rows import DEAD, LATE_DEGREE, TICK
from lowwater.windows import FOREVER, Session

SPAN = 1
"""Where `Span` stands among the parts, after the row count."""
_NEVER = -(2**62)


class SessionEpoch(WindowEpoch):
    """An epoch of session windows. All open sessions of the shard are looked at."""

    @property
    def gap(self) -> int:
        """The gap between sessions."""
        assert isinstance(self.plan.spec, Session)  # noqa: S101
        return self.plan.spec.gap

    def advance(self, fresh: list[Packed], rows: list[Rows], marks: Marks) -> None:
        """Join what came with the open sessions, close those that the marks complete."""
        plan, before = self.plan, self.meta.marks
        kept = [Packed.from_bytes(self.state[b.name]) for b in self.meta.buckets]
        pieces = [lift(plan, r) for r in rows]
        packs = [*kept, *fresh, *pieces]
        self.meta.marks = marks
        if packs and (fresh or rows or marks != before):
            cells = self._joined(packs)
            until = self._group_marks(cells.keys, cells.groups, marks)[cells.code]
            closing = self._ends(cells) <= until
            self._close(cells, closing)
            if fresh or rows or closing.any():
                self.write_all(cells.take(~closing))
        self.out.changes["meta"] = self.meta.to_bytes()

    def _joined(self, packs: list[Packed]) -> Cells:
        """Bring pieces of sessions together; of equal starts the earlier comes first."""
        plan = self.plan
        keys, groups, code = unify(packs)
        start = np.concatenate([p.pane for p in packs])
        stored = [pa.concat_arrays(list(c)) for c in zip(*(p.columns for p in packs), strict=True)]
        loaded = load(stored, plan.parts)
        session, first = session_of(code, start, loaded[SPAN].arrays[0], self.gap)
        # In the order of arrival: what is at one time in two pieces goes by that.
        parts = [
            part.merge(cells, session, len(first))
            for part, cells in zip(plan.parts, loaded, strict=True)
        ]
        return Cells(keys, groups, code[first], start[first], parts)

    def _ends(self, cells: Cells) -> np.ndarray:
        return np.asarray(cells.parts[SPAN].arrays[0] + self.gap)

    def _group_marks(self, keys: pa.Table, groups: int, marks: Marks) -> np.ndarray:
        if self.plan.sources_close_groups and groups:
            own = np.asarray(row_marks(self.plan, keys, marks))
            return np.asarray(np.maximum(np.broadcast_to(own, groups), _NEVER))
        return np.full(groups, _NEVER if marks.low is None else min(marks.low, FOREVER))

    def _close(self, cells: Cells, closing: np.ndarray) -> None:
        if not closing.any():
            return
        done = cells.take(closing)
        self.counts["results"] += len(done)
        closed = Closed(done.code, done.pane, done.parts, ends=self._ends(done))
        self.send_results(result_rows(self.plan, done, closed), 0)

    def admit_all(self, tables: list[tuple[int, pa.Table]]) -> list[Rows]:
        """Tell late rows from those whose session is still open.

        A row is late when the session it would belong to, with all that is open and all that came
        with it, is already complete.
        """
        if not tables:
            return []
        plan = self.plan
        whole = pa.concat_tables([t for _, t in tables])
        ticks = whole.column(TICK).to_numpy()
        dead = whole.column(DEAD).to_numpy()
        rows = Rows(whole, ticks)
        own = self._own_pieces(rows)
        kept = [Packed.from_bytes(self.state[b.name]) for b in self.meta.buckets]
        late = dead | self._complete(own, [*kept, *self.fresh])
        self.counts["late"] += int(late.sum())
        self.counts["admitted"] += int((~late).sum())
        bounds = np.cumsum([0, *(len(t) for _, t in tables)])
        admitted = []
        for (seq, table), a, b in zip(tables, bounds[:-1], bounds[1:], strict=True):
            missed = late[a:b]
            if missed.any():
                at = ticks[a:b][missed]
                rows_lost, none = table.filter(pa.array(missed)), np.zeros(len(at), bool)
                lost = late_rows(plan, rows_lost, (at, at), admitted=none)
                self.out.emissions.append(table_packet("late", self.shard, seq, lost))
            chosen = np.flatnonzero(~missed)
            if len(chosen):
                clean = table.take(pa.array(chosen)).drop_columns([TICK, LATE_DEGREE, DEAD])
                admitted.append(Rows(clean, ticks[a:b][chosen]))
        return admitted

    def _own_pieces(self, rows: Rows) -> Packed:
        """Return each row as a piece of its own: only its keys and its time matter."""
        keys = pa.table([rows.column(k) for k in self.plan.keys], list(self.plan.keys))
        n = len(rows)
        span = Span().store(Span().lift(rows, np.arange(n), n))
        code = np.arange(n) if self.plan.keys else np.zeros(n, np.int64)
        return Packed(keys, n if self.plan.keys else 1, code, rows.ticks, span)

    def _complete(self, own: Packed, others: list[Packed]) -> np.ndarray:
        """Return which of `own` would be in a session that is complete."""
        plan = self.plan
        at = sum(len(p.types) for p in plan.parts[:SPAN])
        packs = [own, *(Packed(p.keys, p.groups, p.code, p.pane, [p.columns[at]]) for p in others)]
        keys, groups, code = unify(packs)
        start = np.concatenate([p.pane for p in packs])
        last = np.concatenate([p.columns[0].to_numpy() for p in packs])
        session, first = session_of(code, start, last, self.gap)
        end = np.full(len(first), _NEVER)
        np.maximum.at(end, session, last + self.gap)
        mark = self._group_marks(keys, groups, self.meta.marks)[code[first]]
        return np.asarray((end <= mark)[session[: len(own)]])
