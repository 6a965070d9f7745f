"""Readers of file formats. Each row of a file is read, or malformed with a reason.

A row is malformed if its line cannot be split into fields, or if a value does not fit the type of
its column. Malformed rows are counted and never stop a query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.errors import SpecError
from lowwater.schema import schema_of
from lowwater.sources.bad_file import BadFileError, reading
from lowwater.sources.csv_reader import CsvFile, read_csv
from lowwater.sources.json_reader import read_json
from lowwater.sources.lines import Lines, content, texts_of, with_faults
from lowwater.sources.text_values import fit_table, type_name

Format = Literal["parquet", "csv", "json", "arrow"]

ENDINGS: dict[Format, tuple[str, ...]] = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".csv.gz"),
    "json": (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz"),
    "arrow": (".arrow",),
}
BLOCK_ROWS = 250_000
"""A Parquet file with more rows is read as several blocks, by several cores."""
_CHUNK = 1 << 20


def declared_schema(
    form: Format, schema: str | pa.Schema | None, *, multiline: bool = False
) -> pa.Schema:
    """Return `schema` in Spark's types; raise SpecError if the format cannot hold its types."""
    if form not in ENDINGS or form == "arrow":
        raise SpecError(f"format={form!r} is unknown; write 'parquet', 'csv' or 'json'")
    if multiline and form != "csv":
        raise SpecError(
            f"multiline=True is for quoted line ends in csv, but format={form!r}; leave it out"
        )
    if schema is None:
        raise SpecError(f"format={form!r} needs schema=, for example 'ts timestamp, speed double'")
    declared = schema_of(schema)
    for field in declared if form != "parquet" else ():
        if not _holds(form, field.type):
            raise SpecError(
                f"column {field.name!r} has type {type_name(field.type)}, which {form} files "
                f"cannot hold here; read it as string, and convert it with with_columns"
            )
    return declared


def _holds(form: Format, t: pa.DataType) -> bool:
    """Return whether the reader of a text format returns values of type `t`."""
    if pa.types.is_map(t) or (form == "csv" and pa.types.is_nested(t)):
        return False
    inner = [t.field(i).type for i in range(t.num_fields)]
    return all(not pa.types.is_date(i) and _holds(form, i) for i in inner)


def read_rows(path: Path, form: Format, schema: pa.Schema, *, multiline: bool = False) -> pa.Table:
    """Return the rows of a file as a table of `schema`, with hidden columns of malformed rows.

    Raise BadFileError if the file cannot be read.
    """
    with reading(str(path)):
        if form == "parquet":
            return read_row_groups(path, schema, None)
        if form == "arrow":
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            return table.select(schema.names).cast(schema)
        data = content(path)
        if form == "csv":
            return read_csv(str(path), data, schema, multiline=multiline)
        return read_json(data, schema)


def row_texts(path: Path, form: Format, rows: Iterable[int], *, multiline: bool) -> pa.Array:
    """Return the texts of the rows with the numbers `rows` in a csv or json file."""
    data = content(path)
    if form == "json":
        return texts_of(Lines.of(data, blank=True), rows)
    file = CsvFile.of(str(path), data, multiline=multiline)
    return pa.array([], pa.string()) if file is None else texts_of(file.records(), rows)


def read_row_groups(path: Path, schema: pa.Schema, groups: tuple[int, int] | None) -> pa.Table:
    """Return the rows of row groups [first, end) of a Parquet file; None means all row groups."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        have = set(file.schema_arrow.names)
        present = [name for name in schema.names if name in have]
        chosen = range(*groups) if groups else range(file.num_row_groups)
        table = file.read_row_groups(chosen, columns=present)
    table = _with_all(table, schema).select(schema.names)
    try:
        return table.cast(schema)
    except pa.ArrowInvalid:
        fitted, reasons = fit_table(table, schema, null=None)
        return with_faults(fitted, {row: (None, reason) for row, reason in reasons.items()})


def file_names(folder: Path, form: Format, after: str = "") -> list[str]:
    """Return the sorted names, greater than `after`, of the visible files of format `form`."""
    names = (path.name for path in folder.iterdir())
    return sorted(n for n in names if n > after and is_source_file(n, form))


def is_source_file(name: str, form: Format) -> bool:
    """Return whether a file with this name is visible and of format `form`."""
    return name[0] not in "._" and name.lower().endswith(ENDINGS[form])


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
    """Return the number of rows of a file, a line of csv (after the header) or json is a row.

    The number is 0 for a file that cannot be read. Empty lines count.
    """
    try:
        with reading(str(path)):
            if form == "parquet":
                return int(pq.read_metadata(path).num_rows)
            if path.suffix.lower() == ".gz":
                data = content(path)
                lines, last = _ends(data), data[-1:]
            else:
                lines, last = 0, b""
                with path.open("rb") as stream:
                    while chunk := stream.read(_CHUNK):
                        lines, last = lines + _ends(chunk), chunk[-1:]
    except BadFileError:
        return 0
    return max(lines + (last not in (b"\n", b"\r", b"")) - (form == "csv"), 0)


def _ends(chunk: bytes) -> int:
    """Return the number of line ends in `chunk`."""
    return chunk.count(b"\n") or chunk.count(b"\r")
