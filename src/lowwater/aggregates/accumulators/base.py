"""The base classes of accumulators, the columns that an aggregate keeps for many cells.

A *cell* is one group in one pane (or in one window). An accumulator lifts raw rows into cells,
combines cells, and computes running totals of cells. Accumulators never subtract, so a NaN or a
1e300 affects only the windows that contain it. Aggregates share accumulators: `avg("x")` and
`sum("x")` have one sum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

MASK32 = 0xFFFFFFFF


@dataclass(frozen=True)
class AccumulatorColumns:
    """The columns of one accumulator for many cells: element i of every array belongs to cell i.

    For text, binary and decimals, the first array has indices into the sorted distinct `values`.
    """

    arrays: tuple[np.ndarray, ...]
    values: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.arrays[0])

    @property
    def sizes(self) -> np.ndarray:
        """The number of elements in each cell: 1 unless cells grow with their rows."""
        return np.ones(len(self), np.int64)

    def copy(self) -> AccumulatorColumns:
        """Return a copy of the cells; `put` on the copy does not change the original."""
        return replace(self, arrays=tuple([a.copy() for a in self.arrays]))

    def take(self, index: Any) -> AccumulatorColumns:
        """Return the cells at `index`: an index array, a mask or a slice."""
        return replace(self, arrays=tuple([a[index] for a in self.arrays]))

    def reshape(self, *shape: int) -> AccumulatorColumns:
        """Return the cells as a grid with the dimensions `shape`."""
        return replace(self, arrays=tuple([a.reshape(shape) for a in self.arrays]))

    def put(self, index: Any, cells: AccumulatorColumns) -> None:
        """Overwrite the cells at `index` with `cells`."""
        for mine, theirs in zip(self.arrays, cells.arrays, strict=True):
            mine[index] = theirs


class RawRows:
    """Rows before aggregation: a table, with the tick and the position of each row.

    The position of a row is its tick, or its number if windows count rows.
    """

    def __init__(
        self, table: pa.Table, ticks: np.ndarray, positions: np.ndarray | None = None
    ) -> None:
        self.table, self.ticks = table, ticks
        self.positions = ticks if positions is None else positions

    def __len__(self) -> int:
        return len(self.ticks)

    def column(self, name: str) -> pa.Array:
        """Return the column `name` as one array."""
        column = self.table.column(name)
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

    def take(self, index: np.ndarray) -> RawRows:
        """Return the rows at `index`."""
        taken = self.table.take(pa.array(index))
        return RawRows(taken, self.ticks[index], self.positions[index])


class Accumulator(ABC):
    """The state that one aggregate, or several aggregates together, keep in each cell."""

    paned: ClassVar[bool] = True
    """Whether cells can be combined. If not, there is one cell per window instead of per pane."""
    bounded: ClassVar[bool] = True
    """Whether a cell's size is independent of its row count; running totals need bounded cells."""

    @property
    @abstractmethod
    def types(self) -> tuple[pa.DataType, ...]:
        """The Arrow types of the columns that `store` returns."""

    @abstractmethod
    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:
        """Return `n` cells that aggregate `rows` in arrival order; row i is in cell `codes[i]`."""

    @abstractmethod
    def empty(self, n: int, like: AccumulatorColumns | None = None) -> AccumulatorColumns:
        """Return `n` cells without rows, with the same `values` as the cells `like`."""

    @abstractmethod
    def combine(self, a: AccumulatorColumns, b: AccumulatorColumns) -> AccumulatorColumns:
        """Return `a` and `b` combined cell by cell; the rows of `a` precede the rows of `b`."""

    def absorb(
        self, cells: AccumulatorColumns, rows: RawRows, codes: np.ndarray
    ) -> AccumulatorColumns:
        """Return `cells` with `rows` added; row i is in cell `codes[i]`."""
        return self.combine(*self._comparable(cells, self.lift(rows, codes, len(cells))))

    def _comparable(
        self, a: AccumulatorColumns, b: AccumulatorColumns
    ) -> tuple[AccumulatorColumns, AccumulatorColumns]:
        """Return `a` and `b` as cells with the same `values`."""
        if a.values is None and b.values is None:
            return a, b
        stored = zip(self.store(a), self.store(b), strict=True)
        both = self.load([pa.concat_arrays(pair) for pair in stored])
        return both.take(slice(None, len(a))), both.take(slice(len(a), None))

    def merge(self, cells: AccumulatorColumns, codes: np.ndarray, n: int) -> AccumulatorColumns:
        """Return `n` coarser cells: cell i of `cells` is combined into cell `codes[i]`."""
        order = np.argsort(codes, kind="stable")
        cells, codes = cells.take(order), codes[order]
        while True:
            same = codes[1:] == codes[:-1]
            if not same.any():
                break
            starts = np.flatnonzero(np.concatenate(([True], ~same)))
            rank = np.arange(len(codes)) - np.repeat(starts, np.diff([*starts, len(codes)]))
            kept = np.flatnonzero(rank % 2 == 0)
            paired = kept[np.append(same, False)[kept]]
            joined = self.combine(cells.take(paired), cells.take(paired + 1))
            copied = cells.copy()
            copied.put(paired, joined)
            cells, codes = copied.take(kept), codes[kept]
        out = self.empty(n, cells)
        out.put(codes, cells)
        return out

    def scan(self, grid: AccumulatorColumns) -> AccumulatorColumns:
        """Return running totals: each row of `grid` is combined with all rows above it."""
        out = grid.copy()
        for row in range(1, len(out)):
            out.put(row, self.combine(out.take(row - 1), out.take(row)))
        return out

    def scan_up(self, grid: AccumulatorColumns) -> AccumulatorColumns:
        """Return totals from below: each row of `grid` is combined with all rows below it."""
        out = grid.copy()
        for row in range(len(out) - 2, -1, -1):
            out.put(row, self.combine(out.take(row), out.take(row + 1)))
        return out

    def store(self, cells: AccumulatorColumns) -> list[pa.Array]:
        """Return `cells` as Arrow columns, for state."""
        return [pa.array(a, t) for a, t in zip(cells.arrays, self.types, strict=True)]

    def load(self, columns: Sequence[pa.Array]) -> AccumulatorColumns:
        """Return the cells that `store` returned as Arrow columns."""
        return AccumulatorColumns(tuple([c.to_numpy(zero_copy_only=False) for c in columns]))


@dataclass(frozen=True)
class Slot:
    """One array of a `ColumnwiseAccumulator`: its type, its `ufunc`, its value in an empty cell."""

    type: pa.DataType
    ufunc: np.ufunc
    empty: float

    @property
    def dtype(self) -> Any:
        """The numpy type of the array."""
        return self.type.to_pandas_dtype()


class ColumnwiseAccumulator(Accumulator):
    """An accumulator whose arrays combine by numpy ufuncs: counts, sums, extremes."""

    @property
    @abstractmethod
    def slots(self) -> tuple[Slot, ...]:
        """The description of each array."""

    @cached_property
    def types(self) -> tuple[pa.DataType, ...]:  # noqa: D102
        return tuple([s.type for s in self.slots])

    def empty(self, n: int, like: AccumulatorColumns | None = None) -> AccumulatorColumns:  # noqa: D102
        arrays = tuple([np.full(n, s.empty, s.dtype) for s in self.slots])
        return AccumulatorColumns(arrays, None if like is None else like.values)

    def combine(self, a: AccumulatorColumns, b: AccumulatorColumns) -> AccumulatorColumns:  # noqa: D102
        joined = zip(self.slots, a.arrays, b.arrays, strict=True)
        return AccumulatorColumns(tuple([s.ufunc(x, y) for s, x, y in joined]), a.values)

    def merge(self, cells: AccumulatorColumns, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        out = self.empty(n, cells)
        for slot, mine, theirs in zip(self.slots, out.arrays, cells.arrays, strict=True):
            slot.ufunc.at(mine, codes, theirs)
        return out

    def scan(self, grid: AccumulatorColumns) -> AccumulatorColumns:  # noqa: D102
        pairs = zip(self.slots, grid.arrays, strict=True)
        return replace(grid, arrays=tuple([s.ufunc.accumulate(a, axis=0) for s, a in pairs]))

    def scan_up(self, grid: AccumulatorColumns) -> AccumulatorColumns:  # noqa: D102
        upwards = slice(None, None, -1)
        return self.scan(grid.take(upwards)).take(upwards)
