"""Bags: the distinct values of a column in each cell, with their counts.

Exact medians, distinct counts and most frequent values are computed from bags. The bags of all
cells share one pool of arrays, so a cell can hold any number of values without Python objects:

    start stop       pool   rank   0  2  5 | 2 | 1  2          values (sorted, distinct)
      0    3                count  1  1  7 | 4 | 1  1          10 11 12 20 30 31
      3    4
      4    6         cell 0 holds 10 once, 12 once and 31 seven times
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import Accumulator, AccumulatorColumns, RawRows
from lowwater.aggregates.accumulators.sort_keys import from_keys, to_doubles, to_keys

_DENSE = 4
"""`counted` sorts values if an array of counters would need more than this many per value."""


def spread(first: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all elements of the ranges [first, end), and the index of each element's range.

    >>> [x.tolist() for x in spread(np.array([3, 9]), np.array([5, 10]))]
    [[3, 4, 9], [0, 0, 1]]
    """
    copies = end - first
    which = np.repeat(np.arange(len(first)), copies)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(copies) - copies, copies)
    return first[which] + nth, which


@dataclass(frozen=True, kw_only=True)
class Bags(AccumulatorColumns):
    """The bags of many cells, sorted by rank; `arrays` are the starts and stops in the pool."""

    rank: np.ndarray
    count: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """The number of distinct values in each cell."""
        start, stop = self.arrays
        return np.asarray(stop - start)

    @property
    def distinct(self) -> pa.Array:
        """The sorted distinct values; a rank is an index into them."""
        assert self.values is not None  # noqa: S101
        return self.values

    def put(self, index: Any, cells: AccumulatorColumns) -> None:
        """Overwrite the cells at `index` with `cells`, which must use the same pool."""
        if not isinstance(cells, Bags) or cells.rank is not self.rank:
            raise AssertionError("bags of two pools are merged, not put into each other")
        super().put(index, cells)

    def items(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (cell, rank, count) of all values, sorted by cell and rank."""
        index, cell = spread(*self.arrays)
        return cell, self.rank[index], self.count[index]

    def beside(self, other: Bags) -> Bags:
        """Return these cells followed by the cells of `other`; both must have the same `values`."""
        rank, count, shift = self.rank, self.count, 0
        if other.rank is not rank:
            shift = len(rank)
            rank, count = np.append(rank, other.rank), np.append(count, other.count)
        arrays = zip(self.arrays, other.arrays, strict=True)
        joined = tuple(np.concatenate((mine, its + shift)) for mine, its in arrays)
        return Bags(joined, self.values, rank=rank, count=count)


def as_bags(cells: AccumulatorColumns) -> Bags:
    """Return `cells`, which must be bags."""
    assert isinstance(cells, Bags)  # noqa: S101
    return cells


def bags_of(column: pa.Array, cell: np.ndarray, n: int, count: np.ndarray | None = None) -> Bags:
    """Return `n` bags: bag `cell[i]` holds value i of `column`, if not NULL, `count[i]` times."""
    rank, valid, values = ranked(column)
    if count is None:
        count = np.ones(len(rank), np.int64)
    if valid is not None:
        rank, cell, count = rank[valid], cell[valid], count[valid]
    return counted(cell, rank, count, n, values)


def ranked(column: pa.Array) -> tuple[np.ndarray, np.ndarray | None, pa.Array]:
    """Return (ranks, `valid_mask(column)`, sorted distinct values)."""
    keys, valid, values = to_keys(column)
    if values is None:
        known, keys = np.unique(keys, return_inverse=True)
        missing = np.zeros(len(known), bool)
        values = from_keys(known, column.type, missing=missing, values=None)
    return keys, valid, values


def counted(
    cell: np.ndarray, rank: np.ndarray, count: np.ndarray, n: int, values: pa.Array
) -> Bags:
    """Return `n` bags; the counts of equal values in a cell are added up."""
    width = max(len(values), 1)
    key = cell * width + rank
    if n * width <= _DENSE * len(key):
        total = np.zeros(n * width, np.int64)
        np.add.at(total, key, count)
        distinct = np.flatnonzero(total)
        total = total[distinct]
    else:
        order = np.argsort(key, kind="stable")
        key = key[order]
        first = np.flatnonzero(np.diff(key, prepend=-1))
        distinct = key[first]
        total = np.add.reduceat(count[order], first) if len(first) else count[:0]
    sizes = np.bincount(distinct // width, minlength=n)
    stop = np.cumsum(sizes)
    return Bags((stop - sizes, stop), values, rank=distinct % width, count=total)


@dataclass(frozen=True)
class Values(Accumulator):
    """The distinct values of a column, with their counts, as a bag per cell."""

    bounded: ClassVar[bool] = False
    column: str
    type: pa.DataType

    @property
    def types(self) -> tuple[pa.DataType, ...]:  # noqa: D102
        return (pa.large_list(self.type), pa.large_list(pa.int64()))

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> Bags:  # noqa: D102
        return bags_of(rows.column(self.column), codes, n)

    def empty(self, n: int, like: AccumulatorColumns | None = None) -> Bags:  # noqa: D102
        nothing = np.zeros(n, np.int64)
        if isinstance(like, Bags):
            return Bags((nothing, nothing.copy()), like.values, rank=like.rank, count=like.count)
        values = pa.array([], self.type)
        return Bags((nothing, nothing.copy()), values, rank=nothing[:0], count=nothing[:0])

    def combine(self, a: AccumulatorColumns, b: AccumulatorColumns) -> Bags:  # noqa: D102
        both = as_bags(a).beside(as_bags(b))
        return self.merge(both, np.tile(np.arange(len(a)), 2), len(a))

    def merge(self, cells: AccumulatorColumns, codes: np.ndarray, n: int) -> Bags:  # noqa: D102
        bags = as_bags(cells)
        cell, rank, count = bags.items()
        return counted(codes[cell], rank, count, n, bags.distinct)

    def store(self, cells: AccumulatorColumns) -> list[pa.Array]:  # noqa: D102
        bags = as_bags(cells)
        _, rank, count = bags.items()
        offsets = pa.array(np.append(0, np.cumsum(bags.sizes)))
        flat = [bags.distinct.take(pa.array(rank)), pa.array(count)]
        return [pa.LargeListArray.from_arrays(offsets, f) for f in flat]

    def load(self, columns: Sequence[pa.Array]) -> Bags:  # noqa: D102
        if not len(columns[0]):
            return self.empty(0)
        offsets = columns[0].offsets.to_numpy()
        offsets = offsets - offsets[0]
        rank, _, values = ranked(columns[0].flatten())
        count = columns[1].flatten().to_numpy()
        return Bags((offsets[:-1], offsets[1:]), values, rank=rank, count=count)


def order_statistics(cells: Bags, places: np.ndarray) -> np.ndarray:
    """Return, for each cell, its sorted numbers at the indices `places[cell]`."""
    _, rank, count = cells.items()
    numbers = to_doubles(cells.distinct)
    upto = np.cumsum(count)
    first = np.cumsum(cells.sizes) - cells.sizes
    before = upto[first] - count[first]
    at = np.searchsorted(upto, before[:, None] + places, "right")
    return np.asarray(numbers[rank[at]])


def totals(cells: Bags) -> np.ndarray:
    """Return the number of values in each cell, including duplicates."""
    cell, _, count = cells.items()
    return np.bincount(cell, count, len(cells)).astype(np.int64)


def most_frequent(cells: Bags, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (ranks, counts, sizes) of the `k` most frequent values of each cell.

    `sizes` is the number of returned values per cell. Equal counts are sorted by value.
    """
    cell, rank, count = cells.items()
    order = np.lexsort((-count, cell))
    sizes = cells.sizes
    place = np.arange(len(cell)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = order[place < k]
    return rank[chosen], count[chosen], np.minimum(sizes, k)
