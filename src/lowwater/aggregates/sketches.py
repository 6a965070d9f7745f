"""Sketches: small stand-ins for all values of a cell, with a known error (Apache DataSketches).

A sketch stays small however many rows it has seen, and two of them merge into the sketch of both,
so running totals, landmark windows and long windows cost one merge for each cell and result, where
those of a sum cost one addition.
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

from lowwater.aggregates.accuracy import FrequentItems, Hll, Kll, ds
from lowwater.aggregates.bags import Bags, bags_of
from lowwater.aggregates.order import from_texts, is_ranked, to_doubles, to_keys, to_texts
from lowwater.aggregates.partial import Columnwise, Part, Partial, Rows, Slot, valid_mask


class Sketched(Part):
    """A part whose cells are sketches.

    What was read from state stays bytes until it is merged with something: most cells of an epoch
    are only passed on. A sketch that lies in a cell is never changed.
    """

    @property
    def types(self) -> tuple[pa.DataType, ...]:  # noqa: D102
        return (pa.large_binary(),)

    @abstractmethod
    def joined(self, sketches: Sequence[Any]) -> Any:
        """Merge several sketches, in this order, into a new one."""

    @abstractmethod
    def to_bytes(self, sketch: Any) -> bytes:
        """Return a sketch as bytes."""

    @abstractmethod
    def from_bytes(self, kept: bytes) -> Any:
        """Read what `to_bytes` wrote."""

    def opened(self, cell: Any) -> Any:
        """Return the sketch in a cell."""
        return self.from_bytes(cell) if isinstance(cell, bytes) else cell

    def sketches(self, cells: Partial) -> Iterator[tuple[int, Any]]:
        """Yield (cell, sketch) where there is one."""
        kept = cells.arrays[0]
        for i in np.flatnonzero(_there(kept)).tolist():
            yield i, self.opened(kept[i])

    def empty(self, n: int, like: Partial | None = None) -> Partial:  # noqa: D102
        return Partial((np.full(n, None, object),))

    def combine(self, a: Partial, b: Partial) -> Partial:  # noqa: D102
        shape = a.arrays[0].shape
        left, right = a.arrays[0].ravel(), b.arrays[0].ravel()
        out = np.where(_there(left), left, right)
        for i in np.flatnonzero(_there(left) & _there(right)).tolist():
            out[i] = self.joined([self.opened(left[i]), self.opened(right[i])])
        return Partial((out.reshape(shape),))

    def merge(self, cells: Partial, codes: np.ndarray, n: int) -> Partial:  # noqa: D102
        out = self.empty(n)
        kept = cells.arrays[0]
        there = np.flatnonzero(_there(kept))
        order = there[np.argsort(codes[there], kind="stable")]
        for cell, start, stop in _runs(codes[order]):
            members = [kept[i] for i in order[start:stop].tolist()]
            many = len(members) > 1
            out.arrays[0][cell] = (
                self.joined(list(map(self.opened, members))) if many else members[0]
            )
        return out

    def store(self, cells: Partial) -> list[pa.Array]:  # noqa: D102
        kept = [
            c if c is None or isinstance(c, bytes) else self.to_bytes(c) for c in cells.arrays[0]
        ]
        return [pa.array(kept, pa.large_binary())]


@dataclass(frozen=True)
class KllCells(Sketched):
    """KLL sketches of the numbers of a column; NaN, which has no place in them, is left out.

    The library throws a coin whenever a sketch grows too large, and gives no way to seed it: a cell
    of more than k values may differ, within its error, when its epoch is run again.
    """

    column: str
    accuracy: Kll

    def lift(self, rows: Rows, codes: np.ndarray, n: int) -> Partial:  # noqa: D102
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

    def to_bytes(self, sketch: Any) -> bytes:  # noqa: D102
        return bytes(sketch.serialize())

    def from_bytes(self, kept: bytes) -> Any:  # noqa: D102
        return ds.kll_doubles_sketch.deserialize(kept)

    def seen(self, cells: Partial) -> np.ndarray:
        """Return how many numbers each cell has seen."""
        out = np.zeros(len(cells), np.int64)
        for i, sketch in self.sketches(cells):
            out[i] = sketch.n
        return out

    def order_statistics(self, cells: Partial, places: np.ndarray) -> np.ndarray:
        """Return, for each cell, about the numbers at `places[cell]`, counted from 0.

        NaN beyond the last place. The first and the last number are exact.
        """
        out = np.full(places.shape, np.nan)
        for i, sketch in self.sketches(cells):
            # In the middle of a place, no rounding leads to its neighbour.
            inside = np.minimum((places[i] + 0.5) / sketch.n, 1.0)
            found = np.array(sketch.get_quantiles(inside.tolist(), True))
            found[places[i] == 0] = sketch.get_min_value()
            found[places[i] == sketch.n - 1] = sketch.get_max_value()
            out[i] = np.where(places[i] < sketch.n, found, np.nan)
        return out


@dataclass(frozen=True)
class NanCount(Columnwise):
    """How many values of a column are NaN."""

    column: str

    @property
    def slots(self) -> tuple[Slot, ...]:  # noqa: D102
        return (Slot(pa.int64(), np.add, 0),)

    def lift(self, rows: Rows, codes: np.ndarray, n: int) -> Partial:  # noqa: D102
        column = rows.column(self.column)
        nan = np.isnan(column.to_numpy(zero_copy_only=False))
        valid = valid_mask(column)
        return Partial((np.bincount(codes[nan if valid is None else nan & valid], minlength=n),))


@dataclass(frozen=True)
class HllCells(Sketched):
    """HyperLogLog sketches of the values of a column: a function of the set of values."""

    column: str
    accuracy: Hll

    def lift(self, rows: Rows, codes: np.ndarray, n: int) -> Partial:  # noqa: D102
        bags = bags_of(rows.column(self.column), codes, n)
        # The library takes no notice of empty text, hence the mark before all.
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

    def from_bytes(self, kept: bytes) -> Any:  # noqa: D102
        return ds.hll_sketch.deserialize(kept)

    def estimates(self, cells: Partial) -> np.ndarray:
        """Return about how many different values each cell has seen."""
        out = np.zeros(len(cells), np.int64)
        for i, sketch in self.sketches(cells):
            # A sketch that was never merged estimates by the history of its updates, which depends
            # on how rows came; merged with itself it goes by its registers alone.
            out[i] = round(self.joined([sketch, sketch]).get_estimate())
        return out


@dataclass(frozen=True)
class FrequentCells(Sketched):
    """Frequent-items sketches of the values of a column, which are kept as text."""

    column: str
    type: pa.DataType
    accuracy: FrequentItems

    def lift(self, rows: Rows, codes: np.ndarray, n: int) -> Partial:  # noqa: D102
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

    def to_bytes(self, sketch: Any) -> bytes:  # noqa: D102
        return bytes(sketch.serialize())

    def from_bytes(self, kept: bytes) -> Any:  # noqa: D102
        return ds.frequent_strings_sketch.deserialize(kept)

    def bags(self, cells: Partial, k: int) -> Bags:
        """Return at least the k most frequent values of each cell, with their estimated counts."""
        found = [
            (i, text, estimate)
            for i, sketch in self.sketches(cells)
            for text, estimate, _, _ in _most_frequent(sketch, k)
        ]
        cell, texts, counts = zip(*found, strict=True) if found else ((), (), ())
        values = from_texts(list(texts), self.type)
        return bags_of(values, np.array(cell, np.int64), len(cells), np.array(counts, np.int64))


def _most_frequent(sketch: Any, k: int) -> list[tuple[str, int, int, int]]:
    """Return k values or more, and all that are as frequent as any of these."""
    kind = ds.frequent_items_error_type.NO_FALSE_NEGATIVES
    # About 2k values at most are as frequent as this, so most of the sketch need not be looked at.
    least = sketch.total_weight // (2 * k)
    while True:
        found: list[tuple[str, int, int, int]] = sketch.get_frequent_items(kind, least)
        if least == 0 or len(found) >= k:
            return found
        least //= 8


def _there(cells: np.ndarray) -> np.ndarray:
    return np.asarray(cells != None, bool)  # noqa: E711


def _runs(codes: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield (code, start, stop) for every run of equal codes."""
    bounds = [*np.flatnonzero(np.diff(codes, prepend=-1)).tolist(), len(codes)]
    for start, stop in pairwise(bounds):
        yield int(codes[start]), start, stop


def _each(bags: Bags) -> Iterator[tuple[int, list[int], list[int]]]:
    """Yield (cell, ranks, counts) for every cell that holds a value."""
    cell, rank, count = bags.items()
    for c, start, stop in _runs(cell):
        yield c, rank[start:stop].tolist(), count[start:stop].tolist()
