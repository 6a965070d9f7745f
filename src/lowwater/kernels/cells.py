"""Cells: partial aggregates by (group, pane), as numpy to compute with and as bytes to keep.

Packed cells are what travels in packets and lies in state: the distinct groups once, and for every
cell the number of its group, its pane and the columns of its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.aggregates import Part, Partial
from lowwater.kernels.groups import compact, group_rows

_MAX_BOUND = 1 << 61


@dataclass(frozen=True)
class Packed:
    """Cells as Arrow columns. `keys` has one row per group (none when there is no group-by)."""

    keys: pa.Table
    groups: int
    code: np.ndarray
    pane: np.ndarray
    columns: list[pa.Array]

    def __len__(self) -> int:
        return len(self.code)

    def to_bytes(self) -> bytes:
        """Return the cells as two Arrow IPC streams, groups first."""
        sink = pa.BufferOutputStream()
        names = [f"p{i}" for i in range(len(self.columns))]
        cells = pa.table(
            [pa.array(self.code), pa.array(self.pane), *self.columns], ["code", "pane", *names]
        )
        for table in (self.keys, cells):
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
        return bytes(sink.getvalue().to_pybytes())

    @classmethod
    def from_bytes(cls, payload: bytes) -> Packed:
        """Read what `to_bytes` wrote."""
        reader = pa.BufferReader(payload)
        keys = pa.ipc.open_stream(reader).read_all()
        cells = pa.ipc.open_stream(reader).read_all().combine_chunks()
        code, pane, *columns = (whole(c) for c in cells.columns)
        groups = len(keys) if keys.num_columns else 1
        return cls(keys, groups, code.to_numpy(), pane.to_numpy(), columns)


@dataclass(frozen=True)
class Cells:
    """Cells in memory, one per (group, pane), sorted by group and, within one, by pane."""

    keys: pa.Table
    groups: int
    code: np.ndarray
    pane: np.ndarray
    parts: list[Partial]

    def __len__(self) -> int:
        return len(self.code)

    def take(self, index: np.ndarray) -> Cells:
        """Return the cells at `index` (a mask or ascending positions)."""
        parts = [p.take(index) for p in self.parts]
        return Cells(self.keys, self.groups, self.code[index], self.pane[index], parts)

    def pack(self, parts: Sequence[Part]) -> Packed:
        """Return the cells, with the groups they name and no others, ready to be kept."""
        code, named = compact(self.code, self.groups)
        keys = self.keys.take(pa.array(named)) if self.keys.num_columns else self.keys
        columns = [
            c for part, cells in zip(parts, self.parts, strict=True) for c in part.store(cells)
        ]
        return Packed(keys, len(named), code, self.pane, columns)


def merge(packs: Sequence[Packed], parts: Sequence[Part]) -> Cells:
    """Bring cells from several places together; of equal (group, pane) the earlier comes first."""
    pane = np.concatenate([p.pane for p in packs])
    keys, groups, code = unify(packs)
    cell, code_out, pane_out = number_cells(code, groups, pane)
    columns = [pa.concat_arrays(list(cs)) for cs in zip(*(p.columns for p in packs), strict=True)]
    loaded = load(columns, parts)
    unique = len(code_out) == len(cell)
    order = _places(cell) if unique else cell
    merged = [
        cells.take(order) if unique else part.merge(cells, cell, len(code_out))
        for part, cells in zip(parts, loaded, strict=True)
    ]
    return Cells(keys, groups, code_out, pane_out, merged)


def _places(permutation: np.ndarray) -> np.ndarray:
    """Return where each number stands in a permutation of 0, 1, 2 …."""
    places = np.empty_like(permutation)
    places[permutation] = np.arange(len(permutation))
    return places


def unify(packs: Sequence[Packed]) -> tuple[pa.Table, int, np.ndarray]:
    """Name the groups of several packs alike: (keys, how many there are, group of each cell)."""
    keys = pa.concat_tables([p.keys for p in packs]).combine_chunks()
    offsets = np.cumsum([0, *(p.groups for p in packs)])
    unified, chosen = group_rows([whole(c) for c in keys.columns], int(offsets[-1]))
    code = unified[np.concatenate([p.code + o for p, o in zip(packs, offsets, strict=False)])]
    return (keys.take(pa.array(chosen)) if keys.num_columns else keys), len(chosen), code


def codes_of(cells: Cells, names: pa.Table) -> np.ndarray:
    """Return which groups of `cells` are called `names`."""
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
    """Number the distinct (group, pane) in order: (cell of each element, its group, its pane)."""
    low = int(pane.min()) if len(pane) else 0
    span = int(pane.max()) - low + 1 if len(pane) else 1
    if span * groups < _MAX_BOUND:
        cell, distinct = compact(code * span + (pane - low), span * groups)
        return cell, distinct // span, distinct % span + low
    place, found = compact_wide(pane)  # panes years apart
    cell, distinct = compact(code * len(found) + place, len(found) * groups)
    return cell, distinct // len(found), found[distinct % len(found)]


def compact_wide(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number values of any width: (number of each, value of each number)."""
    distinct, inverse = np.unique(values, return_inverse=True)
    return inverse, distinct


def load(columns: Sequence[pa.Array], parts: Sequence[Part]) -> list[Partial]:
    """Read the columns of all parts."""
    out, at = [], 0
    for part in parts:
        width = len(part.types)
        out.append(part.load(columns[at : at + width]))
        at += width
    return out


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else pa.array([], column.type)
    )
