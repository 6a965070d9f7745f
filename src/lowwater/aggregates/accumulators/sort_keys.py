"""Int64 sort keys for values of any ordered type: comparing keys compares the values.

Integers, dates, times and booleans are their own keys. Keys of floats are in Spark's order, with
NaN above all numbers. The zeros -0.0 and 0.0 have the same key, as they are equal in Spark; with
`both_zeros`, the key of -0.0 is just below the key of 0.0. Keys of text, binary and decimals are
indices (ranks) in an array of sorted distinct values; only keys of the same array can be compared.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_EXACT = 2**53
_EXACT_POWER = 22
"""A double exactly holds whole numbers below `_EXACT`, and 10**n for n up to `_EXACT_POWER`."""


def valid_mask(column: pa.Array) -> np.ndarray | None:
    """Return a mask of the values that are not NULL; None if no value is NULL."""
    return None if column.null_count == 0 else column.is_valid().to_numpy(zero_copy_only=False)


def is_ranked(t: pa.DataType) -> bool:
    """Return whether keys of type `t` are indices into an array of sorted distinct values."""
    kinds = pa.types
    own = kinds.is_integer(t) or kinds.is_floating(t)
    return not (own or kinds.is_boolean(t) or kinds.is_temporal(t))


def to_keys(
    column: pa.Array, *, both_zeros: bool = False
) -> tuple[np.ndarray, np.ndarray | None, pa.Array | None]:
    """Return (keys, `valid_mask(column)`, values); `values` is None if keys are not indices.

    >>> [to_keys(pa.array([-0.0, 0.0]), both_zeros=b)[0].tolist() for b in (False, True)]
    [[0, 0], [-1, 0]]
    """
    valid = valid_mask(column)
    t = column.type
    if is_ranked(t):
        coded = column.dictionary_encode()
        order = pc.sort_indices(coded.dictionary).to_numpy()
        rank = np.empty(len(order) + 1, np.int64)
        rank[order] = np.arange(len(order))
        codes = coded.indices.fill_null(len(order)).to_numpy(zero_copy_only=False)
        return rank[codes], valid, coded.dictionary.take(pa.array(order))
    if pa.types.is_floating(t):
        numbers = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        if not both_zeros:
            numbers = numbers + 0.0  # the sum of -0.0 and 0.0 is 0.0
        bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
        return bits ^ ((bits >> 63) & _SIGN), valid, None
    return _as_int64(column), valid, None


def from_keys(
    keys: np.ndarray, t: pa.DataType, *, missing: np.ndarray, values: pa.Array | None
) -> pa.Array:
    """Return the values that `keys` represent, with NULL where `missing` is true."""
    if is_ranked(t):
        if values is None:
            return pa.nulls(len(keys), t)
        return values.take(pa.array(np.where(missing, 0, keys), mask=missing)).cast(t)
    if pa.types.is_floating(t):
        bits = keys ^ ((keys >> 63) & _SIGN)
        return pa.array(bits.view(np.float64), mask=missing).cast(t)
    if pa.types.is_boolean(t):
        return pa.array(keys > 0, mask=missing)
    whole = pa.array(np.where(missing, 0, keys), pa.int64(), mask=missing)
    if pa.types.is_date32(t) or pa.types.is_time32(t):
        return whole.cast(pa.int32()).cast(t)
    return whole.cast(t)


def to_doubles(column: pa.Array) -> np.ndarray:
    """Return the numbers of `column` as doubles, each rounded once, as in Java; NULL becomes NaN.

    >>> to_doubles(pa.array([1, None, 3])).tolist()
    [1.0, nan, 3.0]
    """
    t = column.type
    if not pa.types.is_decimal(t) or not len(column):
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    low, high = decimal_words(column).T
    out = low / 10.0**t.scale
    # The quotient of two exact doubles is rounded once; others need decimal arithmetic.
    exact = (high == low >> 63) & (np.abs(low) < _EXACT) & (t.scale <= _EXACT_POWER)
    for i in np.flatnonzero(~exact).tolist():
        out[i] = float(column[i].as_py() or 0)
    valid = valid_mask(column)
    return out if valid is None else np.where(valid, out, np.nan)


def decimal_words(column: pa.Array) -> np.ndarray:
    """Return the low and the high 64-bit word of each unscaled decimal; NULL becomes 0."""
    wide = column.cast(pa.decimal128(38, column.type.scale)).fill_null(0)
    words = np.frombuffer(wide.buffers()[1], np.int64).reshape(-1, 2)
    return words[wide.offset : wide.offset + len(wide)]


def to_texts(values: pa.Array) -> list[str]:
    """Return each of `values`, of any ordered type, as text that `from_texts` can read."""
    t = values.type
    if not is_ranked(t):
        return list(map(str, to_keys(values)[0].tolist()))
    if pa.types.is_binary(t):
        return [v.decode("latin-1") for v in values.to_pylist()]
    return list(map(str, values.to_pylist()))


def from_texts(texts: list[str], t: pa.DataType) -> pa.Array:
    """Return the values of type `t` that `to_texts` returned as text."""
    if not is_ranked(t):
        keys = np.array(list(map(int, texts)), np.int64)
        return from_keys(keys, t, missing=np.zeros(len(keys), bool), values=None)
    if pa.types.is_binary(t):
        return pa.array([v.encode("latin-1") for v in texts], t)
    return pa.array(texts, pa.string()).cast(t)


def _as_int64(column: pa.Array) -> np.ndarray:
    t = column.type
    if pa.types.is_boolean(t):
        column = column.cast(pa.int8())
    elif pa.types.is_date32(t) or pa.types.is_time32(t):
        column = column.cast(pa.int32())
    return np.asarray(column.cast(pa.int64()).fill_null(0))
