"""Session windows: rows of a group with less than a gap between neighbours.

A cell is a session or a piece of a session. Its pane is the time of its first row, and its
accumulator `Span` holds the time of its last row. Ingest reduces a batch of rows to pieces. The
completion joins pieces and sessions with less than a gap between them, so rows out of order extend
and connect sessions like rows in order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import RawRows
from lowwater.aggregates.accumulators.builtin import Span
from lowwater.control.watermark import Watermarks
from lowwater.operators.window.admit import Missed, account, raw_rows, times_of
from lowwater.operators.window.cells import Cells, PackedCells, lift, session_of, side_by_side
from lowwater.operators.window.close import ClosedWindows
from lowwater.operators.window.completion import WatermarkCompletion
from lowwater.operators.window.layout import Tables
from lowwater.ticks import BEGIN
from lowwater.windows.session import SessionWindow

SPAN = 1
"""The place of `Span` among the accumulators (parts), after the row count."""


class SessionCompletion(WatermarkCompletion):
    """The completion of sessions, which close when the watermark is a gap after their last row.

    An epoch reads all open sessions of the shard.
    """

    @property
    def gap(self) -> int:
        """The gap between two sessions, in ticks."""
        assert isinstance(self.plan.spec, SessionWindow)  # noqa: S101
        return self.plan.spec.gap

    def receive(self, fresh: list[PackedCells]) -> None:
        """Keep the pieces that arrived as cells: they may connect late rows to open sessions."""
        self.fresh = fresh

    def admit_all(self, tables: Tables) -> list[RawRows]:
        """Emit late rows, and return the rows whose session is open.

        The open sessions and the new rows are joined into sessions. A new row is late if its
        session is already complete.
        """
        if not tables:
            return []
        whole = pa.concat_tables([t for _, t in tables])
        ticks, dead = times_of(whole)
        own = self._own_pieces(RawRows(whole, ticks))
        late = dead | self._complete(own, [*self.epoch.read_all(), *self.fresh])
        bounds = np.cumsum([0, *(len(t) for _, t in tables)])
        admitted = []
        for (seq, table), a, b in zip(tables, bounds[:-1], bounds[1:], strict=True):
            at, missed = ticks[a:b], late[a:b]
            account(self.epoch, table, seq, missed, [Missed(self.plan, missed, at, at + 1)])
            admitted.append(raw_rows(table, at, ~missed))
        return [rows for rows in admitted if len(rows)]

    def advance(self, fresh: list[PackedCells], rows: list[RawRows], after: Watermarks) -> None:
        """Join new pieces with the open sessions, and close the complete sessions."""
        epoch = self.epoch
        before = epoch.meta.watermarks
        packs = [*epoch.read_all(), *fresh, *(lift(self.plan, r) for r in rows)]
        epoch.meta.watermarks = after
        if packs and (fresh or rows or after != before):
            cells = self._joined(packs)
            until = self.layout.group_watermarks(cells.keys, cells.groups, after)[cells.code]
            closing = self._ends(cells) <= until
            done = cells.take(closing)
            closed = ClosedWindows(done.code, done.pane, done.parts, ends=self._ends(done))
            epoch.emit(done, closed, 0)
            if fresh or rows or closing.any():
                epoch.rewrite_all(cells.take(~closing))
        epoch.write_meta()

    def _joined(self, packs: list[PackedCells]) -> Cells:
        """Return the sessions that the pieces in `packs` form, merged in arrival order."""
        cells = side_by_side(packs, self.plan.parts)
        last = cells.parts[SPAN].arrays[0]
        session, first = session_of(cells.code, cells.pane, last, self.gap)
        # In arrival order, because first() and last() depend on the order of pieces at equal times.
        both = zip(self.plan.parts, cells.parts, strict=True)
        parts = [part.merge(content, session, len(first)) for part, content in both]
        return Cells(cells.keys, cells.groups, cells.code[first], cells.pane[first], parts)

    def _ends(self, cells: Cells) -> np.ndarray:
        """Return the end of each session: a gap after its last row."""
        return np.asarray(cells.parts[SPAN].arrays[0] + self.gap)

    def _own_pieces(self, rows: RawRows) -> PackedCells:
        """Return every row as a separate piece, with only its keys and its time."""
        keys = pa.table([rows.column(k) for k in self.plan.keys], list(self.plan.keys))
        n = len(rows)
        span = Span().store(Span().lift(rows, np.arange(n), n))
        code = np.arange(n) if self.plan.keys else np.zeros(n, np.int64)
        return PackedCells(keys, n if self.plan.keys else 1, code, rows.ticks, span)

    def _complete(self, own: PackedCells, others: list[PackedCells]) -> np.ndarray:
        """Return a mask of the pieces `own` that would belong to a complete session."""
        at = sum(len(p.types) for p in self.plan.parts[:SPAN])
        spans = [PackedCells(p.keys, p.groups, p.code, p.pane, [p.columns[at]]) for p in others]
        cells = side_by_side([own, *spans], [Span()])
        last = cells.parts[0].arrays[0]
        session, first = session_of(cells.code, cells.pane, last, self.gap)
        end = np.full(len(first), BEGIN)
        np.maximum.at(end, session, last + self.gap)
        before = self.epoch.meta.watermarks
        watermark = self.layout.group_watermarks(cells.keys, cells.groups, before)
        return np.asarray((end <= watermark[cells.code[first]])[session[: len(own)]])
