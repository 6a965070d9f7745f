"""Parts: the columns that an aggregate keeps for each cell, and how cells combine.

A *cell* is one group in one pane (or in one window). A part lifts raw rows into cells, combines
cells, and scans them; it never subtracts, so a NaN or a 1e300 that left a window is gone for good.
Aggregates that need the same part share it: `avg("x")` and `sum("x")` keep one sum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

MASK32 = 0xFFFFFFFF


@dataclass(frozen=True)
class Partial:
    """The content of a part for many cells: arrays of one shape, element i for cell i.

    `values` holds, for parts over text and the like, the sorted distinct values that the first
    array's codes point into.
    """

    arrays: tuple[np.ndarray, ...]
    values: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.arrays[0])

    @property
    def sizes(self) -> np.ndarray:
        """How much each cell holds; more than one where cells grow with their rows."""
        return np.ones(len(self), np.int64)

    def take(self, index: Any) -> Partial:
        """Return the cells at `index`: an index array, a mask or a slice."""
        return replace(self, arrays=tuple(a[index] for a in self.arrays))

    def reshape(self, *shape: int) -> Partial:
        """Return the cells as a grid."""
        return replace(self, arrays=tuple(a.reshape(shape) for a in self.arrays))

    def put(self, index: Any, cells: Partial) -> None:
        """Overwrite the cells at `index`."""
        for mine, theirs in zip(self.arrays, cells.arrays, strict=True):
            mine[index] = theirs


class Rows:
    """Raw rows on their way into cells: a table, the tick of each row, and its position.

    The position is where it lies in a window: its tick, or its number where rows are counted.
    """

    def __init__(
        self, table: pa.Table, ticks: np.ndarray, positions: np.ndarray | None = None
    ) -> None:
        self.table = table
        self.ticks = ticks
        self.positions = ticks if positions is None else positions

    def __len__(self) -> int:
        return len(self.ticks)

    def column(self, name: str) -> pa.Array:
        """Return a column as one array."""
        column = self.table.column(name)
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

    def take(self, index: np.ndarray) -> Rows:
        """Return the rows at `index`."""
        taken = self.table.take(pa.array(index))
        return Rows(taken, self.ticks[index], self.positions[index])


class Part(ABC):
    """What one aggregate, or several that share it, keeps for each cell."""

    paned: ClassVar[bool] = True
    """Whether cells combine. A part that cannot is kept per window instead of per pane."""
    bounded: ClassVar[bool] = True
    """Whether a cell stays small, however many rows it holds. Running totals are for those only."""

    @property
    @abstractmethod
    def types(self) -> tuple[pa.DataType, ...]:
        """The Arrow types that cells are stored as."""

    @abstractmethod
    def lift(self, rows: Rows, codes: np.ndarray, n: int) -> Partial:
        """Reduce rows to n cells; `codes[i]` is the cell of row i, rows are in arrival order."""

    @abstractmethod
    def empty(self, n: int, like: Partial | None = None) -> Partial:
        """Return n cells that hold no row; they share the values of `like`."""

    @abstractmethod
    def combine(self, a: Partial, b: Partial) -> Partial:
        """Combine cells elementwise; `a` holds what arrived, or stands, before `b`."""

    def absorb(self, cells: Partial, rows: Rows, codes: np.ndarray) -> Partial:
        """Add rows to existing cells."""
        return self.combine(*self._comparable(cells, self.lift(rows, codes, len(cells))))

    def _comparable(self, a: Partial, b: Partial) -> tuple[Partial, Partial]:
        """Return cells whose codes point into the same values."""
        if a.values is None and b.values is None:
            return a, b
        stored = zip(self.store(a), self.store(b), strict=True)
        both = self.load([pa.concat_arrays(pair) for pair in stored])
        return both.take(slice(None, len(a))), both.take(slice(len(a), None))

    def merge(self, cells: Partial, codes: np.ndarray, n: int) -> Partial:
        """Reduce cells to n coarser ones, in order: neighbours combine, then neighbours again."""
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
            copied = Partial(tuple(a.copy() for a in cells.arrays), cells.values)
            copied.put(paired, joined)
            cells, codes = copied.take(kept), codes[kept]
        out = self.empty(n, cells)
        out.put(codes, cells)
        return out

    def scan(self, grid: Partial) -> Partial:
        """Combine each row of a grid with all rows above it (a running total down the rows)."""
        out = Partial(tuple(a.copy() for a in grid.arrays), grid.values)
        for row in range(1, len(out)):
            out.put(row, self.combine(out.take(row - 1), out.take(row)))
        return out

    def scan_up(self, grid: Partial) -> Partial:
        """Combine each row of a grid with all rows below it, the lower rows last."""
        out = Partial(tuple(a.copy() for a in grid.arrays), grid.values)
        for row in range(len(out) - 2, -1, -1):
            out.put(row, self.combine(out.take(row), out.take(row + 1)))
        return out

    def store(self, cells: Partial) -> list[pa.Array]:
        """Return cells as Arrow columns."""
        return [pa.array(a, t) for a, t in zip(cells.arrays, self.types, strict=True)]

    def load(self, columns: Sequence[pa.Array]) -> Partial:
        """Return cells from Arrow columns."""
        return Partial(tuple(c.to_numpy(zero_copy_only=False) for c in columns))


@dataclass(frozen=True)
class Slot:
    """One array of a `Columnwise` part: its type, how it merges, and its value in an empty cell."""

    type: pa.DataType
    ufunc: np.ufunc
    empty: float

    @property
    def dtype(self) -> Any:
        """The numpy type."""
        return self.type.to_pandas_dtype()


class Columnwise(Part):
    """A part whose arrays combine each by a numpy ufunc: counts, sums, extremes."""

    @property
    @abstractmethod
    def slots(self) -> tuple[Slot, ...]:
        """The arrays."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:  # noqa: D102
        return tuple(s.type for s in self.slots)

    def empty(self, n: int, like: Partial | None = None) -> Partial:  # noqa: D102
        arrays = tuple(np.full(n, s.empty, s.dtype) for s in self.slots)
        return Partial(arrays, None if like is None else like.values)

    def combine(self, a: Partial, b: Partial) -> Partial:  # noqa: D102
        joined = zip(self.slots, a.arrays, b.arrays, strict=True)
        return Partial(tuple(s.ufunc(x, y) for s, x, y in joined), a.values)

    def merge(self, cells: Partial, codes: np.ndarray, n: int) -> Partial:  # noqa: D102
        out = self.empty(n, cells)
        for slot, mine, theirs in zip(self.slots, out.arrays, cells.arrays, strict=True):
            slot.ufunc.at(mine, codes, theirs)
        return out

    def scan(self, grid: Partial) -> Partial:  # noqa: D102
        pairs = zip(self.slots, grid.arrays, strict=True)
        return Partial(tuple(s.ufunc.accumulate(a, axis=0) for s, a in pairs), grid.values)

    def scan_up(self, grid: Partial) -> Partial:  # noqa: D102
        flipped = Partial(tuple(a[::-1] for a in grid.arrays), grid.values)
        return self.scan(flipped).take(slice(None, None, -1))


def valid_mask(column: pa.Array) -> np.ndarray | None:
    """Return which values are not NULL, or None when all are there."""
    return None if column.null_count == 0 else column.is_valid().to_numpy(zero_copy_only=False)
