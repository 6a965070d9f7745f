"""Cells: partial aggregates by (group, pane), as numpy arrays in memory and as bytes in state.

Packed cells, in packets and in state, contain each distinct group once, and for every cell its
group code, its pane and the columns of its accumulators (parts).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import Accumulator, AccumulatorColumns, RawRows
from lowwater.operators.group_codes import compact, group_rows, whole
from lowwater.operators.packet import packed
from lowwater.operators.window.plan import WindowPlan
from lowwater.windows.session import SessionWindow

_MAX_BOUND = 1 << 61


@dataclass(frozen=True)
class PackedCells:
    """Cells as Arrow columns; `keys` has a row for each group, and no columns without group_by."""

    keys: pa.Table
    groups: int
    code: np.ndarray
    pane: np.ndarray
    columns: list[pa.Array]

    def __len__(self) -> int:
        return len(self.code)

    def to_bytes(self) -> bytes:
        """Return the cells as two Arrow IPC streams, groups first."""
        names = [f"p{i}" for i in range(len(self.columns))]
        cells = pa.table(
            [pa.array(self.code), pa.array(self.pane), *self.columns], ["code", "pane", *names]
        )
        return packed(self.keys, cells)

    @classmethod
    def from_bytes(cls, payload: bytes) -> PackedCells:
        """Return the cells that `to_bytes` wrote."""
        reader = pa.BufferReader(payload)
        keys = pa.ipc.open_stream(reader).read_all()
        cells = pa.ipc.open_stream(reader).read_all().combine_chunks()
        code, pane, *columns = map(whole, cells.columns)
        groups = len(keys) if keys.num_columns else 1
        return cls(keys, groups, code.to_numpy(), pane.to_numpy(), columns)


@dataclass(frozen=True)
class Cells:
    """Cells in memory, one for each (group, pane), sorted by (group, pane)."""

    keys: pa.Table
    groups: int
    code: np.ndarray
    pane: np.ndarray
    parts: list[AccumulatorColumns]

    def __len__(self) -> int:
        return len(self.code)

    def take(self, index: np.ndarray) -> Cells:
        """Return the cells at `index` (a mask or ascending indices)."""
        parts = [p.take(index) for p in self.parts]
        return Cells(self.keys, self.groups, self.code[index], self.pane[index], parts)

    def pack(self, parts: Sequence[Accumulator]) -> PackedCells:
        """Return the cells as packed cells, without the keys of groups that have no cell."""
        code, named = compact(self.code, self.groups)
        keys = self.keys.take(pa.array(named)) if self.keys.num_columns else self.keys
        columns = [
            c for part, cells in zip(parts, self.parts, strict=True) for c in part.store(cells)
        ]
        return PackedCells(keys, len(named), code, self.pane, columns)


def merge(packs: Sequence[PackedCells], parts: Sequence[Accumulator]) -> Cells:
    """Return the cells of all `packs`; cells of equal (group, pane) are merged in pack order."""
    cells = side_by_side(packs, parts)
    cell, code, pane = number_cells(cells.code, cells.groups, cells.pane)
    if len(code) == len(cell):
        order = np.empty_like(cell)
        order[cell] = np.arange(len(cell))
        merged = [content.take(order) for content in cells.parts]
    else:
        both = zip(parts, cells.parts, strict=True)
        merged = [part.merge(content, cell, len(code)) for part, content in both]
    return Cells(cells.keys, cells.groups, code, pane, merged)


def side_by_side(packs: Sequence[PackedCells], parts: Sequence[Accumulator]) -> Cells:
    """Return the cells of all `packs` concatenated, neither sorted nor merged."""
    keys = pa.concat_tables([p.keys for p in packs]).combine_chunks()
    offsets = np.cumsum([0, *[p.groups for p in packs]])
    unified, chosen = group_rows([whole(c) for c in keys.columns], int(offsets[-1]))
    code = unified[np.concatenate([p.code + o for p, o in zip(packs, offsets, strict=False)])]
    names = keys.take(pa.array(chosen)) if keys.num_columns else keys
    columns = [pa.concat_arrays(list(cs)) for cs in zip(*[p.columns for p in packs], strict=True)]
    bounds = pairwise(accumulate([len(part.types) for part in parts], initial=0))
    loaded = [part.load(columns[a:b]) for part, (a, b) in zip(parts, bounds, strict=True)]
    return Cells(names, len(chosen), code, np.concatenate([p.pane for p in packs]), loaded)


def codes_of(cells: Cells, names: pa.Table) -> np.ndarray:
    """Return the code that the group in each row of `names` has in `cells`."""
    tables = [cells.keys, names]
    both = pa.concat_tables(tables).combine_chunks()
    count = [len(t) if t.num_columns else 1 for t in tables]
    code, _ = group_rows([whole(c) for c in both.columns], sum(count))
    known = np.empty(int(code.max()) + 1, np.int64)
    known[code[: count[0]]] = np.arange(count[0])
    return np.asarray(known[code[count[0] :]])


def number_cells(
    code: np.ndarray, groups: int, pane: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cell number of each pair (code, pane), then the code and the pane of each cell."""
    low = int(pane.min()) if len(pane) else 0
    span = int(pane.max()) - low + 1 if len(pane) else 1
    if span * groups < _MAX_BOUND:
        cell, distinct = compact(code * span + (pane - low), span * groups)
        return cell, distinct // span, distinct % span + low
    known, place = np.unique(pane, return_inverse=True)  # panes far apart
    cell, distinct = compact(code * len(known) + place, len(known) * groups)
    return cell, distinct // len(known), known[distinct % len(known)]


def first_cells(
    code: np.ndarray, pane: np.ndarray, group: np.ndarray, *starts: np.ndarray
) -> list[np.ndarray]:
    """Return, for each `start` in `starts`, the first cell of group[i] from pane start[i] on.

    The cells have the groups `code` and the panes `pane`, and are sorted by (group, pane).
    """
    known, place = np.unique(pane, return_inverse=True)
    ordered, base = code * (len(known) + 1) + place, group * (len(known) + 1)
    return [np.searchsorted(ordered, base + np.searchsorted(known, start)) for start in starts]


def lift(plan: WindowPlan, rows: RawRows) -> PackedCells:
    """Return `rows` aggregated into packed cells."""
    keys = [rows.column(k) for k in plan.keys]
    group, chosen = group_rows(keys, len(rows))
    if isinstance(plan.spec, SessionWindow):
        cell, first = session_of(group, rows.ticks, rows.ticks, plan.spec.gap)
        code, panes = group[first], rows.ticks[first]
    else:
        cell, code, panes = number_cells(group, len(chosen), plan.spec.pane_of(rows.positions))
    columns = [c for part in plan.parts for c in part.store(part.lift(rows, cell, len(code)))]
    names = pa.table([k.take(pa.array(chosen)) for k in keys], list(plan.keys))
    return PackedCells(names, len(chosen), code, panes, columns)


def session_of(
    group: np.ndarray, start: np.ndarray, last: np.ndarray, gap: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the session of each piece [start, last], and the first piece of each session.

    Pieces of a group less than `gap` apart form a session; sessions are numbered by (group, time).

    >>> group, at = np.array([0, 1, 0, 0]), np.array([7, 0, 0, 4])
    >>> [x.tolist() for x in session_of(group, at, at, gap=4)]
    [[1, 2, 0, 1], [2, 3, 1]]
    """
    order = np.lexsort((start, group))
    group, start, last = group[order], start[order], last[order]
    if not len(order):
        return order, order
    # The latest `last` so far in each group, from (group, rank of `last`) as one number.
    known, rank = np.unique(last, return_inverse=True)
    latest = known[np.maximum.accumulate(group * len(known) + rank) % len(known)]
    fresh = np.append([True], (np.diff(group) != 0) | (start[1:] - latest[:-1] >= gap))
    session = np.empty(len(order), np.int64)
    session[order] = np.cumsum(fresh) - 1
    return session, order[fresh]
