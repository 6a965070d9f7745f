"""Windows that end at rows: slide-by-tuple and its variations (WID 6).

Cells are kept per group and position. A window ends at a position and reaches back by RANGE, so it
touches at most two blocks of length RANGE: what it holds is a suffix of the one and a prefix of the
other, and both are running totals. Each result is one combination, whatever the window holds.

    blocks     |   . . . . . |. . . . .   |        window w = suffix of the left block from
    window w         (-----------]                            w − RANGE, prefix of the right to w
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from lowwater.aggregates import Part, Partial, Rows, spread
from lowwater.control import Marks
from lowwater.kernels.aggregate import WindowEpoch
from lowwater.kernels.cells import Cells
from lowwater.kernels.closing import Closed
from lowwater.kernels.ends import Ends
from lowwater.kernels.packets import Packet, packed, table_of, unpacked
from lowwater.kernels.plan import ARRIVAL
from lowwater.kernels.ranges import merged, places, portions, running, running_up
from lowwater.kernels.results import result_rows
from lowwater.kernels.tallies import Tallies
from lowwater.windows import FOREVER, SlideByRow

ENDS = "ends"
RANKS = "ranks"
ARRIVALS = "arrivals"
_RESULTS = 1_000_000
"""Windows are closed in slices of about so many, to bound memory."""


class ByRowEpoch(WindowEpoch):
    """An epoch of windows that end at rows."""

    @property
    def spec(self) -> SlideByRow:
        """The window."""
        assert isinstance(self.plan.spec, SlideByRow)  # noqa: S101
        return self.plan.spec

    def prepare(self, packets: list[Packet]) -> None:
        """Take in where windows may end, if that is for the whole stream to say."""
        self.ends, self.before, self.heard = Ends.none(), self.meta.marks, False
        if self.plan.ends_of_stream:
            kept = self.state.get(ENDS)
            came = Ends.together([table_of(p) for p in packets if p.kind == "ends"])
            low = self.meta.marks.low
            if low is not None:  # a window that ends behind the mark is closed, or never was
                came = came.between(low, 2 * FOREVER)
            self.heard = bool(len(came.tick))
            old = [] if kept is None else [unpacked(kept)]
            self.ends = Ends.together([*old, came.to_table()])

    def admit_all(self, tables: list[tuple[int, pa.Table]]) -> list[Rows]:
        """Give rows their numbers, if windows slide over them, then tell the late ones apart."""
        if not self.plan.counts_arrivals:
            return super().admit_all(tables)
        tallies = Tallies.read(self.state, ARRIVALS, self.plan.partition)
        numbered = []
        for seq, table in tables:
            number, tallies = tallies.numbered(table)
            numbered.append((seq, table.append_column(ARRIVAL, pa.array(number + 1))))
        if tables:
            self.out.changes[ARRIVALS] = tallies.to_bytes()
        rows = super().admit_all(numbered)
        if self.plan.ends_of_stream:
            self._count_ends(rows)
        return rows

    def _count_ends(self, rows: list[Rows]) -> None:
        """Note where windows end that no one could tell before rows had their numbers."""
        low = -FOREVER if self.meta.marks.low is None else self.meta.marks.low
        part = self.plan.end_count
        assert part is not None  # noqa: S101
        for block in rows:
            at = block.ticks[part.chosen(block.table)]
            fresh = Ends.of(at, np.ones(len(at), np.int64)).between(low, 2 * FOREVER)
            self.ends = Ends.together([self.ends.to_table(), fresh.to_table()])
            self.heard |= bool(len(fresh.tick))

    def needed(self, before: Marks, after: Marks) -> set[int]:
        """Return the buckets that the windows between two marks reach into."""
        if before.low is None or self.plan.sources_close_groups:
            return set(self.meta.buckets.all)
        reached = before.low if after.low is None else after.low
        return self.meta.buckets.between(before.low - self.spec.range + 1, reached)

    def still_needed(self, pane: np.ndarray, first_open: np.ndarray | int) -> np.ndarray:
        """Return which positions an open window may reach back to."""
        return np.asarray(pane > first_open - self.spec.range)

    def emit(self, cells: Cells, before: Marks, after: Marks) -> None:
        """Close the windows that end between two marks."""
        if not len(cells):
            return
        spec = self.spec
        since, until = self.group_open(cells, before), self.group_open(cells, after)
        if self.plan.ends_of_stream:
            closing = self._stream_ends(before, after)
            windows = _windows_at(cells, closing, spec, since, until)
        else:
            windows = _own_windows(cells, self._own_ends(cells, since, until), spec)
        for seq, closed in enumerate(_close(cells, self.plan.parts, spec.range, windows)):
            self.counts["results"] += len(closed.wid)
            self.send_results(result_rows(self.plan, cells, closed), seq)

    # -- which positions end a window ------------------------------------------------------------

    def _closing(self, before: Marks, after: Marks) -> Ends:
        """Return the positions between two marks."""
        low = -FOREVER if before.low is None else before.low
        return self.ends.between(low, low if after.low is None else after.low)

    def _stream_ends(self, before: Marks, after: Marks) -> np.ndarray:
        """Return where windows of the whole stream end, between two marks."""
        closing = self._closing(before, after)
        settled = int(self.state.get(RANKS, b"0"))
        return np.asarray(
            closing.tick[self._chosen(closing.rows, np.cumsum(closing.rows) + settled)]
        )

    def _own_ends(self, cells: Cells, since: np.ndarray, until: np.ndarray) -> np.ndarray:
        """Return the cells at which a window of their own group ends."""
        closing = (cells.pane >= since[cells.code]) & (cells.pane < until[cells.code])
        index = np.flatnonzero(closing)
        rows = cells.parts[self.plan.ends_part].arrays[0][index]
        code = cells.code[index]
        if not self.plan.counts_ranks:
            return np.asarray(index[self._chosen(rows, rows)])
        place, _ = places(code)
        total = np.cumsum(rows)
        start = np.flatnonzero(place == 0)
        sizes = np.diff(np.append(start, len(code)))
        within = total - np.repeat(total[start] - rows[start], sizes)
        tallies = Tallies.read(self.state, RANKS, self.plan.keys)
        base = tallies.of(cells.keys, cells.groups)
        settled = np.bincount(code, rows, cells.groups).astype(np.int64)
        self.out.changes[RANKS] = tallies.plus(cells.keys, settled).to_bytes()
        return np.asarray(index[self._chosen(rows, within + base[code])])

    def _chosen(self, rows: np.ndarray, rank: np.ndarray) -> np.ndarray:
        """Return which positions end a window: `rank` is that of the last row at each."""
        if not self.plan.counts_ranks:
            return np.asarray(rows > 0)
        return np.asarray(rank // self.spec.slide > (rank - rows) // self.spec.slide)

    def finish(self, marks: Marks) -> None:
        """Keep the positions that may still end a window, and how many ranks are settled.

        Every shard counts all rows of the stream, also one that has no group yet.
        """
        if not self.plan.ends_of_stream:
            return
        passed = self._closing(self.before, marks).rows
        if not self.heard and not len(passed):
            return
        if self.plan.counts_ranks:
            settled = int(self.state.get(RANKS, b"0")) + int(passed.sum())
            self.out.changes[RANKS] = str(settled).encode()
        low = -FOREVER if marks.low is None else marks.low
        left = self.ends.between(low, 2 * FOREVER)
        self.out.changes[ENDS] = packed(left.to_table()) if len(left.tick) else None


_Windows: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The ids of windows, and the first and the last cell of each."""


def _own_windows(cells: Cells, ends: np.ndarray, spec: SlideByRow) -> _Windows:
    """Return (wid, first cell, last cell) of the windows that end at cells of their own group."""
    wid = cells.pane[ends]
    return wid, _reach(cells, cells.code[ends], wid - spec.range), ends


def _windows_at(
    cells: Cells, ends: np.ndarray, spec: SlideByRow, since: np.ndarray, until: np.ndarray
) -> _Windows:
    """Return (wid, first cell, last cell) of each group's windows that end at given positions.

    A window belongs to a group if it holds a row of the group: it ends at one of its cells or
    after it, but before the next one and before the cell has left.
    """
    following = np.append(cells.pane[1:], FOREVER)
    following[np.flatnonzero(np.diff(cells.code))] = FOREVER
    begin = np.maximum(cells.pane, since[cells.code])
    stop = np.minimum(np.minimum(following, cells.pane + spec.range), until[cells.code])
    first, end = np.searchsorted(ends, begin), np.searchsorted(ends, stop)
    place, last = spread(first, np.maximum(first, end))
    wid = ends[place]
    return wid, _reach(cells, cells.code[last], wid - spec.range), last


def _reach(cells: Cells, code: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return the first cell of a group that lies after a position."""
    known, place = np.unique(cells.pane, return_inverse=True)
    ordered = cells.code * (len(known) + 1) + place
    sought = code * (len(known) + 1) + np.searchsorted(known, after, "right")
    return np.searchsorted(ordered, sought)


def _close(cells: Cells, parts: Sequence[Part], size: int, windows: _Windows) -> Iterator[Closed]:
    """Yield windows of length `size`, in slices."""
    wid, first, last = windows
    if not len(wid):
        return
    block = cells.pane // size
    moved = (np.diff(block, prepend=block[0]) != 0) | (np.diff(cells.code, prepend=0) != 0)
    place, left = places(np.cumsum(moved))
    held = last + 1 - first
    # Running totals are over all cells; a few windows of few cells are sooner merged one by one.
    few = int(held.sum()) <= len(cells) * int(left.max(initial=0)).bit_length()
    totals = [
        None
        if few or not part.bounded
        else (running_up(part, kept, left), running(part, kept, place))
        for part, kept in zip(parts, cells.parts, strict=True)
    ]
    own = wid // size
    before, within = block[first] < own, block[last] == own
    for chosen in portions(parts, cells.parts, first, last + 1, _RESULTS):
        f, e = first[chosen], last[chosen]
        done = [
            merged(part, kept, f, e + 1)
            if scans is None
            else part.combine(
                _where(part, scans[0].take(f), before[chosen]),
                _where(part, scans[1].take(e), within[chosen]),
            )
            for part, kept, scans in zip(parts, cells.parts, totals, strict=True)
        ]
        yield Closed(cells.code[e], wid[chosen], done)


def _where(part: Part, cells: Partial, mask: np.ndarray) -> Partial:
    """Return cells, empty where `mask` is not set."""
    if mask.all():
        return cells
    out = part.empty(len(mask), cells)
    chosen = np.flatnonzero(mask)
    out.put(chosen, cells.take(chosen))
    return out
