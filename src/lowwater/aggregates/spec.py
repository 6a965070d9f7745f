"""The aggregates a user names, each a small noun that says which parts it needs.

`parts` is asked once, when the query is built, and raises what is wrong with the column then;
`lower` is called each time windows close, with the parts of all results at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from lowwater.aggregates.partial import Part, Partial
from lowwater.aggregates.parts import (
    AtTime,
    ExactSum,
    Extreme,
    FloatSum,
    Moments,
    RowCount,
    ValueCount,
    carried,
)
from lowwater.aggregates.user import NOTHING, Combining, Folding
from lowwater.errors import ResultOverflowError, SpecError, unknown_name

_WIDE = Context(prec=80)
_LIMB_SIGN = 2**31

Growth = Literal["counted", "scaled", "level", "rising", "falling", "other"]
"""counted, scaled: with the rows of a window, as counts and sums do; level: it stays about where it
is; rising or falling: it never falls, or never rises."""


def column_type(schema: pa.Schema, column: str) -> pa.DataType:
    """Return the type of a column, or say which column may have been meant."""
    if not isinstance(column, str):
        raise SpecError(f"{column!r} is no column; give its name as text")
    if column not in schema.names:
        raise unknown_name("column", column, schema.names)
    return schema.field(column).type


class Aggregate(ABC):
    """An aggregate function over the rows of a window."""

    @property
    def error(self) -> str | None:
        """How far a result may be off, in words, if it is an estimate."""
        return None

    @abstractmethod
    def parts(self, schema: pa.Schema) -> tuple[Part, ...]:
        """Return what is kept per cell."""

    @abstractmethod
    def result_type(self, schema: pa.Schema) -> pa.DataType:
        """Return the type of the result."""

    @abstractmethod
    def lower(self, cells: Sequence[Partial], schema: pa.Schema) -> pa.Array:
        """Turn the parts of finished windows into results."""

    @property
    def growth(self) -> Growth:
        """How a result changes while the rows of its window arrive."""
        return "other"

    def extrapolate(self, values: pa.Array, completeness: np.ndarray) -> pa.Array:
        """Return results as they are expected to be once all rows of their windows are there.

        What grows with the rows is scaled; for all else the rows that are there tell best.
        """
        grows = self.growth in {"counted", "scaled"}
        return scaled(values, completeness) if grows else values


def scaled(values: pa.Array, share: np.ndarray) -> pa.Array:
    """Return what grows with the rows of a window as it is expected to be when all are there.

    >>> scaled(pa.array([10, 7, None]), np.array([0.5, 1.0, 0.5])).to_pylist()
    [20, 7, None]
    """
    kind = values.type
    whole = values.cast(pa.float64()).to_numpy(zero_copy_only=False) / np.maximum(share, 1e-9)
    missing = np.asarray(values.is_null())
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        whole = np.clip(np.round(np.nan_to_num(whole)), limits.min, limits.max)
        return pa.array(whole.astype(kind.to_pandas_dtype()), kind, mask=missing)
    return pa.array(whole, mask=missing).cast(kind, safe=False)


@dataclass(frozen=True)
class Count(Aggregate):
    """Rows, or the values of a column that are not NULL."""

    column: str | None = None

    def parts(self, schema: pa.Schema) -> tuple[Part, ...]:  # noqa: D102
        if self.column is None:
            return (RowCount(),)
        column_type(schema, self.column)
        return (ValueCount(self.column),)

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        return pa.int64()

    def lower(self, cells: Sequence[Partial], schema: pa.Schema) -> pa.Array:  # noqa: D102
        return pa.array(cells[0].arrays[0], pa.int64())

    @property
    def growth(self) -> Growth:  # noqa: D102
        return "counted"


@dataclass(frozen=True)
class Sum(Aggregate):
    """The sum: exact for integers (bigint) and decimals, double for floats."""

    column: str

    @property
    def growth(self) -> Growth:  # noqa: D102
        return "scaled"

    def parts(self, schema: pa.Schema) -> tuple[Part, ...]:  # noqa: D102
        return (_sum_part("sum", self.column, schema), ValueCount(self.column))

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        t = column_type(schema, self.column)
        if pa.types.is_decimal(t):
            return pa.decimal128(min(t.precision + 10, 38), t.scale)
        return pa.float64() if pa.types.is_floating(t) else pa.int64()

    def lower(self, cells: Sequence[Partial], schema: pa.Schema) -> pa.Array:  # noqa: D102
        total, missing = cells[0].arrays, cells[1].arrays[0] == 0
        t = self.result_type(schema)
        if pa.types.is_floating(t):
            return pa.array(total[0], mask=missing)
        if pa.types.is_decimal(t):
            return _decimals(_integers(total), missing, t, f"sum({self.column!r})")
        low, high = carried(total)
        if ((high >= _LIMB_SIGN) | (high < -_LIMB_SIGN)).any():
            raise ResultOverflowError(
                f"sum({self.column!r}) left the range of bigint; cast the column to decimal(38, 0) "
                f"or to double before it is summed"
            )
        return pa.array((high << 32) + low, pa.int64(), mask=missing)


@dataclass(frozen=True)
class Avg(Aggregate):
    """The mean: double, or decimal with four more digits for decimals, as in Spark."""

    column: str

    @property
    def growth(self) -> Growth:  # noqa: D102
        return "level"

    def parts(self, schema: pa.Schema) -> tuple[Part, ...]:  # noqa: D102
        return (_sum_part("avg", self.column, schema), ValueCount(self.column))

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        t = column_type(schema, self.column)
        if pa.types.is_decimal(t):
            return pa.decimal128(min(t.precision + 4, 38), min(t.scale + 4, 38))
        return pa.float64()

    def lower(self, cells: Sequence[Partial], schema: pa.Schema) -> pa.Array:  # noqa: D102
        total, count = cells[0].arrays, cells[1].arrays[0]
        missing, t = count == 0, self.result_type(schema)
        if len(total) == 1:
            with np.errstate(invalid="ignore"):
                return pa.array(total[0] / np.maximum(count, 1), mask=missing)
        if pa.types.is_decimal(t):
            scale = column_type(schema, self.column).scale
            unit = Decimal(1).scaleb(-t.scale)
            means = [
                _WIDE.divide(Decimal(v).scaleb(-scale), max(int(n), 1)).quantize(
                    unit, ROUND_HALF_UP, _WIDE
                )
                for v, n in zip(_integers(total), count, strict=True)
            ]
            unscaled = [int(m.scaleb(t.scale, _WIDE)) for m in means]
            return _decimals(unscaled, missing, t, f"avg({self.column!r})")
        low, high = carried(total)
        # Below 2^53 the float sum is the exact one; above, dividing integers rounds only once.
        small = np.abs(high) < 2**20
        mean = (high * 2.0**32 + low) / np.maximum(count, 1)
        for i in np.flatnonzero(~small):
            mean[i] = ((int(high[i]) << 32) + int(low[i])) / int(count[i])
        return pa.array(mean, mask=missing)


@dataclass(frozen=True)
class Extremum(Aggregate):
    """The least or greatest value: numbers, text, dates, times, booleans."""

    column: str
    greatest: bool

    @property
    def growth(self) -> Growth:  # noqa: D102
        return "rising" if self.greatest else "falling"

    def parts(self, schema: pa.Schema) -> tuple[Part, ...]:  # noqa: D102
        t = column_type(schema, self.column)
        if pa.types.is_nested(t):
            raise SpecError(
                f"{'max' if self.greatest else 'min'}({self.column!r}): {t} has no order; "
                f"take a field of it before the window"
            )
        return (Extreme(self.column, t, self.greatest),)

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        return column_type(schema, self.column)

    def lower(self, cells: Sequence[Partial], schema: pa.Schema) -> pa.Array:  # noqa: D102
        return Extreme(self.column, self.result_type(schema), self.greatest).lower(cells[0])


@dataclass(frozen=True)
class Spread(Aggregate):
    """The sample variance, or its root; NULL for fewer than two values."""

    column: str
    root: bool

    @property
    def growth(self) -> Growth:  # noqa: D102
        return "level"

    def parts(self, schema: pa.Schema) -> tuple[Part, ...]:  # noqa: D102
        _numeric("stddev" if self.root else "variance", self.column, schema)
        return (Moments(self.column),)

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        return pa.float64()

    def lower(self, cells: Sequence[Partial], schema: pa.Schema) -> pa.Array:  # noqa: D102
        n, _, m2 = cells[0].arrays
        spread = m2 / np.maximum(n - 1, 1)
        return pa.array(np.sqrt(spread) if self.root else spread, mask=n < 2)  # noqa: PLR2004


@dataclass(frozen=True)
class ByTime(Aggregate):
    """The value at the first or last time of the window, NULLs passed over."""

    column: str
    last: bool

    def parts(self, schema: pa.Schema) -> tuple[Part, ...]:  # noqa: D102
        t = column_type(schema, self.column)
        if pa.types.is_nested(t):
            raise SpecError(
                f"{'last' if self.last else 'first'}({self.column!r}): {t} is not supported; "
                f"take a field of it before the window"
            )
        return (AtTime(self.column, t, self.last),)

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        return column_type(schema, self.column)

    def lower(self, cells: Sequence[Partial], schema: pa.Schema) -> pa.Array:  # noqa: D102
        return AtTime(self.column, self.result_type(schema), self.last).lower(cells[0])


@dataclass(frozen=True)
class UserDefined(Aggregate):
    """An aggregate by the user's functions."""

    part: Combining | Folding
    finish: Callable[[Any], Any]
    returns: pa.DataType
    complete: Callable[[Any, float], Any] | None = None

    def extrapolate(self, values: pa.Array, completeness: np.ndarray) -> pa.Array:  # noqa: D102
        if self.complete is None:
            return values
        pairs = zip(values.to_pylist(), completeness.tolist(), strict=True)
        found = [None if v is None else self.complete(v, share) for v, share in pairs]
        return pa.array(found, self.returns)

    def parts(self, schema: pa.Schema) -> tuple[Part, ...]:  # noqa: D102
        for column in self.part.columns:
            column_type(schema, column)
        return (self.part,)

    def result_type(self, schema: pa.Schema) -> pa.DataType:  # noqa: D102
        return self.returns

    def lower(self, cells: Sequence[Partial], schema: pa.Schema) -> pa.Array:  # noqa: D102
        kept = cells[0].arrays[0].tolist()
        return pa.array([None if c is NOTHING else self.finish(c) for c in kept], self.returns)


def _numeric(function: str, column: str, schema: pa.Schema) -> pa.DataType:
    t = column_type(schema, column)
    if not (pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t)):
        raise SpecError(f"{function}({column!r}): the column is {t}, not a number; cast it first")
    return t


def _sum_part(function: str, column: str, schema: pa.Schema) -> Part:
    t = _numeric(function, column, schema)
    if pa.types.is_floating(t):
        return FloatSum(column)
    return ExactSum(column, 4 if pa.types.is_decimal(t) else 2)


def _integers(limbs: Sequence[np.ndarray]) -> list[int]:
    whole = carried(limbs)
    return [
        sum(int(limb) << (32 * i) for i, limb in enumerate(cell))
        for cell in zip(*whole, strict=True)
    ]


def _decimals(unscaled: list[int], missing: np.ndarray, t: pa.DataType, what: str) -> pa.Array:
    limit = 10**t.precision
    if any(abs(v) >= limit for v in unscaled):
        raise ResultOverflowError(f"{what} left the range of {t}; cast the column to double")
    exact = [Decimal(v).scaleb(-t.scale, _WIDE) for v in unscaled]
    return pa.array(exact, t, mask=missing)
