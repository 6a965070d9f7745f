"""The layout of windows that end at rows: slide-by-tuple and its variants (WID 6).

A cell belongs to a group and a position. A window ends at a position and has length RANGE. Over
blocks of length RANGE, it consists of a suffix of the left block and a prefix of the right block.
Both are running totals, so a result is one combination, however many rows the window holds.

    blocks     |   . . . . . |. . . . .   |        window w = suffix of the left block from
    window w         (-----------]                            w − RANGE, prefix of the right to w
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import Accumulator, AccumulatorColumns, RawRows
from lowwater.aggregates.accumulators.values import spread
from lowwater.control.watermark import Watermarks
from lowwater.operators.packet import Packet, packed, table_of, unpacked
from lowwater.operators.window.cells import Cells, first_cells
from lowwater.operators.window.close import ClosedWindows
from lowwater.operators.window.layout import SlidingLayout, Tables
from lowwater.operators.window.layout_row_numbers import GroupCounts
from lowwater.operators.window.plan import WindowPlan
from lowwater.operators.window.scan import merged, places, portions, running
from lowwater.ticks import BEGIN, END
from lowwater.windows.row_windows import ARRIVAL, RowWindow

ENDS = "ends"
RANKS = "ranks"
ARRIVALS = "arrivals"
_RESULTS = 1_000_000
"""Windows are closed in portions of about this many, to bound memory."""


@dataclass(frozen=True)
class RowEnds:
    """The positions at which windows may end, ascending, and the number of rows at each of them."""

    tick: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, tick: np.ndarray, rows: np.ndarray) -> RowEnds:
        """Return the distinct positions in `tick`, each with the sum of its `rows`."""
        known, place = np.unique(tick, return_inverse=True)
        return cls(known, np.bincount(place, rows, len(known)).astype(np.int64))

    def to_table(self) -> pa.Table:
        """Return the positions as a table, for packets and state."""
        return pa.table({"tick": self.tick, "rows": self.rows})

    @classmethod
    def together(cls, tables: Sequence[pa.Table]) -> RowEnds:
        """Return the distinct positions in `tables`, each with the sum of its rows."""
        none = np.zeros(0, np.int64)
        whole = pa.concat_tables([*tables, cls(none, none).to_table()])
        return cls.of(whole["tick"].to_numpy(), whole["rows"].to_numpy())

    @classmethod
    def of_rows(cls, plan: WindowPlan, table: pa.Table, ticks: np.ndarray) -> RowEnds:
        """Return the positions of those rows in `table` at which a window may end."""
        chosen = ticks if plan.end_count is None else ticks[plan.end_count.chosen(table)]
        return cls.of(chosen, np.ones(len(chosen), np.int64))

    def between(self, since: int, until: int) -> RowEnds:
        """Return the positions in [since, until)."""
        chosen = (self.tick >= since) & (self.tick < until)
        return RowEnds(self.tick[chosen], self.rows[chosen])


class RowLayout(SlidingLayout):
    """The layout of windows that end at rows; `spec.first_open` returns a watermark, not an id."""

    @property
    def spec(self) -> RowWindow:
        """The spec of the windows."""
        assert isinstance(self.plan.spec, RowWindow)  # noqa: S101
        return self.plan.spec

    def prepare(self, packets: Sequence[Packet]) -> None:
        """Read the positions at which windows may end, if a row ends windows of all groups."""
        self.before, self.received = self.epoch.meta.watermarks, False
        if self.plan.ends_of_stream:
            stored = self.epoch.state.get(ENDS)
            self.ends = RowEnds.together([] if stored is None else [unpacked(stored)])
            self._add_ends(RowEnds.together([table_of(p) for p in packets if p.kind == "ends"]))

    def _add_ends(self, fresh: RowEnds) -> None:
        """Add the positions in `fresh` that are not behind the watermark."""
        low = self.before.low
        fresh = fresh.between(BEGIN if low is None else low, 2 * END)
        self.received |= bool(len(fresh.tick))
        self.ends = RowEnds.together([self.ends.to_table(), fresh.to_table()])

    def arrive(self, tables: Tables) -> Tables:
        """Return the rows with their arrival numbers, if the slide is measured on these numbers."""
        if not self.plan.counts_arrivals:
            return tables
        counts = GroupCounts.read(self.epoch.state, ARRIVALS, self.plan.partition)
        numbered = []
        for seq, table in tables:
            number, counts = counts.numbered(table)
            numbered.append((seq, table.append_column(ARRIVAL, pa.array(number + 1))))
        if tables:
            self.epoch.out.changes[ARRIVALS] = counts.to_bytes()
        return numbered

    def admitted(self, rows: list[RawRows]) -> None:
        """Add the window ends that depend on the arrival numbers of the rows."""
        if self.plan.counts_arrivals and self.plan.ends_of_stream:
            for some in rows:
                self._add_ends(RowEnds.of_rows(self.plan, some.table, some.ticks))

    def buckets_between(self, before: Watermarks, after: Watermarks) -> set[int]:
        """Return the buckets with cells of windows that end between `before` and `after`."""
        buckets = self.epoch.meta.buckets
        if before.low is None or self.plan.sources_close_groups:
            return set(buckets.all)
        reached = before.low if after.low is None else after.low
        return buckets.between(before.low - self.spec.range + 1, reached)

    def still_needed(self, pane: np.ndarray, first_open: np.ndarray | int) -> np.ndarray:
        """Return a mask of the positions `pane` that an open window may contain."""
        return np.asarray(pane > first_open - self.spec.range)

    def close(self, cells: Cells, before: Watermarks, after: Watermarks) -> Iterator[ClosedWindows]:
        """Yield, in portions, the windows that end between the watermarks `before` and `after`."""
        spec = self.spec
        since, until = self.group_open(cells, before), self.group_open(cells, after)
        if self.plan.ends_of_stream:
            ends = self._stream_ends(before, after)
            windows = _windows_at(cells, ends, spec, since, until)
        else:
            windows = _own_windows(cells, self._own_ends(cells, since, until), spec)
        return _close(cells, self.plan.parts, spec.range, windows)

    # -- which positions end a window ------------------------------------------------------------

    def _ends_between(self, before: Watermarks, after: Watermarks) -> RowEnds:
        """Return the positions between two watermarks at which a window may end."""
        low = BEGIN if before.low is None else before.low
        return self.ends.between(low, low if after.low is None else after.low)

    def _stream_ends(self, before: Watermarks, after: Watermarks) -> np.ndarray:
        """Return the positions between two watermarks at which the windows of all groups end."""
        closing = self._ends_between(before, after)
        settled = int(self.epoch.state.get(RANKS, b"0"))
        rank = np.cumsum(closing.rows) + settled
        return np.asarray(closing.tick[self._ends_window(closing.rows, rank)])

    def _own_ends(self, cells: Cells, since: np.ndarray, until: np.ndarray) -> np.ndarray:
        """Return the indices of the cells at which a window of the same group ends."""
        closing = (cells.pane >= since[cells.code]) & (cells.pane < until[cells.code])
        index = np.flatnonzero(closing)
        rows = cells.parts[self.plan.ends_part].arrays[0][index]
        code = cells.code[index]
        if not self.plan.counts_ranks:
            return np.asarray(index[self._ends_window(rows, rows)])
        place, _ = places(code)
        total = np.cumsum(rows)
        start = np.flatnonzero(place == 0)
        sizes = np.diff(np.append(start, len(code)))
        within = total - np.repeat(total[start] - rows[start], sizes)
        counts = GroupCounts.read(self.epoch.state, RANKS, self.plan.keys)
        base = counts.of(cells.keys, cells.groups)
        settled = np.bincount(code, rows, cells.groups).astype(np.int64)
        self.epoch.out.changes[RANKS] = counts.plus(cells.keys, settled).to_bytes()
        return np.asarray(index[self._ends_window(rows, within + base[code])])

    def _ends_window(self, rows: np.ndarray, rank: np.ndarray) -> np.ndarray:
        """Return a mask of positions that end windows; `rank[i]` is the last rank at position i."""
        if not self.plan.counts_ranks:
            return np.asarray(rows > 0)
        return np.asarray(rank // self.spec.slide > (rank - rows) // self.spec.slide)

    def finish(self, watermarks: Watermarks) -> None:
        """Write the positions at which a window may still end, and the number of ranked rows.

        Every shard counts all rows of the stream, even if the shard has no group yet.
        """
        if not self.plan.ends_of_stream:
            return
        passed = self._ends_between(self.before, watermarks).rows
        if not self.received and not len(passed):
            return
        changes = self.epoch.out.changes
        if self.plan.counts_ranks:
            settled = int(self.epoch.state.get(RANKS, b"0")) + int(passed.sum())
            changes[RANKS] = str(settled).encode()
        low = BEGIN if watermarks.low is None else watermarks.low
        left = self.ends.between(low, 2 * END)
        changes[ENDS] = packed(left.to_table()) if len(left.tick) else None


_Windows: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Arrays (wid, first, last): the id of each window, and its first and last cell."""


def _own_windows(cells: Cells, ends: np.ndarray, spec: RowWindow) -> _Windows:
    """Return the windows that end at the cells `ends` of their own group."""
    wid = cells.pane[ends]
    (first,) = first_cells(cells.code, cells.pane, cells.code[ends], wid - spec.range + 1)
    return wid, first, ends


def _windows_at(
    cells: Cells, ends: np.ndarray, spec: RowWindow, since: np.ndarray, until: np.ndarray
) -> _Windows:
    """Return the windows of all groups that end at the positions `ends`.

    A group has a window only if the window contains a row of the group. The window's last cell is
    the last cell of the group at or before the window's end, if it is within RANGE of this end.
    """
    following = np.append(cells.pane[1:], END)
    following[np.flatnonzero(np.diff(cells.code))] = END
    begin = np.maximum(cells.pane, since[cells.code])
    stop = np.minimum(np.minimum(following, cells.pane + spec.range), until[cells.code])
    since_end, until_end = np.searchsorted(ends, begin), np.searchsorted(ends, stop)
    place, last = spread(since_end, np.maximum(since_end, until_end))
    wid = ends[place]
    (first,) = first_cells(cells.code, cells.pane, cells.code[last], wid - spec.range + 1)
    return wid, first, last


def _close(
    cells: Cells, parts: Sequence[Accumulator], size: int, windows: _Windows
) -> Iterator[ClosedWindows]:
    """Yield `windows` of length `size` as closed windows, in portions."""
    wid, first, last = windows
    if not len(wid):
        return
    block = cells.pane // size
    moved = (np.diff(block, prepend=block[0]) != 0) | (np.diff(cells.code, prepend=0) != 0)
    place, left = places(np.cumsum(moved))
    held = last + 1 - first
    # Running totals process all cells; for a few windows with few cells, merging is faster.
    few = int(held.sum()) <= len(cells) * int(left.max(initial=0)).bit_length()
    totals = [
        None
        if few or not part.bounded
        else (running(part, content, left, up=True), running(part, content, place))
        for part, content in zip(parts, cells.parts, strict=True)
    ]
    own = wid // size
    before, within = block[first] < own, block[last] == own
    for chosen in portions(parts, cells.parts, first, last + 1, _RESULTS):
        f, e = first[chosen], last[chosen]
        done = [
            merged(part, content, f, e + 1)
            if scans is None
            else part.combine(
                _where(part, scans[0].take(f), before[chosen]),
                _where(part, scans[1].take(e), within[chosen]),
            )
            for part, content, scans in zip(parts, cells.parts, totals, strict=True)
        ]
        yield ClosedWindows(cells.code[e], wid[chosen], done)


def _where(part: Accumulator, cells: AccumulatorColumns, mask: np.ndarray) -> AccumulatorColumns:
    """Return `cells`, with empty content for cells outside `mask`."""
    if mask.all():
        return cells
    out = part.empty(len(mask), cells)
    chosen = np.flatnonzero(mask)
    out.put(chosen, cells.take(chosen))
    return out
