"""The built-in aggregates: count, sum, avg, min, max, stddev, variance, first and last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import Accumulator, AccumulatorColumns
from lowwater.aggregates.accumulators.builtin import (
    ExactSum,
    Extreme,
    FloatSum,
    Moments,
    RowCount,
    ValueAtTime,
    ValueCount,
    carried,
)
from lowwater.aggregates.aggregate import Aggregate, Growth, Overflow, call, column_type, flat_type
from lowwater.errors import SpecError
from lowwater.schema import is_number

_WIDE = Context(prec=80)
_LIMB_SIGN = 2**31


@dataclass(frozen=True)
class Count(Aggregate):
    """The number of rows, or of the values of a column that are not NULL."""

    growth: ClassVar[Growth] = "counted"
    column: str | None = None

    @property
    def written(self) -> str:  # noqa: D102
        return call("count") if self.column is None else call("count", self.column)

    def parts(self, schema: pa.Schema) -> tuple[Accumulator, ...]:  # noqa: D102
        if self.column is None:
            return (RowCount(),)
        column_type(schema, self.column)
        return (ValueCount(self.column),)

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        return pa.int64()

    def lower(self, cells: Sequence[AccumulatorColumns], schema: pa.Schema) -> pa.Array:  # noqa: D102
        return pa.array(cells[0].arrays[0], pa.int64())


@dataclass(frozen=True)
class _SumBased(Aggregate):
    """An aggregate whose accumulators are a sum and the number of values.

    `overflow` has no effect on the state, so it may change between restarts.
    """

    function: ClassVar[str]
    column: str
    overflow: Overflow = field(default="null", repr=False)

    @property
    def written(self) -> str:
        return call(self.function, self.column)

    def overflowed(
        self, values: pa.Array, cells: Sequence[AccumulatorColumns]
    ) -> np.ndarray | None:
        if not values.null_count:
            return None
        lost = np.asarray(values.is_null()) & (cells[1].arrays[0] > 0)
        return lost if lost.any() else None


@dataclass(frozen=True)
class Sum(_SumBased):
    """The sum of a column: exact for integers (a bigint) and decimals, a double for floats."""

    function: ClassVar[str] = "sum"
    growth: ClassVar[Growth] = "scaled"

    def parts(self, schema: pa.Schema) -> tuple[Accumulator, ...]:  # noqa: D102
        return (_sum_part(self.function, self.column, schema), ValueCount(self.column))

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        t = column_type(schema, self.column)
        if pa.types.is_decimal(t):
            return pa.decimal128(min(t.precision + 10, 38), t.scale)
        return pa.float64() if pa.types.is_floating(t) else pa.int64()

    def lower(self, cells: Sequence[AccumulatorColumns], schema: pa.Schema) -> pa.Array:  # noqa: D102
        total, missing = cells[0].arrays, cells[1].arrays[0] == 0
        t = self.result_type(schema)
        if pa.types.is_floating(t):
            return pa.array(total[0], mask=missing)
        if pa.types.is_decimal(t):
            return _decimals(_integers(total), missing, t)
        low, high = carried(total)
        beyond = (high >= _LIMB_SIGN) | (high < -_LIMB_SIGN)
        return pa.array((high << 32) + low, pa.int64(), mask=missing | beyond)


@dataclass(frozen=True)
class Avg(_SumBased):
    """The mean of a column, typed as in Spark: a double, or a decimal with four more digits."""

    function: ClassVar[str] = "avg"
    growth: ClassVar[Growth] = "level"

    def parts(self, schema: pa.Schema) -> tuple[Accumulator, ...]:  # noqa: D102
        return (_sum_part(self.function, self.column, schema), ValueCount(self.column))

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        t = column_type(schema, self.column)
        if pa.types.is_decimal(t):
            return pa.decimal128(min(t.precision + 4, 38), min(t.scale + 4, 38))
        return pa.float64()

    def lower(self, cells: Sequence[AccumulatorColumns], schema: pa.Schema) -> pa.Array:  # noqa: D102
        total, count = cells[0].arrays, cells[1].arrays[0]
        missing, t = count == 0, self.result_type(schema)
        if len(total) == 1:
            with np.errstate(invalid="ignore"):
                return pa.array(total[0] / np.maximum(count, 1), mask=missing)
        if pa.types.is_decimal(t):
            scale = column_type(schema, self.column).scale
            unit = Decimal(1).scaleb(-t.scale)
            sums = zip(_integers(total), np.maximum(count, 1).tolist(), strict=True)
            exact = [_WIDE.divide(Decimal(v).scaleb(-scale, _WIDE), n) for v, n in sums]
            means = [mean.quantize(unit, ROUND_HALF_UP, _WIDE) for mean in exact]
            unscaled = [int(mean.scaleb(t.scale, _WIDE)) for mean in means]
            return _decimals(unscaled, missing, t)
        low, high = carried(total)
        # Floats hold sums below 2^53 exactly; larger sums are divided as integers, rounded once.
        small = np.abs(high) < 2**20
        mean = (high * 2.0**32 + low) / np.maximum(count, 1)
        for i in np.flatnonzero(~small):
            mean[i] = ((int(high[i]) << 32) + int(low[i])) / int(count[i])
        return pa.array(mean, mask=missing)


@dataclass(frozen=True)
class Extremum(Aggregate):
    """The least or greatest value of a column; the type of the column must not be nested."""

    column: str
    greatest: bool

    @property
    def function(self) -> str:
        """The name of the function: `max` or `min`."""
        return "max" if self.greatest else "min"

    @property
    def written(self) -> str:  # noqa: D102
        return call(self.function, self.column)

    @property
    def growth(self) -> Growth:  # noqa: D102
        return "rising" if self.greatest else "falling"

    def parts(self, schema: pa.Schema) -> tuple[Accumulator, ...]:  # noqa: D102
        t = flat_type(self.function, self.column, schema)
        return (Extreme(self.column, t, self.greatest),)

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        return column_type(schema, self.column)

    def lower(self, cells: Sequence[AccumulatorColumns], schema: pa.Schema) -> pa.Array:  # noqa: D102
        return Extreme(self.column, self.result_type(schema), self.greatest).lower(cells[0])


@dataclass(frozen=True)
class Spread(Aggregate):
    """The sample variance or standard deviation of a column; NULL for fewer than two values."""

    growth: ClassVar[Growth] = "level"
    column: str
    root: bool

    @property
    def function(self) -> str:
        """The name of the function: `stddev` or `variance`."""
        return "stddev" if self.root else "variance"

    @property
    def written(self) -> str:  # noqa: D102
        return call(self.function, self.column)

    def parts(self, schema: pa.Schema) -> tuple[Accumulator, ...]:  # noqa: D102
        _numeric(self.function, self.column, schema)
        return (Moments(self.column),)

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        return pa.float64()

    def lower(self, cells: Sequence[AccumulatorColumns], schema: pa.Schema) -> pa.Array:  # noqa: D102
        n, _, m2 = cells[0].arrays
        spread = m2 / np.maximum(n - 1, 1)
        return pa.array(np.sqrt(spread) if self.root else spread, mask=n < 2)  # noqa: PLR2004


@dataclass(frozen=True)
class FirstOrLast(Aggregate):
    """The first or last value of a column in the order of event time; NULLs are skipped."""

    column: str
    last: bool

    @property
    def function(self) -> str:
        """The name of the function: `last` or `first`."""
        return "last" if self.last else "first"

    @property
    def written(self) -> str:  # noqa: D102
        return call(self.function, self.column)

    def parts(self, schema: pa.Schema) -> tuple[Accumulator, ...]:  # noqa: D102
        t = flat_type(self.function, self.column, schema, "is not supported")
        return (ValueAtTime(self.column, t, self.last),)

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        return column_type(schema, self.column)

    def lower(self, cells: Sequence[AccumulatorColumns], schema: pa.Schema) -> pa.Array:  # noqa: D102
        return ValueAtTime(self.column, self.result_type(schema), self.last).lower(cells[0])


def _numeric(function: str, column: str, schema: pa.Schema) -> pa.DataType:
    t = column_type(schema, column)
    if not is_number(t):
        raise SpecError(f"{function}({column!r}): the column is {t}, not a number; cast it first")
    return t


def _sum_part(function: str, column: str, schema: pa.Schema) -> Accumulator:
    t = _numeric(function, column, schema)
    if pa.types.is_floating(t):
        return FloatSum(column)
    return ExactSum(column, 4 if pa.types.is_decimal(t) else 2)


def _integers(limbs: Sequence[np.ndarray]) -> list[int]:
    cells = zip(*carried(limbs), strict=True)
    return [sum(int(limb) << (32 * i) for i, limb in enumerate(cell)) for cell in cells]


def _decimals(unscaled: list[int], missing: np.ndarray, t: pa.DataType) -> pa.Array:
    """Return decimals of type `t`; values beyond its digits are NULL."""
    limit = 10**t.precision
    exact = [Decimal(v).scaleb(-t.scale, _WIDE) if abs(v) < limit else None for v in unscaled]
    return pa.array(exact, t, mask=missing)
