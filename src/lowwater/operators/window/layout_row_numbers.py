"""Windows over row numbers (WID Q2, Q4): rows are counted, then cut into windows.

Rows are numbered from 0 in arrival order or, by rank, in the order of an attribute once the
watermark has passed them; all of them together, or each partition by itself. A window is complete
when its last row has its number; the end of the stream closes the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import RawRows
from lowwater.control.watermark import Watermarks
from lowwater.operators.batch import TICK
from lowwater.operators.group_codes import group_rows
from lowwater.operators.packet import packed, unpacked
from lowwater.operators.window.admit import Missed, account, raw_rows, times_of
from lowwater.operators.window.cells import PackedCells, lift, merge, whole
from lowwater.operators.window.completion import WatermarkCompletion
from lowwater.operators.window.scan import places
from lowwater.ticks import BEGIN, END

_COUNT = "__count"


@dataclass(frozen=True)
class GroupCounts:
    """A count for each group."""

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
        """Return the counts of groups, 0 for a new group."""
        mine, theirs, total = self._places(keys, groups)
        count = np.zeros(total, np.int64)
        count[mine] = self.count
        return np.asarray(count[theirs])

    def plus(self, keys: pa.Table, more: np.ndarray) -> GroupCounts:
        """Return the counts with `more[i]` added to that of group i of `keys`."""
        mine, theirs, total = self._places(keys, len(more))
        count = np.zeros(total, np.int64)
        count[mine] = self.count
        np.add.at(count, theirs, more)
        if not self.names:
            return GroupCounts(self.keys, count, self.names)
        both = self._both(keys)
        chosen = np.empty(total, np.int64)
        place = np.concatenate([mine, theirs])
        chosen[place[::-1]] = np.arange(len(place) - 1, -1, -1)
        return GroupCounts(both.take(pa.array(chosen)), count, self.names)

    def numbered(self, table: pa.Table) -> tuple[np.ndarray, GroupCounts]:
        """Return the number of each row, counted on in its group, and the counts after the last."""
        keys = [whole(table.column(k)) for k in self.names]
        code, chosen = group_rows(keys, len(table))
        order = np.argsort(code, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order], _ = places(code[order])
        names = pa.table([k.take(pa.array(chosen)) for k in keys], list(self.names))
        number = self.of(names, len(chosen))[code] + place
        return number, self.plus(names, np.bincount(code, minlength=len(chosen)))

    def _both(self, keys: pa.Table) -> pa.Table:
        wanted = keys.select(list(self.names))
        return pa.concat_tables([self.keys, wanted]) if len(self.keys) else wanted

    def _places(self, keys: pa.Table, groups: int) -> tuple[np.ndarray, np.ndarray, int]:
        """Return numbers for the groups of both sides: (mine, theirs, number of groups)."""
        if not self.names:
            return np.zeros(len(self.count), np.int64), np.zeros(groups, np.int64), 1
        columns = [whole(c) for c in self._both(keys).columns]
        code, chosen = group_rows(columns, len(self.count) + groups)
        return code[: len(self.count)], code[len(self.count) :], len(chosen)


HELD = "held"
NUMBERS = "numbers"


class NumberedCompletion(WatermarkCompletion):
    """Windows over row numbers close when their last row is numbered."""

    def admit(self, table: pa.Table, seq: int) -> RawRows:
        """Return all rows until the stream has ended; by rank, rows behind the watermark are late.

        The rank of a row behind the watermark is taken by another row.
        """
        (ticks, dead), low = times_of(table), self.epoch.meta.watermarks.low
        late = np.zeros(len(ticks), bool)
        if self.plan.numbering == "rank":
            late = dead if low is None else dead | (ticks < low)
        elif low is not None and low >= END:
            late = np.ones(len(ticks), bool)
        account(self.epoch, table, seq, late, [Missed(self.plan, late)])
        return raw_rows(table, ticks, ~late)

    def advance(
        self, fresh: list[PackedCells], rows: list[RawRows], watermarks: Watermarks
    ) -> None:
        """Number the rows that have their place, merge them into state, close full windows."""
        del fresh
        ended = watermarks.low is not None and watermarks.low >= END
        ready = self._by_rank(rows, watermarks) if self.plan.numbering == "rank" else rows
        self.epoch.meta.watermarks = watermarks
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
        """Return the rows that the watermark has passed, by rank, and store the others."""
        stored = self.epoch.state.get(HELD)
        tables = [] if stored is None else [unpacked(stored)]
        tables += [r.table.append_column(TICK, pa.array(r.ticks)) for r in rows]
        if not tables:
            return []
        whole = pa.concat_tables(tables).combine_chunks()
        ticks = whole.column(TICK).to_numpy()
        watermark = BEGIN if watermarks.low is None else watermarks.low
        left = np.flatnonzero(ticks >= watermark)
        ready = np.flatnonzero(ticks < watermark)
        self.epoch.waiting = len(left)
        if not rows and not len(ready):
            return []
        if len(left):
            self.epoch.out.changes[HELD] = packed(whole.take(pa.array(left)))
        elif stored is not None:
            self.epoch.out.changes[HELD] = None
        if not len(ready):
            return []
        order = ready[np.argsort(ticks[ready], kind="stable")]
        return [RawRows(whole.take(pa.array(order)).drop_columns([TICK]), ticks[order])]
