"""Windows whose rows may be put aside: they close around the stretches that are held.

They close as under range punctuation. But what a row has missed is not what is closed, it is what
would be if nothing were put aside: that rows wait makes no row late, and none in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from lowwater.aggregates import Rows
from lowwater.control import Marks
from lowwater.kernels.aggregate import META
from lowwater.kernels.cells import Cells, Packed, merge
from lowwater.kernels.lifting import lift
from lowwater.kernels.packets import table_packet
from lowwater.kernels.partly import Partly, with_more
from lowwater.kernels.per_window import no_cells
from lowwater.kernels.plan import WindowPlan
from lowwater.kernels.ranged import RangedEpoch, among
from lowwater.kernels.results import late_rows
from lowwater.kernels.rows import BEHIND, DEAD, LATE_DEGREE, TICK
from lowwater.windows import FOREVER, Sliding


class SidelinedEpoch(RangedEpoch):
    """An epoch of windows whose rows may be put aside."""

    def __init__(self, plan: WindowPlan, shard: int, state: Mapping[str, bytes]) -> None:
        super().__init__(plan, shard, state)
        self.partly = Partly.read(state)

    # -- data ----------------------------------------------------------------------------------

    def admit(self, table: pa.Table, seq: int) -> Rows:
        """Sort whole rows by what they had missed when they came."""
        spec = self.plan.positioned
        ticks = table.column(TICK).combine_chunks().to_numpy()
        first, last = spec.first(ticks), spec.last(ticks)
        until = np.clip(spec.first_open(self._nominal(table)), first, last + 1)
        missed, late = until > first, until > last
        self.counts["late"] += int(late.sum())
        self.counts["partly_late"] += int((missed & ~late).sum())
        self.counts["admitted"] += int((~late).sum())
        if missed.any():
            rows = late_rows(
                self.plan,
                table.filter(pa.array(missed)),
                (first[missed], until[missed] - 1),
                admitted=~late[missed],
            )
            self.out.emissions.append(table_packet("late", self.shard, seq, rows))
        hidden = [c for c in (TICK, LATE_DEGREE, DEAD, BEHIND) if c in table.column_names]
        rows = table.drop_columns(hidden)
        closed, _, _ = among(self.complete(self.meta.marks), first, until - 1)
        apart = missed & ~late & (closed < until - first)
        self._set_apart(rows, ticks, until, apart)
        kept = np.flatnonzero(~late & ~apart)
        return Rows(rows.take(pa.array(kept)), ticks[kept])

    def _nominal(self, table: pa.Table) -> np.ndarray:
        """Return how far the stream was when each row came; dead rows miss everything."""
        dead = table.column(DEAD).combine_chunks().to_numpy(zero_copy_only=False)
        low = self.meta.marks.nominal
        mark = np.full(len(table), -FOREVER if low is None else low)
        if BEHIND in table.column_names:
            mark = table.column(BEHIND).combine_chunks().to_numpy()
        return np.asarray(np.where(dead, FOREVER, np.maximum(mark, -FOREVER)))

    def _set_apart(
        self, rows: pa.Table, ticks: np.ndarray, since: np.ndarray, apart: np.ndarray
    ) -> None:
        for n in np.unique(since[apart]).tolist():
            mine = np.flatnonzero(apart & (since == n))
            cells = lift(self.plan, Rows(rows.take(pa.array(mine)), ticks[mine]))
            self.partly.add(n, cells, self.plan.parts)

    # -- control -------------------------------------------------------------------------------

    def advance(self, fresh: list[Packed], rows: list[Rows], marks: Marks) -> None:
        """Merge what came into state, close the windows that the marks complete, purge."""
        if not self.partly:
            super().advance(fresh, rows, marks)
            return
        plan, before, buckets = self.plan, self.meta.marks, self.meta.buckets
        packs = [Packed.from_bytes(self.state[b.name]) for b in buckets]
        packs += [*fresh, *(lift(plan, r) for r in rows)]
        cells = merge(packs, plan.parts) if packs else no_cells(plan)
        self.meta.marks = marks
        self.emit(cells, before, marks)
        cells = with_more(cells, self._joining(marks), plan.parts)
        cells, _ = self.fold(cells, marks)
        everything = set(buckets.all)
        self.write(cells, everything, everything)
        self.purge()
        self.out.changes[META] = self.meta.to_bytes()
        self.out.changes |= self.partly.changes()
        self.kept_cells = sum(map(len, self.partly.packs.values()))

    def closing(self, cells: Cells, first: int, end: int) -> Iterator[tuple[Cells, int, int]]:
        """Yield the cells of windows, those among them that are part of some windows only."""
        for since, until, more in self.partly.cut(first, end):
            yield with_more(cells, more, self.plan.parts), since, until

    def _joining(self, marks: Marks) -> list[Packed]:
        """Return the cells that need not be apart any more: what their rows missed is closed."""
        spec, complete = self.plan.positioned, self.complete(marks)
        assert isinstance(spec, Sliding)  # noqa: S101
        found = []
        for since, pack in sorted(self.partly.packs.items()):
            first = (pack.pane - spec.panes) // spec.panes_per_slide + 1
            last = np.full_like(first, since - 1)
            closed, _, _ = among(complete, first, last)
            if (closed > last - first).all():
                found.append(self.partly.take(since))
        return found
