"""Holistic aggregates (Gray et al., Data Cube, 1997): quantiles, distinct counts, top values.

A cell keeps all values of a column, or a sketch of them; aggregates of one column share this state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import Accumulator, AccumulatorColumns
from lowwater.aggregates.accumulators.values import (
    Values,
    as_bags,
    most_frequent,
    order_statistics,
    totals,
)
from lowwater.aggregates.aggregate import Aggregate, Growth, call, column_type, flat_type
from lowwater.aggregates.sketch_sizes import FrequentItems, Hll, Kll
from lowwater.aggregates.sketches import FrequentCells, HllCells, KllCells, NanCount
from lowwater.errors import SpecError
from lowwater.schema import is_number


class HolisticAggregate(Aggregate):
    """An aggregate whose state is all values of a column, or a sketch of these values."""

    sketch: Kll | Hll | FrequentItems | None

    @property
    def error(self) -> str | None:  # noqa: D102
        return None if self.sketch is None else self.sketch.error


@dataclass(frozen=True)
class Quantile(HolisticAggregate):
    """One or several quantiles of a column, interpolated like Spark's `percentile`.

    For n sorted numbers x[0] ≤ … ≤ x[n-1] and the index p = q·(n-1), the quantile q is
    x[⌊p⌋] + (p - ⌊p⌋)·(x[⌈p⌉] - x[⌊p⌋]).
    """

    growth: ClassVar[Growth] = "level"
    column: str
    shares: tuple[float, ...]
    many: bool
    sketch: Kll | None = None

    @property
    def written(self) -> str:  # noqa: D102
        if self.many:
            return call("quantile", self.column, list(self.shares), sketch=self.sketch)
        if self.shares == (0.5,):
            return call("median", self.column, sketch=self.sketch)
        return call("quantile", self.column, self.shares[0], sketch=self.sketch)

    def parts(self, schema: pa.Schema) -> tuple[Accumulator, ...]:  # noqa: D102
        t = column_type(schema, self.column)
        if not is_number(t):
            name = "median" if self.shares == (0.5,) else "quantile"
            raise SpecError(
                f"{name}({self.column!r}): the column is {t}, whose values cannot be interpolated; "
                f"cast it to a number first, or take lw.min, lw.max, lw.mode or lw.top_k"
            )
        if self.sketch is None:
            return (Values(self.column, t),)
        cells = KllCells(self.column, self.sketch)
        return (cells, NanCount(self.column)) if pa.types.is_floating(t) else (cells,)

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        return pa.list_(pa.float64()) if self.many else pa.float64()

    def lower(self, cells: Sequence[AccumulatorColumns], schema: pa.Schema) -> pa.Array:  # noqa: D102
        count = self._counts(cells)
        held = np.flatnonzero(count)
        position = (count[held, None] - 1) * np.array(self.shares)
        low, high = (f(position).astype(np.int64) for f in (np.floor, np.ceil))
        numbers = self._numbers(cells[0].take(held), np.concatenate((low, high), axis=1))
        left, right = np.split(numbers, 2, axis=1)
        with np.errstate(invalid="ignore", over="ignore"):
            between = left + (position - low) * (right - left)
        values = np.where((low == high) | (left == right), left, between)
        if self.many:
            return _lists(pa.array(values.ravel()), np.where(count > 0, len(self.shares), 0))
        out = np.zeros(len(count))
        out[held] = values[:, 0]
        return pa.array(out, mask=count == 0)

    def _counts(self, cells: Sequence[AccumulatorColumns]) -> np.ndarray:
        """Return the number of values in each cell, NaN included."""
        if self.sketch is None:
            return totals(as_bags(cells[0]))
        counts = KllCells(self.column, self.sketch).counts(cells[0])
        return counts + cells[1].arrays[0] if len(cells) > 1 else counts

    def _numbers(self, cells: AccumulatorColumns, places: np.ndarray) -> np.ndarray:
        """Return, for each cell, the sorted numbers at the indices `places[cell]`."""
        if self.sketch is None:
            return order_statistics(as_bags(cells), places)
        return KllCells(self.column, self.sketch).order_statistics(cells, places)


@dataclass(frozen=True)
class CountDistinct(HolisticAggregate):
    """The number of distinct values of a column."""

    growth: ClassVar[Growth] = "distinct"
    column: str
    sketch: Hll | None = None

    @property
    def written(self) -> str:  # noqa: D102
        return call("count_distinct", self.column, sketch=self.sketch)

    def parts(self, schema: pa.Schema) -> tuple[Accumulator, ...]:  # noqa: D102
        t = flat_type("count_distinct", self.column, schema)
        if self.sketch is None:
            return (Values(self.column, t),)
        return (HllCells(self.column, self.sketch),)

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        return pa.int64()

    def lower(self, cells: Sequence[AccumulatorColumns], schema: pa.Schema) -> pa.Array:  # noqa: D102
        if self.sketch is None:
            return pa.array(cells[0].sizes, pa.int64())
        return pa.array(HllCells(self.column, self.sketch).estimates(cells[0]))


@dataclass(frozen=True)
class TopK(HolisticAggregate):
    """The `k` most frequent values of a column, with counts; equal counts are sorted by value."""

    column: str
    k: int
    sketch: FrequentItems | None = None

    @property
    def written(self) -> str:  # noqa: D102
        return call("top_k", self.column, self.k, sketch=self.sketch)

    def parts(self, schema: pa.Schema) -> tuple[Accumulator, ...]:  # noqa: D102
        return (_frequent("top_k", self.column, self.sketch, schema),)

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        t = column_type(schema, self.column)
        return pa.list_(pa.struct([("value", t), ("count", pa.int64())]))

    def lower(self, cells: Sequence[AccumulatorColumns], schema: pa.Schema) -> pa.Array:  # noqa: D102
        part = _frequent("top_k", self.column, self.sketch, schema)
        state = cells[0]
        held = part.bags(state, self.k) if isinstance(part, FrequentCells) else as_bags(state)
        rank, count, sizes = most_frequent(held, self.k)
        fields = list(self.result_type(schema).value_type)
        columns = [held.distinct.take(pa.array(rank)), pa.array(count, pa.int64())]
        return _lists(pa.StructArray.from_arrays(columns, fields=fields), sizes)


@dataclass(frozen=True)
class Mode(HolisticAggregate):
    """The most frequent value of a column; of several such values, the least."""

    column: str
    sketch: FrequentItems | None = None

    @property
    def written(self) -> str:  # noqa: D102
        return call("mode", self.column, sketch=self.sketch)

    def parts(self, schema: pa.Schema) -> tuple[Accumulator, ...]:  # noqa: D102
        return (_frequent("mode", self.column, self.sketch, schema),)

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        return column_type(schema, self.column)

    def lower(self, cells: Sequence[AccumulatorColumns], schema: pa.Schema) -> pa.Array:  # noqa: D102
        lists = TopK(self.column, 1, self.sketch).lower(cells, schema)
        values = lists.flatten().field(0)
        there = lists.is_valid().to_numpy(zero_copy_only=False)
        return values.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _frequent(
    function: str, column: str, sketch: FrequentItems | None, schema: pa.Schema
) -> Values | FrequentCells:
    t = flat_type(function, column, schema)
    return Values(column, t) if sketch is None else FrequentCells(column, t, sketch)


def _lists(flat: pa.Array, sizes: np.ndarray) -> pa.Array:
    """Return `flat` cut into lists of `sizes` elements; a list of size 0 becomes NULL."""
    offsets = pa.array(np.append(0, np.cumsum(sizes)).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, flat, mask=pa.array(sizes == 0))
