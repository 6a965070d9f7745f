"""Bounds on the error of results, and the values that late rows add to them.

All rows of a window that arrive in one epoch need the same slack. So the values that a window would
have had under any slack follow from its final and from what each epoch added to it after its end.
These *additions* are measured where rows are delivered to windows, and sent to the window's shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lowwater.aggregates.aggregate import Aggregate
from lowwater.aggregates.builtin import Avg, Count, Extremum, Sum
from lowwater.control.completeness import Floats
from lowwater.operators.group_codes import group_rows, shard_of
from lowwater.schema import is_number
from lowwater.watermarks.adaptive.policies import ValueBound

LONG = 64
"""The number of bits of a long time."""
HASHES = 1 << 62
"""The number of different hashes of groups."""
NOTHING = -np.inf
"""The greatest value of no rows."""
Kind: TypeAlias = Literal["sum", "avg", "max"]


@dataclass(frozen=True)
class Criterion:
    """What is compared of a result: a sum, a mean or a greatest value of numbers.

    The number of a row is the value of `column` times `sign`, or 1. With `valid`, it is whether the
    row has a value. `name` is the column of the result, or empty for the number of rows.
    """

    kind: Kind
    column: str | None = None
    sign: int = 1
    valid: bool = False
    name: str = ""

    def numbers(self, table: pa.Table) -> tuple[Floats, Floats]:
        """Return the number and the weight of each row."""
        if self.column is None:
            return np.ones(len(table)), np.ones(len(table))
        column = table.column(self.column).combine_chunks()
        known = np.asarray(column.is_valid()).astype(np.float64)
        if self.valid:
            return known, known
        return self.sign * floats(column, NOTHING * self.sign if self.kind == "max" else 0.0), known


def criteria(
    aggregates: dict[str, Aggregate], schema: pa.Schema, bound: ValueBound
) -> tuple[Criterion, ...]:
    """Return what is compared of results; of an unknown aggregate, the number of its rows."""
    if bound.rows:
        return (Criterion("sum"),)
    return tuple(dict.fromkeys(_criterion(n, a, schema) for n, a in aggregates.items()))


def _criterion(name: str, aggregate: Aggregate, schema: pa.Schema) -> Criterion:
    if isinstance(aggregate, Sum):
        return Criterion("sum", aggregate.column, name=name)
    if isinstance(aggregate, Avg):
        return Criterion("avg", aggregate.column, name=name)
    if isinstance(aggregate, Count) and aggregate.column is not None:
        return Criterion("sum", aggregate.column, valid=True, name=name)
    if isinstance(aggregate, Extremum):
        t = aggregate.result_type(schema)
        if is_number(t) or pt.is_temporal(t):
            sign = 1 if aggregate.greatest else -1
            return Criterion("max", aggregate.column, sign, name=name)
    return Criterion("sum")


def compared(aggregates: dict[str, Aggregate], schema: pa.Schema, bound: ValueBound) -> str:
    """Return the words for what `bound` compares: the values of results, or their rows."""
    if bound.rows:
        return "rows"
    names = [
        n for n, a in aggregates.items() if _criterion(n, a, schema).name or isinstance(a, Count)
    ]
    other = [n for n in aggregates if n not in names]
    parts = [f"the values of {', '.join(names)}"] if names else []
    parts += [f"the rows of {', '.join(other)}"] if other else []
    return " and ".join(parts)


def floats(values: pa.Array, missing: float) -> Floats:
    """Return numbers or times as floats; `missing` for NULL and for NaN.

    >>> floats(pa.array([1, None, 3]), 0.0).tolist()
    [1.0, 0.0, 3.0]
    """
    if pt.is_temporal(values.type):
        values = values.view(pa.int64() if values.type.bit_width == LONG else pa.int32())
    known = values.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    return np.where(np.isnan(known), missing, known)


@dataclass(frozen=True, eq=False)
class Additions:
    """What rows add to windows: addition i adds to the window of group `hash[i]` with `end[i]`.

    The rows need slack of the bin `bin[i]`. `late` is whether the window had been closed. For each
    criterion, `x` has the sum or greatest number, `m` the weight.
    """

    hash: np.ndarray
    end: np.ndarray
    bin: np.ndarray
    late: np.ndarray
    x: Floats
    m: Floats

    def __len__(self) -> int:
        return len(self.hash)

    @classmethod
    def none(cls, count: int) -> Additions:
        """Return no additions for `count` criteria."""
        whole = np.zeros(0, np.int64)
        nothing = np.zeros((0, count))
        return cls(whole, whole, whole, whole.astype(bool), nothing, nothing)

    def take(self, chosen: np.ndarray) -> Additions:
        """Return the additions with these indices, or in this mask."""
        return Additions(*[getattr(self, name)[chosen] for name in self.__dataclass_fields__])

    def to_table(self) -> pa.Table:
        """Return the additions as a table."""
        columns = {n: pa.array(getattr(self, n)) for n in ("hash", "end", "bin", "late")}
        for name, of in (("x", self.x), ("m", self.m)):
            columns |= {f"{name}{i}": pa.array(of[:, i]) for i in range(of.shape[1])}
        return pa.table(columns)

    @classmethod
    def of_table(cls, table: pa.Table) -> Additions:
        """Return the additions that `to_table` wrote."""
        columns = {n: table.column(n).to_numpy() for n in table.column_names}
        count = sum(name.startswith("x") for name in columns)
        x, m = (
            np.column_stack([columns[f"{n}{i}"] for i in range(count)]).reshape(-1, count)
            for n in ("x", "m")
        )
        hash, end, bin, late = (columns[n] for n in ("hash", "end", "bin", "late"))
        return cls(hash, end, bin, late, x, m)

    @classmethod
    def together(cls, several: Sequence[Additions]) -> Additions:
        """Return all additions."""
        fields = cls.__dataclass_fields__
        return cls(*[np.concatenate([getattr(a, name) for a in several]) for name in fields])

    def summed(self, kinds: Sequence[Criterion]) -> Additions:
        """Return the additions with one for each group, end, bin and lateness, in this order."""
        if not len(self):
            return self
        order = np.lexsort((self.late, self.bin, self.end, self.hash))
        one = self.take(order)
        new = np.ones(len(one), bool)
        new[1:] = np.logical_or.reduce(
            [np.diff(c) != 0 for c in (one.hash, one.end, one.bin, one.late.astype(np.int8))]
        )
        starts = np.flatnonzero(new)
        x = [
            (np.maximum if kind.kind == "max" else np.add).reduceat(one.x[:, i], starts)
            for i, kind in enumerate(kinds)
        ]
        m = np.add.reduceat(one.m, starts, axis=0)
        first = one.take(starts)
        return Additions(first.hash, first.end, first.bin, first.late, np.column_stack(x), m)


def group_hashes(keys: Sequence[pa.Array], groups: int) -> np.ndarray:
    """Return a hash of each group, equal in all processes."""
    return shard_of(keys, groups, HASHES)


def additions_by_shard(
    table: pa.Table,
    keys: Sequence[str],
    kinds: Sequence[Criterion],
    places: tuple[np.ndarray, np.ndarray, np.ndarray],
    shards: int,
) -> Iterator[tuple[int, Additions]]:
    """Yield the additions of rows for each shard.

    `places` are the indices of rows in `table`, the end of a window of each, and the bin of the
    slack that the row needs for it.
    """
    row, end, bin = places
    columns = [table.column(k).combine_chunks() for k in keys]
    codes, chosen = group_rows(columns, len(table))
    picked = [c.take(pa.array(chosen)) for c in columns]
    hashes = group_hashes(picked, len(chosen))[codes]
    shard = shard_of(picked, len(chosen), shards)[codes][row]
    pairs = [kind.numbers(table) for kind in kinds]
    x, m = (np.column_stack([pair[i][row] for pair in pairs]) for i in (0, 1))
    every = Additions(hashes[row], end, bin, np.zeros(len(row), bool), x, m)
    for number in np.unique(shard).tolist():
        yield number, every.take(shard == number).summed(kinds)
