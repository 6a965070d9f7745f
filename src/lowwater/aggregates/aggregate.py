"""The contract of an aggregate: its accumulators, its result, and its kind.

The query calls `parts` once, when it is built; `parts` raises SpecError for an unsuitable column.
Kernels call `lower` each time windows close, with the accumulators of all results at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import Accumulator, AccumulatorColumns
from lowwater.errors import SpecError, unknown_name

Growth = Literal["counted", "scaled", "level", "rising", "falling", "other"]
"""How a result changes while rows arrive. counted, scaled: it grows with the rows, as counts and
sums do. level: it stays about the same. rising: it never falls. falling: it never rises."""
Kind = Literal["decomposable", "holistic", "sketch", "lift", "init"]
"""The kind of an aggregate, as the table of compatible features names it. lift and init are
user-defined: by lift/combine/lower, or by init/incr/final."""


def column_type(schema: pa.Schema, column: str) -> pa.DataType:
    """Return the type of a column; raise SpecError, with a hint, if there is none."""
    if not isinstance(column, str):
        raise SpecError(f"{column!r} is not a column; write its name as text, for example 'speed'")
    if column not in schema.names:
        raise unknown_name("column", column, schema.names)
    return schema.field(column).type


def flat_type(
    function: str, column: str, schema: pa.Schema, why: str = "has no order"
) -> pa.DataType:
    """Return the type of a column; raise SpecError if it is nested."""
    t = column_type(schema, column)
    if pa.types.is_nested(t):
        raise SpecError(f"{function}({column!r}): {t} {why}; take a field of it before the window")
    return t


class Aggregate(ABC):
    """An aggregate function over the rows of a window."""

    @property
    def error(self) -> str | None:
        """The error bound of a result as text, if the result is an estimate."""
        return None

    @abstractmethod
    def parts(self, schema: pa.Schema) -> tuple[Accumulator, ...]:
        """Return the accumulators of a cell."""

    @abstractmethod
    def result_type(self, schema: pa.Schema) -> pa.DataType:
        """Return the type of the result."""

    @abstractmethod
    def lower(self, cells: Sequence[AccumulatorColumns], schema: pa.Schema) -> pa.Array:
        """Return the results of closed windows, from their accumulators."""

    def kind(self, schema: pa.Schema) -> Kind:
        """Return the kind: the state of a holistic aggregate grows with the rows of a cell."""
        if not all(part.bounded for part in self.parts(schema)):
            return "holistic"
        return "sketch" if self.error else "decomposable"

    @property
    def growth(self) -> Growth:
        """How a result changes while the rows of its window arrive."""
        return "other"

    def extrapolate(self, values: pa.Array, completeness: np.ndarray) -> pa.Array:
        """Return the expected final results, given the share of rows that has arrived.

        Results that grow with the rows are scaled; others are returned unchanged.
        """
        return scaled(values, completeness) if self.growth in {"counted", "scaled"} else values


def scaled(values: pa.Array, share: np.ndarray) -> pa.Array:
    """Return values divided by the share of rows that has arrived, in the same type.

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
