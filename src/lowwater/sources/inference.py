"""The columns of a text file, found by looking at all of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lowwater.errors import SpecError
from lowwater.schemas import plain

_READERS = {
    "csv": "read_csv(?, delim=',', header=true, {every})",
    "json": "read_json(?, format='newline_delimited', {every})",
}


def infer_schema(paths: Sequence[Path], form: str) -> pa.Schema:
    """Return the columns of csv or json files; times are UTC where they do not say otherwise.

    Every row is looked at: a column that looks whole at first may not be so at the end, and a
    value that does not fit its column would be read as NULL.
    """
    import duckdb

    with duckdb.connect() as connection:
        try:
            read: Any = connection.sql(_query(form), params=[[str(p) for p in paths]])
            whole_lines = [str(kind) for kind in read.types] == ["JSON"] and read.columns == [
                "json"
            ]
            found = read.to_arrow_table().schema
        except duckdb.Error as problem:
            said = str(problem).splitlines()[0]
            raise SpecError(
                f"the columns of {str(paths[0])!r} cannot be told ({said}); is it {form}?"
            ) from problem
    if whole_lines:
        raise SpecError(
            f"no line of {str(paths[0])!r} is a JSON object; there must be one a line, not an "
            f"array of them"
        )
    return plain(pa.schema([pa.field(f.name, _kept(f.type)) for f in found]))


def _query(form: str) -> str:
    return f"FROM {_READERS[form].format(every='sample_size=-1, ignore_errors=true')} LIMIT 0"


def _kept(kind: pa.DataType) -> pa.DataType:
    """Return the type that a column is read as."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_time(kind) or pa.types.is_null(kind):
        return pa.string()
    return kind
