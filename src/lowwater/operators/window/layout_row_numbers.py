"""Windows of row numbers (WID Q2, Q4): rows are numbered, and a window is an interval of numbers.

Rows are numbered from 0, either in arrival order or by rank once the watermark has passed them.
Numbers count the rows of the whole stream or of a partition. A window is complete when its last row
has a number; the end of the stream closes the other windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import RawRows
from lowwater.control.watermark import Watermarks
from lowwater.operators.batch import TICK
from lowwater.operators.group_codes import group_rows, whole
from lowwater.operators.packet import packed, unpacked
from lowwater.operators.window.admit import Missed, account, raw_rows, times_of
from lowwater.operators.window.cells import PackedCells, lift, merge
from lowwater.operators.window.completion import WatermarkCompletion
from lowwater.operators.window.scan import places
from lowwater.ticks import BEGIN, END

_COUNT = "__count"


@dataclass(frozen=True)
class GroupCounts:
    """The number of rows of each group: `count[i]` belongs to the group in row i of `keys`."""

    keys: pa.Table
    count: np.ndarray
    names: tuple[str, ...]

    @classmethod
    def read(cls, state: Mapping[str, bytes], name: str, keys: Sequence[str]) -> GroupCounts:
        """Return the counts that `to_bytes` wrote; without an entry every count is 0."""
        content = state.get(name)
        if content is None:
            return cls(pa.table({}), np.zeros(0, np.int64), tuple(keys))
        table = unpacked(content)
        count = table.column(_COUNT).combine_chunks().to_numpy()
        return cls(table.drop_columns([_COUNT]), count, tuple(keys))

    def to_bytes(self) -> bytes:
        """Return the counts as bytes."""
        count = pa.array(self.count)
        keyed = self.keys.append_column(_COUNT, count) if self.names else pa.table({_COUNT: count})
        return packed(keyed)

    def of(self, keys: pa.Table, groups: int) -> np.ndarray:
        """Return the count of each group in `keys`, 0 for a new group."""
        known, place = self._including(keys, groups)
        return np.asarray(known.count[place])

    def plus(self, keys: pa.Table, more: np.ndarray) -> GroupCounts:
        """Return the counts with `more[i]` added to the count of group i of `keys`."""
        known, place = self._including(keys, len(more))
        np.add.at(known.count, place, more)
        return known

    def numbered(self, table: pa.Table) -> tuple[np.ndarray, GroupCounts]:
        """Return the number of each row in its group, and the counts with these rows added."""
        keys = [whole(table.column(k)) for k in self.names]
        code, chosen = group_rows(keys, len(table))
        order = np.argsort(code, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order], _ = places(code[order])
        names = pa.table([k.take(pa.array(chosen)) for k in keys], list(self.names))
        number = self.of(names, len(chosen))[code] + place
        return number, self.plus(names, np.bincount(code, minlength=len(chosen)))

    def _including(self, keys: pa.Table, groups: int) -> tuple[GroupCounts, np.ndarray]:
        """Return counts that include the groups in `keys`, and the indices of these groups."""
        both = keys.select(list(self.names))
        if len(self.keys):
            both = pa.concat_tables([self.keys, both])
        n = len(self.count)
        if self.names:
            code, chosen = group_rows([whole(c) for c in both.columns], n + groups)
            both = both.take(pa.array(chosen))
        else:
            code, chosen = np.zeros(n + groups, np.int64), np.zeros(1, np.int64)
        count = np.zeros(len(chosen), np.int64)
        count[code[:n]] = self.count
        return GroupCounts(both, count, self.names), code[n:]


HELD = "held"
NUMBERS = "numbers"


class NumberedCompletion(WatermarkCompletion):
    """The completion of windows of row numbers, which close when their last row is numbered."""

    def admit(self, table: pa.Table, seq: int) -> RawRows:
        """Emit late rows, and return the other rows.

        If numbers are ranks, a row behind the watermark is late, because another row has its rank.
        In arrival order, only rows after the end of the stream are late.
        """
        (ticks, dead), low = times_of(table), self.epoch.meta.watermarks.low
        late = np.zeros(len(ticks), bool)
        if self.plan.numbering == "rank":
            late = dead if low is None else dead | (ticks < low)
        elif low is not None and low >= END:
            late = np.ones(len(ticks), bool)
        account(self.epoch, table, seq, late, [Missed(self.plan, late)])
        return raw_rows(table, ticks, ~late)

    def advance(self, fresh: list[PackedCells], rows: list[RawRows], after: Watermarks) -> None:
        """Number the rows whose order is settled, merge them into state, close full windows."""
        ended = after.low is not None and after.low >= END
        ready = self._by_rank(rows, after) if self.plan.numbering == "rank" else rows
        self.epoch.meta.watermarks = after
        if ready or ended:
            self._take_in(ready, ended=ended)
        self.epoch.write_meta()

    def _take_in(self, ready: list[RawRows], *, ended: bool) -> None:
        plan, spec, epoch = self.plan, self.plan.positioned, self.epoch
        before = after = GroupCounts.read(epoch.state, NUMBERS, plan.partition)
        fresh = []
        for rows in ready:
            number, after = after.numbered(rows.table)
            inside = np.flatnonzero(spec.last(number) >= spec.first(number))
            epoch.counts["outside"] += len(number) - len(inside)
            epoch.counts["admitted"] -= len(number) - len(inside)
            if len(inside):
                fresh.append(lift(plan, RawRows(rows.table, rows.ticks, number).take(inside)))
        if ready:
            epoch.out.changes[NUMBERS] = after.to_bytes()
        packs = [*epoch.read_all(), *fresh]
        if not packs:
            return
        cells = merge(packs, plan.parts)
        since = spec.first_open(before.of(cells.keys, cells.groups))
        count = after.of(cells.keys, cells.groups)
        until = spec.first_open(np.full(cells.groups, END) if ended else count)
        for seq, closed in enumerate(self.layout.close_runs(cells, since, until)):
            epoch.emit(cells, closed, seq)
        needed = cells.pane >= until[cells.code] * spec.panes_per_slide
        epoch.rewrite_all(cells.take(needed))

    def _by_rank(self, rows: list[RawRows], watermarks: Watermarks) -> list[RawRows]:
        """Return the rows that the watermark has passed, sorted by rank, and store the others."""
        stored = self.epoch.state.get(HELD)
        tables = [] if stored is None else [unpacked(stored)]
        tables += [r.table.append_column(TICK, pa.array(r.ticks)) for r in rows]
        if not tables:
            return []
        waiting = pa.concat_tables(tables).combine_chunks()
        ticks = waiting.column(TICK).to_numpy()
        watermark = BEGIN if watermarks.low is None else watermarks.low
        left = np.flatnonzero(ticks >= watermark)
        ready = np.flatnonzero(ticks < watermark)
        self.epoch.waiting = len(left)
        if not rows and not len(ready):
            return []
        if len(left):
            self.epoch.out.changes[HELD] = packed(waiting.take(pa.array(left)))
        elif stored is not None:
            self.epoch.out.changes[HELD] = None
        if not len(ready):
            return []
        order = ready[np.argsort(ticks[ready], kind="stable")]
        return [RawRows(waiting.take(pa.array(order)).drop_columns([TICK]), ticks[order])]
