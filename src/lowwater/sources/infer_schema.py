"""Infers the schema of csv and json files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import Any

import pyarrow as pa

from lowwater.errors import SpecError
from lowwater.schema import plain
from lowwater.sources.bad_file import BadFileError
from lowwater.sources.csv_reader import read_csv
from lowwater.sources.json_reader import read_json
from lowwater.sources.lines import REASON, content

_NO_EXTENSIONS: Mapping[str, bool] = {
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_community_extensions": False,
}
"""Settings of DuckDB: it reads local files only, and downloads nothing."""
_READERS = {"csv": "delim=',', header=true", "json": "format='newline_delimited'"}
"""DuckDB's options for reading each format."""
_SAMPLE_BYTES = 1 << 16


def infer_schema(paths: Sequence[Path], form: str) -> pa.Schema:
    """Return the schema of csv or json files, inferred from every row; times are in UTC.

    A sample of rows is not enough: a column of whole numbers may have a fraction in its last row,
    and a row with a value that does not fit the type of its column is malformed.
    """
    import duckdb

    paths = [path for path in paths if not _is_damaged(path)] or paths
    with duckdb.connect(config=dict(_NO_EXTENSIONS)) as connection:
        try:
            every = f"{_READERS[form]}, sample_size=-1, ignore_errors=true"
            query = f"FROM read_{form}(?, {every}) LIMIT 0"
            read: Any = connection.sql(query, params=[[escape(str(p)) for p in paths]])
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
    schema = plain(pa.schema([pa.field(f.name, _read_type(f.type)) for f in inferred]))
    return _as_read(paths[0], form, schema)


def _is_damaged(path: Path) -> bool:
    """Return whether a compressed file cannot be read: its rows cannot count."""
    if path.suffix.lower() != ".gz":
        return False
    try:
        content(path)
    except BadFileError:
        return True
    return False


def _read_type(kind: pa.DataType, *, inner: bool = False) -> pa.DataType:
    """Return the column type to use if DuckDB inferred the type `kind`, `inner` in another type."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_time(kind) or pa.types.is_null(kind) or pa.types.is_map(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_read_type(kind.value_type, inner=True))
    if pa.types.is_struct(kind):
        fields = (kind.field(i) for i in range(kind.num_fields))
        return pa.struct([f.with_type(_read_type(f.type, inner=True)) for f in fields])
    return pa.string() if inner and pa.types.is_date(kind) else kind


def _as_read(path: Path, form: str, schema: pa.Schema) -> pa.Schema:
    """Return `schema` with text for the columns whose first values Lowwater reads differently.

    DuckDB reads more forms of dates and numbers, such as 31/12/2024.
    """
    try:
        lines = content(path)[:_SAMPLE_BYTES].rpartition(b"\n")[0]
        for _ in schema:
            table = (
                read_csv(str(path), lines, schema) if form == "csv" else read_json(lines, schema)
            )
            reasons = [] if REASON not in table.column_names else table[REASON].to_pylist()
            wrong = {
                n
                for n in schema.names
                if any((r or "").startswith(f"column {n}: ") for r in reasons)
            }
            if not wrong:
                break
            schema = pa.schema([f.with_type(pa.string()) if f.name in wrong else f for f in schema])
    except BadFileError:
        return schema
    return schema
