"""Sketches: small summaries of all values of a cell, with a known error (Apache DataSketches).

The size of a sketch does not depend on its number of rows. Two sketches merge into one sketch that
summarizes the values of both.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import (
    Accumulator,
    AccumulatorColumns,
    ColumnwiseAccumulator,
    RawRows,
    Slot,
)
from lowwater.aggregates.accumulators.sort_keys import (
    from_texts,
    is_ranked,
    to_doubles,
    to_keys,
    to_texts,
    valid_mask,
)
from lowwater.aggregates.accumulators.values import Bags, bags_of
from lowwater.aggregates.sketch_sizes import FrequentItems, Hll, Kll, ds


class SketchAccumulator(Accumulator):
    """An accumulator whose cells are sketches; a sketch in a cell is never modified.

    Cells that are read from state stay bytes until they are merged, because most are never merged.
    """

    types = (pa.large_binary(),)

    @abstractmethod
    def joined(self, sketches: Sequence[Any]) -> Any:
        """Return a new sketch, merged from `sketches` in their order."""

    def to_bytes(self, sketch: Any) -> bytes:
        """Return `sketch` as bytes."""
        return bytes(sketch.serialize())

    @abstractmethod
    def from_bytes(self, stored: bytes) -> Any:
        """Return the sketch that `to_bytes` returned as bytes."""

    def opened(self, cell: Any) -> Any:
        """Return the sketch of `cell`, which is a sketch or its bytes."""
        return self.from_bytes(cell) if isinstance(cell, bytes) else cell

    def sketches(self, cells: AccumulatorColumns) -> Iterator[tuple[int, Any]]:
        """Yield (cell, sketch) for every cell that is not empty."""
        kept = cells.arrays[0]
        for i in np.flatnonzero(_there(kept)).tolist():
            yield i, self.opened(kept[i])

    def empty(self, n: int, like: AccumulatorColumns | None = None) -> AccumulatorColumns:  # noqa: D102
        return AccumulatorColumns((np.full(n, None, object),))

    def combine(self, a: AccumulatorColumns, b: AccumulatorColumns) -> AccumulatorColumns:  # noqa: D102
        shape = a.arrays[0].shape
        left, right = a.arrays[0].ravel(), b.arrays[0].ravel()
        out = np.where(_there(left), left, right)
        for i in np.flatnonzero(_there(left) & _there(right)).tolist():
            out[i] = self.joined([self.opened(left[i]), self.opened(right[i])])
        return AccumulatorColumns((out.reshape(shape),))

    def merge(self, cells: AccumulatorColumns, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        out = self.empty(n)
        kept = cells.arrays[0]
        there = np.flatnonzero(_there(kept))
        order = there[np.argsort(codes[there], kind="stable")]
        for cell, start, stop in _runs(codes[order]):
            same = kept[order[start:stop]]
            out.arrays[0][cell] = (
                same[0] if len(same) == 1 else self.joined([self.opened(one) for one in same])
            )
        return out

    def store(self, cells: AccumulatorColumns) -> list[pa.Array]:  # noqa: D102
        kept = [
            c if c is None or isinstance(c, bytes) else self.to_bytes(c) for c in cells.arrays[0]
        ]
        return [pa.array(kept, pa.large_binary())]


@dataclass(frozen=True)
class KllCells(SketchAccumulator):
    """KLL sketches of the numbers of a column, without NaN.

    KLL sketches are random and cannot be seeded: when an epoch runs again, a cell of more than k
    values may differ within the error bound.
    """

    column: str
    accuracy: Kll

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        numbers = to_doubles(rows.column(self.column))
        used = np.flatnonzero(~np.isnan(numbers))
        order = used[np.argsort(codes[used], kind="stable")]
        numbers = numbers[order] + 0.0
        out = self.empty(n)
        for cell, start, stop in _runs(codes[order]):
            sketch = ds.kll_doubles_sketch(self.accuracy.k)
            sketch.update(numbers[start:stop])
            out.arrays[0][cell] = sketch
        return out

    def joined(self, sketches: Sequence[Any]) -> Any:  # noqa: D102
        whole = copy.copy(sketches[0])
        for sketch in sketches[1:]:
            whole.merge(sketch)
        return whole

    def from_bytes(self, stored: bytes) -> Any:  # noqa: D102
        return ds.kll_doubles_sketch.deserialize(stored)

    def counts(self, cells: AccumulatorColumns) -> np.ndarray:
        """Return the number of values in each cell."""
        out = np.zeros(len(cells), np.int64)
        for i, sketch in self.sketches(cells):
            out[i] = sketch.n
        return out

    def order_statistics(self, cells: AccumulatorColumns, places: np.ndarray) -> np.ndarray:
        """Return, for each cell, estimates of its sorted numbers at the indices `places[cell]`.

        Indices after the last number return NaN. The first and the last number are exact.
        """
        out = np.full(places.shape, np.nan)
        for i, sketch in self.sketches(cells):
            # The middle of a place, so that rounding cannot select a neighbouring place.
            inside = np.minimum((places[i] + 0.5) / sketch.n, 1.0)
            numbers = np.array(sketch.get_quantiles(inside.tolist(), True))
            numbers[places[i] == 0] = sketch.get_min_value()
            numbers[places[i] == sketch.n - 1] = sketch.get_max_value()
            out[i] = np.where(places[i] < sketch.n, numbers, np.nan)
        return out


@dataclass(frozen=True)
class NanCount(ColumnwiseAccumulator):
    """The number of values of a column that are NaN."""

    slots = (Slot(pa.int64(), np.add, 0),)
    column: str

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        column = rows.column(self.column)
        nan = np.isnan(column.to_numpy(zero_copy_only=False))
        valid = valid_mask(column)
        counted = codes[nan if valid is None else nan & valid]
        return AccumulatorColumns((np.bincount(counted, minlength=n),))


@dataclass(frozen=True)
class HllCells(SketchAccumulator):
    """HyperLogLog sketches of the values of a column; the order of the values has no effect."""

    column: str
    accuracy: Hll

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        bags = bags_of(rows.column(self.column), codes, n)
        # DataSketches ignores empty text, hence the prefix.
        items: list[Any] = (
            [f"={text}" for text in to_texts(bags.distinct)]
            if is_ranked(bags.distinct.type)
            else to_keys(bags.distinct)[0].tolist()
        )
        out = self.empty(n)
        for cell, ranks, _ in _each(bags):
            sketch = ds.hll_sketch(self.accuracy.lg_k, ds.tgt_hll_type.HLL_8)
            deque(map(sketch.update, map(items.__getitem__, ranks)), maxlen=0)
            out.arrays[0][cell] = sketch
        return out

    def joined(self, sketches: Sequence[Any]) -> Any:  # noqa: D102
        union = ds.hll_union(self.accuracy.lg_k)
        for sketch in sketches:
            union.update(sketch)
        return union.get_result(ds.tgt_hll_type.HLL_8)

    def to_bytes(self, sketch: Any) -> bytes:  # noqa: D102
        return bytes(sketch.serialize_compact())

    def from_bytes(self, stored: bytes) -> Any:  # noqa: D102
        return ds.hll_sketch.deserialize(stored)

    def estimates(self, cells: AccumulatorColumns) -> np.ndarray:
        """Return the estimated number of distinct values in each cell."""
        out = np.zeros(len(cells), np.int64)
        for i, sketch in self.sketches(cells):
            # The estimate of an unmerged sketch depends on the order of its updates; the estimate
            # of a merged sketch depends only on its registers.
            out[i] = round(self.joined([sketch, sketch]).get_estimate())
        return out


@dataclass(frozen=True)
class FrequentCells(SketchAccumulator):
    """Frequent-items sketches of the values of a column, with the values as text."""

    column: str
    type: pa.DataType
    accuracy: FrequentItems

    def lift(self, rows: RawRows, codes: np.ndarray, n: int) -> AccumulatorColumns:  # noqa: D102
        bags = bags_of(rows.column(self.column), codes, n)
        items = to_texts(bags.distinct)
        out = self.empty(n)
        for cell, ranks, counts in _each(bags):
            sketch = ds.frequent_strings_sketch(self.accuracy.lg_k)
            deque(map(sketch.update, map(items.__getitem__, ranks), counts), maxlen=0)
            out.arrays[0][cell] = sketch
        return out

    def joined(self, sketches: Sequence[Any]) -> Any:  # noqa: D102
        whole = ds.frequent_strings_sketch(self.accuracy.lg_k)
        for sketch in sketches:
            whole.merge(sketch)
        return whole

    def from_bytes(self, stored: bytes) -> Any:  # noqa: D102
        return ds.frequent_strings_sketch.deserialize(stored)

    def bags(self, cells: AccumulatorColumns, k: int) -> Bags:
        """Return at least the `k` most frequent values of each cell, with estimated counts."""
        rows = [
            (i, text, estimate)
            for i, sketch in self.sketches(cells)
            for text, estimate, _, _ in _most_frequent(sketch, k)
        ]
        cell, texts, counts = zip(*rows, strict=True) if rows else ((), (), ())
        values = from_texts(list(texts), self.type)
        return bags_of(values, np.array(cell, np.int64), len(cells), np.array(counts, np.int64))


def _most_frequent(sketch: Any, k: int) -> list[tuple[str, int, int, int]]:
    """Return (value, count, low, high) for at least the `k` most frequent values."""
    kind = ds.frequent_items_error_type.NO_FALSE_NEGATIVES
    # At most about 2k values have this count or more; the others are skipped.
    least = sketch.total_weight // (2 * k)
    while True:
        items: list[tuple[str, int, int, int]] = sketch.get_frequent_items(kind, least)
        if least == 0 or len(items) >= k:
            return items
        least //= 8


def _there(cells: np.ndarray) -> np.ndarray:
    return np.asarray(cells != None, bool)  # noqa: E711


def _runs(codes: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield (code, start, stop) for every run of equal codes."""
    bounds = [*np.flatnonzero(np.diff(codes, prepend=-1)).tolist(), len(codes)]
    for start, stop in pairwise(bounds):
        yield int(codes[start]), start, stop


def _each(bags: Bags) -> Iterator[tuple[int, list[int], list[int]]]:
    """Yield (cell, ranks of its distinct values, their counts) for every cell that is not empty."""
    cell, rank, count = bags.items()
    for c, start, stop in _runs(cell):
        yield c, rank[start:stop].tolist(), count[start:stop].tolist()
