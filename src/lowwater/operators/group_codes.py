"""Group codes: small integers in place of groups, so that keys are read only once.

Each key column is coded first, then the combination of the columns. Only the distinct groups
are hashed to a shard or kept with their key values; there are far fewer groups than rows.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

_DENSE_FLOOR = 1 << 16
_MAX_BOUND = 1 << 61


def compact(codes: np.ndarray, bound: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes renumbered without gaps, and the old code of each new code.

    Old codes are in [0, bound). Their order is kept. Dense codes need no sort, sparse codes do.
    """
    if bound <= max(4 * len(codes), _DENSE_FLOOR):
        used = np.flatnonzero(np.bincount(codes, minlength=bound))
        if len(used) == bound:
            return codes, used
        place = np.empty(bound, np.int64)
        place[used] = np.arange(len(used))
        return place[codes], used
    distinct, inverse = np.unique(codes, return_inverse=True)
    return inverse, distinct


def code_column(column: pa.Array) -> tuple[np.ndarray, int]:
    """Return the code of each value, and a number above all codes; NULL has a code, too."""
    t = column.type
    if pa.types.is_integer(t) or pa.types.is_temporal(t) or pa.types.is_boolean(t):
        return _code_integers(column)
    if pa.types.is_floating(t):
        return _code_integers(normal_floats(column).cast(pa.float64()).view(pa.int64()))
    if pa.types.is_nested(t):
        column = _as_bytes(column)
    coded = column.dictionary_encode(null_encoding="encode")
    codes = coded.indices.to_numpy(zero_copy_only=False)
    return codes.astype(np.int64), len(coded.dictionary)


def _code_integers(column: pa.Array) -> tuple[np.ndarray, int]:
    """Return the codes of integers, booleans or times, and a number above all codes."""
    column = _as_integers(column)
    present = column.fill_null(0).to_numpy(zero_copy_only=False)
    least, most = int(present.min(initial=0)), int(present.max(initial=0))
    if most - least < max(4 * len(present), _DENSE_FLOOR):
        codes, bound = present.astype(np.int64) - least, most - least + 1
    else:
        coded = pa.array(present).dictionary_encode()
        codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        bound = len(coded.dictionary)
    if not column.null_count:
        return codes, bound
    missing = column.is_null().to_numpy(zero_copy_only=False)
    return np.where(missing, bound, codes), bound + 1


def group_rows(columns: Sequence[pa.Array], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the group code of each of the `n` rows, and the index of each group's first row."""
    if not columns:
        return np.zeros(n, np.int64), np.zeros(min(n, 1), np.int64)
    codes, bound = code_column(columns[0])
    for column in columns[1:]:
        more, width = code_column(column)
        if bound * width >= _MAX_BOUND:
            codes, distinct = compact(codes, bound)
            bound = len(distinct)
        codes, bound = codes * width + more, bound * width
    codes, distinct = compact(codes, bound)
    chosen = np.empty(len(distinct), np.int64)
    chosen[codes[::-1]] = np.arange(n - 1, -1, -1)
    return codes, chosen


def group_values(column: pa.ChunkedArray) -> tuple[np.ndarray, list[Any]]:
    """Return the group code of each value of `column`, and the value of each group."""
    values = whole(column)
    codes, chosen = group_rows([values], len(values))
    return codes, values.take(pa.array(chosen)).to_pylist()


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def normal_floats(column: pa.Array) -> pa.Array:
    """Return the floats with one bit pattern for all zeros, and one for all NaNs."""
    if column.null_count == len(column):
        return column
    mask = None if column.null_count == 0 else ~np.asarray(column.is_valid())
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False) + 0.0
    return pa.array(np.where(np.isnan(numbers), np.nan, numbers), column.type, mask=mask)


def shard_of(keys: Sequence[pa.Array], n: int, shards: int) -> np.ndarray:
    """Return the shard of each of `n` groups: a hash of its keys, equal in all processes."""
    return (hashes_of(keys, n) % np.uint64(shards)).astype(np.int64)


def hashes_of(keys: Sequence[pa.Array], n: int) -> np.ndarray:
    """Return a 64-bit hash of the keys of each of `n` rows, equal in all processes."""
    mixed = np.full(n, 0x9E3779B97F4A7C15, np.uint64)
    for column in keys:
        with np.errstate(over="ignore"):
            mixed = (mixed ^ _hash(column)) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(32)
    return mixed


def class_of(column: pa.ChunkedArray | pa.Array, classes: int) -> np.ndarray:
    """Return the class of each value of a column: a hash, equal in all processes.

    >>> class_of(pa.array(["a", "b", None, "a"]), 64).tolist()
    [32, 55, 43, 32]
    """
    values = whole(column) if isinstance(column, pa.ChunkedArray) else column
    codes, chosen = group_rows([values], len(values))
    named = values.take(pa.array(chosen))
    if pa.types.is_floating(named.type):
        named = normal_floats(named)
    return np.asarray(shard_of([named], len(named), classes)[codes])


def _hash(column: pa.Array) -> np.ndarray:
    """Return a 64-bit hash of each value; equal values have equal hashes."""
    column = _as_integers(column)
    if pa.types.is_floating(column.type):
        return np.asarray(column.fill_null(0), np.float64).view(np.uint64)
    if pa.types.is_integer(column.type):
        return np.asarray(column.fill_null(0)).astype(np.int64).view(np.uint64)
    if pa.types.is_nested(column.type):
        column = _as_bytes(column)
    values = (v if isinstance(v, bytes) else str(v).encode() for v in column.to_pylist())
    return np.fromiter((crc32(v) for v in values), np.uint64, len(column))


def _as_integers(column: pa.Array) -> pa.Array:
    """Return a column of booleans or times as integers, any other column unchanged."""
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8())
    if pa.types.is_temporal(column.type):
        return column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())  # noqa: PLR2004
    return column


def _as_bytes(column: pa.Array) -> pa.Array:
    """Return nested values as bytes; equal values have equal bytes."""
    return pa.array([pickle.dumps(_normal(v)) for v in column.to_pylist()], pa.binary())


def _normal(value: Any) -> Any:
    """Return a nested value with one bit pattern for all zeros, and one for all NaNs."""
    if isinstance(value, float):
        return math.nan if value != value else value + 0.0  # noqa: PLR0124
    if isinstance(value, dict):
        return {k: _normal(v) for k, v in value.items()}
    return [_normal(v) for v in value] if isinstance(value, list) else value
