"""The base class of aggregates.

`parts` returns the accumulators (parts) of an aggregate, or raises SpecError for an unsuitable
column. Kernels call `lower` when windows close, once for all results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import Accumulator, AccumulatorColumns
from lowwater.errors import SpecError, unknown_name

Growth = Literal["counted", "scaled", "distinct", "level", "rising", "falling", "other"]
"""How a result changes as rows arrive: `counted` and `scaled` grow in proportion to the rows,
`level` hardly changes, `rising` never falls, `falling` never rises, `other` is unknown."""
Kind = Literal["decomposable", "holistic", "sketch", "lift", "init"]
"""The kind of an aggregate in the table of compatible features. User-defined aggregates are `lift`
(functions lift, combine, lower) or `init` (functions init, incr, final)."""

Overflow = Literal["null", "fail"]
"""What becomes of a result that does not fit its type."""
_BELOW = 1 - 1e-12
"""The factor from a power of ten to a double that has fewer digits."""


def column_type(schema: pa.Schema, column: str) -> pa.DataType:
    """Return the type of `column`; raise SpecError if `schema` has no such column."""
    if not isinstance(column, str):
        raise SpecError(f"{column!r} is not a column; write its name as text, for example 'speed'")
    if column not in schema.names:
        raise unknown_name("column", column, schema.names)
    return schema.field(column).type


def flat_type(
    function: str, column: str, schema: pa.Schema, why: str = "has no order"
) -> pa.DataType:
    """Return the type of `column`; raise SpecError if the type is nested."""
    t = column_type(schema, column)
    if pa.types.is_nested(t):
        raise SpecError(f"{function}({column!r}): {t} {why}; take a field of it before the window")
    return t


class Aggregate(ABC):
    """An aggregate function over the rows of a window."""

    @property
    @abstractmethod
    def written(self) -> str:
        """The call that returns this aggregate, as a user writes it: `max('speed')`."""

    @property
    def error(self) -> str | None:
        """The error bound of a result as text; None if results are exact."""
        return None

    @abstractmethod
    def parts(self, schema: pa.Schema) -> tuple[Accumulator, ...]:
        """Return the accumulators that a cell keeps for this aggregate."""

    @abstractmethod
    def result_type(self, schema: pa.Schema) -> pa.DataType:
        """Return the Arrow type of a result, for rows of `schema`."""

    @abstractmethod
    def lower(self, cells: Sequence[AccumulatorColumns], schema: pa.Schema) -> pa.Array:
        """Return one result per closed window; `cells` has one entry per accumulator of `parts`."""

    overflow: Overflow = "null"
    """Whether a result that does not fit its type is NULL, or an error."""

    def overflowed(
        self, values: pa.Array, cells: Sequence[AccumulatorColumns]
    ) -> np.ndarray | None:
        """Return a mask of the results `values` that do not fit their type; None if all fit.

        Kernels call it after `lower`, which returns NULL for such a result.
        """
        del values, cells
        return None

    def kind(self, schema: pa.Schema) -> Kind:
        """Return the kind of this aggregate; it is "holistic" if cells grow with their rows."""
        if not all(part.bounded for part in self.parts(schema)):
            return "holistic"
        return "sketch" if self.error else "decomposable"

    @property
    def growth(self) -> Growth:
        """How a result changes while the rows of its window arrive."""
        return "other"

    def extrapolate(self, values: pa.Array, completeness: np.ndarray) -> pa.Array:
        """Return the expected final results for the early results `values`.

        Counts and sums are divided by `completeness`; other results are returned unchanged.
        """
        return scaled(values, completeness) if self.growth in {"counted", "scaled"} else values


def call(function: str, *given: Any, sketch: Any = None) -> str:
    """Return a call of `function` as text, with the size of its sketch if it has one.

    >>> call("top_k", "word", 3)
    "top_k('word', 3)"
    """
    words = [repr(value) for value in given]
    if sketch is not None:
        sizes = ", ".join(f"{f.name}={getattr(sketch, f.name)}" for f in fields(sketch))
        words.append(f"sketch={sketch.function}({sizes})")
    return f"{function}({', '.join(words)})"


def scaled(values: pa.Array, share: np.ndarray) -> pa.Array:
    """Return `values` divided by `share`, in the type of `values`; integers are rounded.

    >>> scaled(pa.array([10, 7, None]), np.array([0.5, 1.0, 0.5])).to_pylist()
    [20, 7, None]
    """
    floats = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers(floats / np.maximum(share, 1e-9), values)


def numbers(floats: np.ndarray, like: pa.Array) -> pa.Array:
    """Return numbers in the type of `like`, NULL where it is NULL; integers are rounded.

    >>> numbers(np.array([1.7, 2.0]), pa.array([5, None])).to_pylist()
    [2, None]
    >>> numbers(np.array([1e30]), pa.array([2**62])).to_pylist()
    [9223372036854774784]
    """
    kind, missing = like.type, np.asarray(like.is_null())
    if pa.types.is_decimal(kind):
        most = 10.0 ** (kind.precision - kind.scale) * _BELOW
        floats = np.clip(floats, -most, most)
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        # The nearest double of the largest bigint is beyond bigint.
        most = limits.max if kind.bit_width < 64 else np.nextafter(2.0**63, 0)  # noqa: PLR2004
        floats = np.clip(np.round(np.nan_to_num(floats)), limits.min, most)
        return pa.array(floats.astype(kind.to_pandas_dtype()), kind, mask=missing)
    return pa.array(floats, mask=missing).cast(kind, safe=False)
