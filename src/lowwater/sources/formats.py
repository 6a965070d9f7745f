"""Files as tables. Text formats are read leniently: what cannot be read becomes NULL, as in Spark.

A garbage time so becomes a malformed row, which is counted and shown; it never stops a query.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.windows import read_times

Format = Literal["parquet", "csv", "json", "arrow"]

ENDINGS: dict[Format, tuple[str, ...]] = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".csv.gz"),
    "json": (".json", ".jsonl", ".ndjson"),
    "arrow": (".arrow",),
}


BLOCK_ROWS = 250_000
"""A Parquet file with more rows is cut into several blocks, so that several cores may read it."""


def read_table(path: Path, form: Format, schema: pa.Schema) -> pa.Table:
    """Read a file as a table of a schema."""
    if form == "parquet":
        return read_row_groups(path, schema, None)
    if form == "arrow":
        table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    else:
        table = _read_csv(path, schema) if form == "csv" else _read_json(path, schema)
    return table.select(schema.names).cast(schema)


def read_row_groups(path: Path, schema: pa.Schema, groups: tuple[int, int] | None) -> pa.Table:
    """Read a stretch of a Parquet file's row groups, or all of it."""
    with pq.ParquetFile(path) as file:
        have = set(file.schema_arrow.names)
        present = [name for name in schema.names if name in have]
        chosen = range(*groups) if groups else range(file.num_row_groups)
        table = file.read_row_groups(chosen, columns=present)
    return _with_all(table, schema).select(schema.names).cast(schema)


def cut_by_rows(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Cut the row groups of a Parquet file into stretches [first, end), each of a block's rows."""
    cuts, rows = [0], 0
    for group, size in enumerate(sizes):
        if rows and rows + size > BLOCK_ROWS:
            cuts.append(group)
            rows = 0
        rows += size
    return list(pairwise([*cuts, len(sizes)]))


def _with_all(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with every column of a schema; those it lacks are NULL."""
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table


def row_count(path: Path, form: Format) -> int:
    """Return how many rows a file holds: for text its lines, without the header of csv."""
    if form == "parquet":
        return int(pq.read_metadata(path).num_rows)
    with path.open("rb") as stream:
        lines = sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 20), b""))
    return max(lines - (form == "csv"), 0)


def _read_csv(path: Path, schema: pa.Schema) -> pa.Table:
    from pyarrow import csv

    as_text = {name: pa.string() for name in schema.names}
    options = csv.ConvertOptions(
        column_types=as_text,
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
    """Read line by line, for a file in which some line does not fit the schema."""
    rows = [_object(line) for line in path.read_text("utf-8", "replace").splitlines() if line]
    columns = [_column([row.get(f.name) for row in rows], f.type) for f in schema]
    return pa.table(columns, schema=schema)


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _column(values: list[Any], t: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, t)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        text = [None if v is None else v if isinstance(v, str) else json.dumps(v) for v in values]
        return lenient(pa.array(text, pa.string()), t)


def lenient(text: pa.Array, t: pa.DataType) -> pa.Array:
    """Cast text to a type; what cannot be read becomes NULL.

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
    try:
        return value.cast(t).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
