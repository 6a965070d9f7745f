"""Rows of Arrow as the CSV that COPY of PostgreSQL reads, and the types of their columns."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from lowwater.errors import SinkError

NUL = "\0"
"""The one character that PostgreSQL cannot store in a text."""
_TYPES = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "bigint"),
    (pa.types.is_floating, "double precision"),
    (pa.types.is_decimal, "numeric"),
    (pa.types.is_date, "date"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
)


def sql_type(kind: pa.DataType) -> str:
    """Return the type of a column for values of type `kind`."""
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    return next((name for fits, name in _TYPES if fits(kind)), "jsonb")


def copy_csv(rows: pa.Table, nul: str | None) -> bytes:
    """Return `rows` as CSV: text is quoted, and an empty unquoted field is NULL.

    `nul` replaces each NUL character; if it is None, a NUL character raises SinkError.
    """
    for at, name in enumerate(rows.column_names):
        column = rows.column(at)
        kind = sql_type(column.type)
        if kind == "jsonb":
            column = pa.chunked_array([_json(column, nul, name)])
        elif kind == "text" and pc.any(pc.match_substring(column, NUL)).as_py():
            column = pc.replace_substring(column, NUL, _replacement(nul, name))
        rows = rows.set_column(at, name, column)
    out = io.BytesIO()
    pcsv.write_csv(rows, out, pcsv.WriteOptions(include_header=False))
    return out.getvalue()


def _json(column: pa.ChunkedArray, nul: str | None, name: str) -> pa.Array:
    def encodable(value: Any) -> Any:
        """Return `value` with NaN and infinity as text, because JSON lacks these numbers."""
        if isinstance(value, dict):
            return {encodable(n): encodable(v) for n, v in value.items()}
        if isinstance(value, list | tuple):
            return [encodable(v) for v in value]
        if isinstance(value, str) and NUL in value:
            return value.replace(NUL, _replacement(nul, name))
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    values = (encodable(value) for value in column.to_pylist())
    texts = [None if v is None else json.dumps(v, default=str) for v in values]
    return pa.array(texts, pa.string())


def _replacement(nul: str | None, name: str) -> str:
    if nul is None:
        raise SinkError(
            f"a text in column {name!r} contains the character NUL (U+0000), which PostgreSQL "
            f"cannot store; give to_postgres(nul='\N{REPLACEMENT CHARACTER}') to store another "
            f"text in its place, then start the query again with the same checkpoint"
        )
    return nul
