"""Values of columns in the type of the schema, and the values that do not fit this type.

A value either fits or makes its row malformed; no value is changed or becomes NULL. The rule is the
same for csv and json, and it looks at one value at a time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.windows.axis import read_times

_REFUSED = (pa.ArrowInvalid, pa.ArrowTypeError)
_NAMES = {
    pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int",
    pa.int64(): "bigint", pa.float32(): "float", pa.float64(): "double", pa.string(): "string",
    pa.binary(): "binary", pa.date32(): "date",
}  # fmt: skip
_NUMBER_TEXT = r"^[+-]?[0-9.]|^[+-]?(?i:inf|nan)"
_SHOWN = 60


def type_name(t: pa.DataType) -> str:
    """Return the name of an Arrow type in Spark's DDL.

    >>> type_name(pa.timestamp("us", "UTC")), type_name(pa.decimal128(10, 2))
    ('timestamp', 'decimal(10, 2)')
    """
    if pa.types.is_timestamp(t):
        return "timestamp" if t.tz else "timestamp_ntz"
    if pa.types.is_decimal(t):
        return f"decimal({t.precision}, {t.scale})"
    return _NAMES.get(t, str(t))


def misfit(name: str, value: str, t: pa.DataType) -> str:
    """Return the reason why a row with `value` in the column `name` is malformed."""
    shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
    return f"column {name}: {shown!r} does not fit {type_name(t)}"


def fit(
    values: pa.Array, t: pa.DataType, *, null: str | None = ""
) -> tuple[pa.Array, np.ndarray | None]:
    """Return `values` as type `t`, and a mask of those that do not fit; None if all fit.

    The text `null` is NULL in a column of another type. Spaces around a text do not count there.

    >>> column, wrong = fit(pa.array(["1", " 2", "x", "", None]), pa.int64())
    >>> column.to_pylist(), wrong.tolist()
    ([1, 2, None, None, None], [False, False, True, False, False])
    """
    if values.type == t:
        return values, None
    if pa.types.is_string(values.type) and pa.types.is_timestamp(t):
        return _fit_times(values, t, null)
    if pa.types.is_timestamp(values.type) and values.type.unit == "ns" and pa.types.is_timestamp(t):
        return values.cast(t, safe=False), None  # drops the digits after the microsecond
    try:
        fitted = values.cast(t)
    except _REFUSED:
        return _fit_each(values, t, null)
    if pa.types.is_floating(t) and pa.types.is_string(values.type):
        return _without_overflow(values, fitted)
    return fitted, None


def _fit_times(
    text: pa.Array, t: pa.DataType, null: str | None
) -> tuple[pa.Array, np.ndarray | None]:
    ticks, valid = read_times(text)
    times = pa.array(ticks, mask=~valid).cast(pa.timestamp("us", t.tz))
    wrong = ~valid & _filled(text, null)
    fitted, more = (times, None) if times.type == t else fit(times, t)
    wrong = wrong if more is None else wrong | more
    return fitted, wrong if wrong.any() else None


def _filled(text: pa.Array, null: str | None) -> np.ndarray:
    """Return a mask of the texts that are neither NULL nor equal to `null`."""
    filled = text.is_valid() if null is None else pc.fill_null(pc.not_equal(text, null), False)
    return np.asarray(filled)


def _without_overflow(text: pa.Array, numbers: pa.Array) -> tuple[pa.Array, np.ndarray | None]:
    """Return `numbers`, read from `text`, without those that are infinite only by overflow."""
    found = pc.is_inf(numbers)
    if not pc.any(found).as_py():
        return numbers, None
    infinite = np.asarray(found.fill_null(False))
    spelled = pc.match_substring_regex(text, r"^\s*[+-]?(?i:inf)").fill_null(False)
    wrong = infinite & ~np.asarray(spelled)
    if not wrong.any():
        return numbers, None
    return pc.if_else(pa.array(wrong), pa.scalar(None, numbers.type), numbers), wrong


def _fit_each(
    values: pa.Array, t: pa.DataType, null: str | None
) -> tuple[pa.Array, np.ndarray | None]:
    """Return `values` as type `t`, and a mask of those that do not fit, by halves."""
    wrong = np.zeros(len(values), bool)
    text = pa.types.is_string(values.type)
    if text:
        filled = _filled(values, null)
        trimmed = pc.ascii_trim_whitespace(values)
        values = pc.replace_substring_regex(trimmed, r"^\+([0-9.iInN])", r"\1")
        if pa.types.is_integer(t) or pa.types.is_floating(t):
            number = pc.match_substring_regex(values, _NUMBER_TEXT).fill_null(True)
            wrong = filled & ~np.asarray(number)
            filled &= ~wrong
        values = pc.if_else(pa.array(filled), values, pa.scalar(None, values.type))
    pieces = _pieces(values, t, 0, wrong)
    fitted = pa.concat_arrays(pieces) if pieces else pa.array([], t)
    if text and pa.types.is_floating(t):
        fitted, more = _without_overflow(values, fitted)
        wrong = wrong if more is None else wrong | more
    return fitted, wrong if wrong.any() else None


def _pieces(values: pa.Array, t: pa.DataType, at: int, wrong: np.ndarray) -> list[pa.Array]:
    """Return `values`, which begin at row `at`, as arrays of type `t`; mark those that do not fit.

    Halving finds a few wrong values among many without a look at each value.
    """
    try:
        return [values.cast(t)]
    except _REFUSED:
        if len(values) == 1:
            wrong[at] = True
            return [pa.nulls(1, t)]
    half = len(values) // 2
    return [
        *_pieces(values.slice(0, half), t, at, wrong),
        *_pieces(values.slice(half), t, at + half, wrong),
    ]


def fit_table(
    table: pa.Table, schema: pa.Schema, *, null: str | None = ""
) -> tuple[pa.Table, dict[int, str]]:
    """Return `table` in the types of `schema`, and {row: reason} of the rows that do not fit.

    `table` has the columns of `schema`. A value that does not fit becomes NULL; the other values of
    its row stay.
    """
    columns: list[pa.Array] = []
    reasons: dict[int, str] = {}
    for field in schema:
        values = combined(table.column(field.name))
        fitted, wrong = fit(values, field.type, null=null)
        columns.append(fitted)
        for row in () if wrong is None else np.flatnonzero(wrong).tolist():
            shown = values[row].as_py()
            reasons.setdefault(row, misfit(field.name, str(shown), field.type))
    return pa.table(columns, schema=schema), reasons


def combined(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    values = column.combine_chunks()
    return pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
