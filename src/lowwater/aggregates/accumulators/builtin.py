"""The built-in accumulators: counts, sums, extremes, moments, first and last values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import (
    MASK32,
    Accumulator,
    AccumulatorColumns,
    ColumnwiseAccumulator,
    RawRows,
    Slot,
)
from lowwater.aggregates.accumulators.sort_keys import (
    decimal_words,
    from_keys,
    is_ranked,
    to_keys,
    valid_mask,
)
from lowwater.windows.axis import Axis

_INT64 = pa.int64()
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_COUNT = (Slot(_INT64, np.add, 0),)


@dataclass(frozen=True)
class RowCount(ColumnwiseAccumulator):
    """The number of rows; every window plan keeps this count."""

    slots = _COUNT

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        return AccumulatorColumns((np.bincount(codes, minlength=n),))


@dataclass(frozen=True)
class MultipleCount(ColumnwiseAccumulator):
    """The number of rows that end a window: their value on `axis` is a multiple of `step`."""

    slots = _COUNT
    axis: Axis
    step: int

    def chosen(self, table: pa.Table) -> np.ndarray:
        """Return a mask of the rows whose value on `axis` is a multiple of `step`."""
        ticks, valid = self.axis.to_ticks(table.column(self.axis.column))
        return np.asarray(valid & (ticks % self.step == 0))

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        return AccumulatorColumns((np.bincount(codes[self.chosen(rows.table)], minlength=n),))


@dataclass(frozen=True)
class Span(ColumnwiseAccumulator):
    """The largest tick of the rows of a cell."""

    slots = (Slot(_INT64, np.maximum, _LEAST),)

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        out = self.empty(n)
        np.maximum.at(out.arrays[0], codes, rows.ticks)
        return out


@dataclass(frozen=True)
class ValueCount(ColumnwiseAccumulator):
    """The number of values of a column that are not NULL."""

    slots = _COUNT
    column: str

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        valid = valid_mask(rows.column(self.column))
        known = codes if valid is None else codes[valid]
        return AccumulatorColumns((np.bincount(known, minlength=n),))


@dataclass(frozen=True)
class FloatSum(ColumnwiseAccumulator):
    """The sum of a float column, added up in arrival order."""

    slots = (Slot(pa.float64(), np.add, 0.0),)
    column: str

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        column = rows.column(self.column).cast(pa.float64()).fill_null(0.0)
        numbers = column.to_numpy(zero_copy_only=False)
        return AccumulatorColumns((np.bincount(codes, numbers, minlength=n),))


@dataclass(frozen=True)
class ExactSum(ColumnwiseAccumulator):
    """The exact sum of an integer or decimal column, in limbs of 32 bits; the last limb is signed.

    Limbs are added in 64 bits, so a limb can hold the sum of 2^31 rows before it overflows.
    """

    column: str
    limbs: int

    @cached_property
    def slots(self) -> tuple[Slot, ...]:  # noqa: D102
        return _COUNT * self.limbs

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        limbs = _limbs(rows.column(self.column), self.limbs)
        out = self.empty(n)
        for mine, theirs in zip(out.arrays, limbs, strict=True):
            np.add.at(mine, codes, theirs)
        return out

    def store(self, cells: AccumulatorColumns) -> list[pa.Array]:  # noqa: D102
        return super().store(AccumulatorColumns(carried(cells.arrays)))


def carried(limbs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return `limbs` with overflows carried to the next limb; all but the last are in [0, 2^32)."""
    out: list[np.ndarray] = []
    carry = np.zeros(1, np.int64)
    for limb in limbs[:-1]:
        total = limb + carry
        out.append(total & MASK32)
        carry = total >> 32
    return (*out, limbs[-1] + carry)


def _limbs(column: pa.Array, count: int) -> list[np.ndarray]:
    if pa.types.is_decimal(column.type):
        words = decimal_words(column)
    else:
        words = column.cast(_INT64).fill_null(0).to_numpy(zero_copy_only=False)[:, None]
    halves = [half for word in words.T for half in (word & MASK32, (word >> 32) & MASK32)]
    halves[-1] = words[:, -1] >> 32
    return halves[:count]


@dataclass(frozen=True)
class Extreme(ColumnwiseAccumulator):
    """The least or greatest value of a column, in Spark's order."""

    column: str
    type: pa.DataType
    greatest: bool

    @cached_property
    def slots(self) -> tuple[Slot, ...]:  # noqa: D102
        most, least = Slot(_INT64, np.maximum, _LEAST), Slot(_INT64, np.minimum, _GREATEST)
        key = most if self.greatest else least
        # Only an int64 column can contain a value whose key equals the key of an empty cell.
        return (key, Slot(_INT64, np.maximum, 0)) if self.type == _INT64 else (key,)

    @cached_property
    def ranked(self) -> bool:
        """Whether cells hold indices into an array of sorted distinct values."""
        return is_ranked(self.type)

    @cached_property
    def types(self) -> tuple[pa.DataType, ...]:  # noqa: D102
        return (self.type,) if self.ranked else super().types

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        keys, valid, values = to_keys(rows.column(self.column), both_zeros=True)
        if valid is not None:
            keys, codes = keys[valid], codes[valid]
        out = self.empty(n)
        self.slots[0].ufunc.at(out.arrays[0], codes, keys)
        if len(out.arrays) > 1:
            out.arrays[1][codes] = 1
        return AccumulatorColumns(out.arrays, values)

    def missing(self, cells: AccumulatorColumns) -> np.ndarray:
        """Return a mask of the cells without a value."""
        if len(cells.arrays) > 1:
            return np.asarray(cells.arrays[1] == 0)
        return np.asarray(cells.arrays[0] == self.slots[0].empty)

    def lower(self, cells: AccumulatorColumns) -> pa.Array:
        """Return the value of each cell."""
        missing = self.missing(cells)
        return from_keys(cells.arrays[0], self.type, missing=missing, values=cells.values)

    def store(self, cells: AccumulatorColumns) -> list[pa.Array]:  # noqa: D102
        return [self.lower(cells)] if self.ranked else super().store(cells)

    def load(self, columns: Sequence[pa.Array]) -> AccumulatorColumns:  # noqa: D102
        if not self.ranked:
            return super().load(columns)
        keys, valid, values = to_keys(columns[0])
        if valid is not None:
            keys = np.where(valid, keys, self.slots[0].empty)
        return AccumulatorColumns((keys,), values)


@dataclass(frozen=True)
class Moments(Accumulator):
    """Count, mean and sum of squared deviations, combined as in Chan, Golub and LeVeque."""

    types = (pa.float64(),) * 3
    column: str

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        column = rows.column(self.column).cast(pa.float64(), safe=False)
        valid = valid_mask(column)
        x = column.to_numpy(zero_copy_only=False)
        if valid is not None:
            x, codes = x[valid], codes[valid]
        count = np.bincount(codes, minlength=n).astype(float)
        with np.errstate(invalid="ignore", over="ignore"):
            mean = np.bincount(codes, x, minlength=n) / np.maximum(count, 1)
            m2 = np.bincount(codes, (x - mean[codes]) ** 2, minlength=n)
        return AccumulatorColumns((count, mean, m2))

    def empty(self, n: int, like: AccumulatorColumns | None = None) -> AccumulatorColumns:  # noqa: D102
        return AccumulatorColumns((np.zeros(n), np.zeros(n), np.zeros(n)))

    def combine(self, a: AccumulatorColumns, b: AccumulatorColumns) -> AccumulatorColumns:  # noqa: D102
        (na, ma, sa), (nb, mb, sb) = a.arrays, b.arrays
        n = na + nb
        with np.errstate(invalid="ignore", over="ignore"):
            share = nb / np.maximum(n, 1)
            delta = mb - ma
            mean = np.where(na == 0, mb, np.where(nb == 0, ma, ma + delta * share))
            m2 = np.where(na == 0, sb, np.where(nb == 0, sa, sa + sb + delta**2 * na * share))
        return AccumulatorColumns((n, mean, m2))


@dataclass(frozen=True)
class ValueAtTime(Accumulator):
    """The first value by (time, arrival), or the last value if `last` is true."""

    column: str
    type: pa.DataType
    last: bool

    @property
    def types(self) -> tuple[pa.DataType, ...]:  # noqa: D102
        return (self.type if is_ranked(self.type) else _INT64, _INT64)

    @property
    def never(self) -> int:
        """The time of an empty cell: before all times if `last` is true, else after all times."""
        return _LEAST if self.last else _GREATEST

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        keys, valid, values = to_keys(rows.column(self.column), both_zeros=True)
        ticks = rows.ticks
        if valid is not None:
            keys, codes, ticks = keys[valid], codes[valid], ticks[valid]
        order = np.lexsort((ticks, codes))
        if not self.last:
            order = order[::-1]
        # For equal indices the last assignment wins: the extreme time, ties by arrival.
        out = self.empty(n)
        out.arrays[0][codes[order]] = keys[order]
        out.arrays[1][codes[order]] = ticks[order]
        return AccumulatorColumns(out.arrays, values)

    def empty(self, n: int, like: AccumulatorColumns | None = None) -> AccumulatorColumns:  # noqa: D102
        arrays = (np.zeros(n, np.int64), np.full(n, self.never, np.int64))
        return AccumulatorColumns(arrays, None if like is None else like.values)

    def combine(self, a: AccumulatorColumns, b: AccumulatorColumns) -> AccumulatorColumns:  # noqa: D102
        later = b.arrays[1] >= a.arrays[1] if self.last else b.arrays[1] < a.arrays[1]
        joined = zip(a.arrays, b.arrays, strict=True)
        return AccumulatorColumns(tuple(np.where(later, y, x) for x, y in joined), a.values)

    def lower(self, cells: AccumulatorColumns) -> pa.Array:
        """Return the value of each cell."""
        missing = cells.arrays[1] == self.never
        return from_keys(cells.arrays[0], self.type, missing=missing, values=cells.values)

    def store(self, cells: AccumulatorColumns) -> list[pa.Array]:  # noqa: D102
        if not is_ranked(self.type):
            return super().store(cells)
        return [self.lower(cells), pa.array(cells.arrays[1], _INT64)]

    def load(self, columns: Sequence[pa.Array]) -> AccumulatorColumns:  # noqa: D102
        if not is_ranked(self.type):
            return super().load(columns)
        keys, _, values = to_keys(columns[0])
        return AccumulatorColumns((keys, columns[1].to_numpy(zero_copy_only=False)), values)
