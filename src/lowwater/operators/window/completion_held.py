"""The completion of windows if rows may be held: windows that overlap a held interval wait.

Later windows close before them, as under punctuation of intervals. Lateness is decided by the
watermark that the stream would have without holds, so holds do not change which rows are late.

A row may miss a window that is still open only because of a hold. The row must not enter this
window, although one of the window's panes contains the row. The cells of such rows are stored
apart, under the first window that the rows did not miss, until all missed windows are closed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import Accumulator, RawRows
from lowwater.control.watermark import Watermarks
from lowwater.operators.batch import BEHIND, without_hidden
from lowwater.operators.window.admit import Missed, account, times_of
from lowwater.operators.window.cells import Cells, PackedCells, lift, merge
from lowwater.operators.window.completion import IntervalCompletion, among
from lowwater.operators.window.epoch import WindowEpoch
from lowwater.operators.window.layout import SlidingLayout
from lowwater.operators.window.per_window import no_cells
from lowwater.ticks import BEGIN, END

_NAMES = "partly"


class HeldCompletion(IntervalCompletion):
    """The completion if rows may be held: windows that overlap a held interval stay open."""

    def __init__(self, epoch: WindowEpoch, layout: SlidingLayout) -> None:
        super().__init__(epoch, layout)
        self.partial = PartialCells.read(epoch.state)

    # -- data ----------------------------------------------------------------------------------

    def admit(self, table: pa.Table, seq: int) -> RawRows:
        """Emit late rows, and return the rows that may enter all open windows of their pane.

        Rows that missed an open window go to the partial cells. Lateness is decided at arrival.
        """
        ticks, dead = times_of(table)
        first, last = self.spec.first(ticks), self.spec.last(ticks)
        end = np.clip(self.spec.first_open(self._nominal(table, dead)), first, last + 1)
        missed, late = end > first, end > last
        account(self.epoch, table, seq, late, [Missed(self.plan, missed, first, end)])
        rows = without_hidden(table)
        closed, _, _ = among(self.complete(self.epoch.meta.watermarks), first, end - 1)
        partial = missed & ~late & (closed < end - first)
        for since in np.unique(end[partial]).tolist():
            mine = np.flatnonzero(partial & (end == since))
            cells = lift(self.plan, RawRows(rows.take(pa.array(mine)), ticks[mine]))
            self.partial.add(since, cells, self.plan.parts)
        whole = np.flatnonzero(~late & ~partial)
        return RawRows(rows.take(pa.array(whole)), ticks[whole])

    def _nominal(self, table: pa.Table, dead: np.ndarray) -> np.ndarray:
        """Return the watermark at each row's arrival, as if no row were held."""
        low = self.epoch.meta.watermarks.nominal
        watermark = np.full(len(table), BEGIN if low is None else low)
        if BEHIND in table.column_names:
            watermark = table.column(BEHIND).combine_chunks().to_numpy()
        return np.asarray(np.where(dead, END, np.maximum(watermark, BEGIN)))

    # -- control -------------------------------------------------------------------------------

    def advance(self, fresh: list[PackedCells], rows: list[RawRows], after: Watermarks) -> None:
        """Merge new data into state, close complete windows, evict cells that no window needs.

        If there are partial cells, all buckets are read: any bucket may share a window with them.
        """
        if not self.partial:
            super().advance(fresh, rows, after)
            return
        plan, epoch = self.plan, self.epoch
        before = epoch.meta.watermarks
        packs = [*epoch.read_all(), *fresh, *(lift(plan, r) for r in rows)]
        cells = merge(packs, plan.parts) if packs else no_cells(plan)
        epoch.meta.watermarks = after
        self.emit(cells, before, after)
        cells, _ = self.fold(with_more(cells, self._settled(after), plan.parts), after)
        everything = set(epoch.meta.buckets.all)
        self.write(cells, everything, everything)
        self.evict()
        epoch.write_meta()
        epoch.out.changes |= self.partial.changes()
        epoch.more_cells = sum(map(len, self.partial.packs.values()))

    def cut(self, cells: Cells, first: int, end: int) -> Iterator[tuple[Cells, int, int]]:
        """Yield runs of windows as (cells, first, end); cells include the run's partial cells."""
        for since, until, more in self.partial.cut(first, end):
            yield with_more(cells, more, self.plan.parts), since, until

    def _settled(self, watermarks: Watermarks) -> list[PackedCells]:
        """Remove and return the partial cells whose missed windows are all closed."""
        spec, complete = self.spec, self.complete(watermarks)
        settled = []
        for since, pack in sorted(self.partial.packs.items()):
            first = (pack.pane - spec.panes) // spec.panes_per_slide + 1
            last = np.full_like(first, since - 1)
            closed, _, _ = among(complete, first, last)
            if (closed > last - first).all():
                settled.append(self.partial.packs.pop(since))
        return settled


@dataclass
class PartialCells:
    """Cells that only some windows of their pane contain: windows from w on contain `packs[w]`."""

    packs: dict[int, PackedCells]
    before: frozenset[int]

    @classmethod
    def read(cls, state: Mapping[str, bytes]) -> PartialCells:
        """Return the partial cells in `state`."""
        known = json.loads(state[_NAMES]) if _NAMES in state else []
        return cls({n: PackedCells.from_bytes(state[_name(n)]) for n in known}, frozenset(known))

    def __bool__(self) -> bool:
        return bool(self.packs)

    def add(self, since: int, cells: PackedCells, parts: Sequence[Accumulator]) -> None:
        """Add cells that belong to windows from `since` on."""
        known = [self.packs[since]] if since in self.packs else []
        self.packs[since] = merge([*known, cells], parts).pack(parts)

    def cut(self, first: int, end: int) -> Iterator[tuple[int, int, list[PackedCells]]]:
        """Divide the windows [first, end) into runs; yield each as (first, end, partial cells)."""
        at = first
        for stop in [*sorted(n for n in self.packs if first < n < end), end]:
            yield at, stop, [p for n, p in sorted(self.packs.items()) if n <= at]
            at = stop

    def changes(self) -> dict[str, bytes | None]:
        """Return the changes to state that write the partial cells."""
        if not self.packs and not self.before:
            return {}
        deleted: dict[str, bytes | None] = {_name(n): None for n in self.before - set(self.packs)}
        written: dict[str, bytes | None] = {_name(n): p.to_bytes() for n, p in self.packs.items()}
        names = json.dumps(sorted(self.packs)).encode() if self.packs else None
        return {**deleted, **written, _NAMES: names}


def with_more(cells: Cells, more: Sequence[PackedCells], parts: Sequence[Accumulator]) -> Cells:
    """Return `cells` with the cells in `more` merged into them."""
    return merge([cells.pack(parts), *more], parts) if more else cells


def _name(since: int) -> str:
    return f"{_NAMES}/{since}"
