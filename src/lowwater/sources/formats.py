"""Readers of file formats. In csv and json, an unreadable value becomes NULL, as in Spark.

A row with an unreadable time is counted as malformed and never stops a query.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.errors import SpecError
from lowwater.schema import plain, schema_of
from lowwater.windows.axis import read_times

Format = Literal["parquet", "csv", "json", "arrow"]

ENDINGS: dict[Format, tuple[str, ...]] = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".csv.gz"),
    "json": (".json", ".jsonl", ".ndjson"),
    "arrow": (".arrow",),
}
BLOCK_ROWS = 250_000
"""A Parquet file with more rows is read as several blocks, by several cores."""


def declared_schema(form: Format, schema: str | pa.Schema | None) -> pa.Schema:
    """Return `schema` in Spark's types; raise SpecError if it is None or `form` is unknown."""
    if form not in ENDINGS or form == "arrow":
        raise SpecError(f"format={form!r} is unknown; write 'parquet', 'csv' or 'json'")
    if schema is None:
        raise SpecError(f"format={form!r} needs schema=, for example 'ts timestamp, speed double'")
    return schema_of(schema)


def read_table(path: Path, form: Format, schema: pa.Schema) -> pa.Table:
    """Return the rows of the file `path` as a table of `schema`."""
    if form == "parquet":
        return read_row_groups(path, schema, None)
    if form == "arrow":
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    else:
        table = _read_csv(path, schema) if form == "csv" else _read_json(path, schema)
    return table.select(schema.names).cast(schema)


def read_row_groups(path: Path, schema: pa.Schema, groups: tuple[int, int] | None) -> pa.Table:
    """Return the rows of row groups [first, end) of a Parquet file; None means all row groups."""
    with pq.ParquetFile(path) as file:
        have = set(file.schema_arrow.names)
        present = [name for name in schema.names if name in have]
        chosen = range(*groups) if groups else range(file.num_row_groups)
        table = file.read_row_groups(chosen, columns=present)
    return _with_all(table, schema).select(schema.names).cast(schema)


def file_names(folder: Path, form: Format, after: str = "") -> list[str]:
    """Return the sorted names, greater than `after`, of the visible files of format `form`."""
    names = (path.name for path in folder.iterdir())
    endings = ENDINGS[form]
    return sorted(n for n in names if n > after and n[0] not in "._" and n.endswith(endings))


def cut_by_rows(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return the (first, end) row groups of each block; a block has about `BLOCK_ROWS` rows."""
    cuts, rows = [0], 0
    for group, size in enumerate(sizes):
        if rows and rows + size > BLOCK_ROWS:
            cuts.append(group)
            rows = 0
        rows += size
    return list(pairwise([*cuts, len(sizes)]))


def _with_all(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return `table` with every column of `schema`; added columns are NULL."""
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table


def row_count(path: Path, form: Format) -> int:
    """Return the number of rows of a file; a line of csv (after the header) or json is a row."""
    if form == "parquet":
        return int(pq.read_metadata(path).num_rows)
    with path.open("rb") as stream:
        lines = sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 20), b""))
    return max(lines - (form == "csv"), 0)


def _read_csv(path: Path, schema: pa.Schema) -> pa.Table:
    from pyarrow import csv

    options = csv.ConvertOptions(
        column_types=dict.fromkeys(schema.names, pa.string()),
        include_columns=schema.names,
        include_missing_columns=True,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    skip = csv.ParseOptions(invalid_row_handler=lambda _: "skip", newlines_in_values=True)
    try:
        text = path.read_bytes() if path.suffix != ".gz" else gzip.decompress(path.read_bytes())
        whole = text.decode("utf-8", "replace").encode()
        table = csv.read_csv(io.BytesIO(whole), convert_options=options, parse_options=skip)
    except pa.ArrowInvalid as problem:
        if "Empty CSV" not in str(problem):
            raise
        return schema.empty_table()
    columns = [lenient(table.column(f.name).combine_chunks(), f.type) for f in schema]
    return pa.table(columns, schema=schema)


def _read_json(path: Path, schema: pa.Schema) -> pa.Table:
    from pyarrow import json as pajson

    options = pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        return pajson.read_json(path, parse_options=options)
    except pa.ArrowInvalid:
        return _read_json_lines(path, schema)


def _read_json_lines(path: Path, schema: pa.Schema) -> pa.Table:
    """Return the rows of a file, read line by line; a value that does not fit becomes NULL."""
    rows = [_object(line) for line in path.read_text("utf-8", "replace").splitlines() if line]
    columns = [_column([row.get(f.name) for row in rows], f.type) for f in schema]
    return pa.table(columns, schema=schema)


def _object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _column(values: list[Any], t: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, t)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        text = [None if v is None else v if isinstance(v, str) else json.dumps(v) for v in values]
        return lenient(pa.array(text, pa.string()), t)


def lenient(text: pa.Array, t: pa.DataType) -> pa.Array:
    """Return `text` cast to type `t`; an unreadable value becomes NULL.

    >>> lenient(pa.array(["1", "x", None]), pa.int64()).to_pylist()
    [1, None, None]
    """
    if pa.types.is_timestamp(t):
        ticks, valid = read_times(text)
        return pa.array(ticks, mask=~valid).cast(pa.timestamp("us", t.tz)).cast(t)
    try:
        return text.cast(t)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([_one(value, t) for value in text], t)


def _one(value: pa.Scalar, t: pa.DataType) -> Any:
    """Return `value` cast to type `t`; None if it is unreadable."""
    try:
        return value.cast(t).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


_NO_EXTENSIONS: Mapping[str, bool] = {
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "allow_community_extensions": False,
}
"""Settings of DuckDB: it reads local files only, and downloads nothing."""
_READERS = {"csv": "delim=',', header=true", "json": "format='newline_delimited'"}
"""DuckDB's options for reading each format."""


def infer_schema(paths: Sequence[Path], form: str) -> pa.Schema:
    """Return the schema of csv or json files, inferred from every row; times are in UTC.

    A sample of rows is not enough: a column of whole numbers may have a fraction in its last row,
    and a value that does not fit the type of its column would be read as NULL.
    """
    import duckdb

    with duckdb.connect(config=dict(_NO_EXTENSIONS)) as connection:
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
