"""Infers the schema of csv and json files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lowwater.errors import SpecError
from lowwater.schema import plain

_READERS = {"csv": "delim=',', header=true", "json": "format='newline_delimited'"}
"""DuckDB's options for reading each format."""


def infer_schema(paths: Sequence[Path], form: str) -> pa.Schema:
    """Return the schema of csv or json files, inferred from every row; times are in UTC.

    A sample of rows is not enough: a column of whole numbers may have a fraction in its last row,
    and a row with a value that does not fit the type of its column is malformed.
    """
    import duckdb

    with duckdb.connect() as connection:
        try:
            every = f"{_READERS[form]}, sample_size=-1, ignore_errors=true"
            query = f"FROM read_{form}(?, {every}) LIMIT 0"
            read: Any = connection.sql(query, params=[[str(p) for p in paths]])
            columns = dict(zip(read.columns, map(str, read.types), strict=True))
            inferred = read.to_arrow_table().schema
        except duckdb.Error as problem:
            reason = str(problem).splitlines()[0]
            raise SpecError(
                f"the columns of {str(paths[0])!r} cannot be inferred ({reason}); check that it is "
                f"a {form} file, or give schema="
            ) from problem
    if columns == {"json": "JSON"}:
        remedy = "write one object per line, not an array"
        raise SpecError(f"no line of {str(paths[0])!r} is a JSON object; {remedy}")
    return plain(pa.schema([pa.field(f.name, _read_type(f.type)) for f in inferred]))


def _read_type(kind: pa.DataType) -> pa.DataType:
    """Return the column type to use if DuckDB inferred the type `kind`."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_time(kind) or pa.types.is_null(kind):
        return pa.string()
    return kind
