"""Text files, one per epoch, named by it: CSV for tables, JSON lines for everything else."""

from __future__ import annotations

import base64
import io
import json as stdlib_json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from lowwater.control import Folder
from lowwater.sinks.sink import Sink


@dataclass(frozen=True)
class Csv(Sink):
    """A folder of CSV files, each with a header."""

    path: str

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        Folder(self.path).write(f"epoch-{epoch:010d}.csv", csv_lines(rows))


@dataclass(frozen=True)
class Json(Sink):
    """A folder of files with one JSON object a line."""

    path: str

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        Folder(self.path).write(f"epoch-{epoch:010d}.jsonl", json_lines(rows))


def csv(path: str | Path) -> Csv:
    """Write each epoch's rows to a CSV file in folder `path`, idempotently.

    The fields of a struct are columns of their own: `window_start`, `window_end`.
    """
    return Csv(str(path))


def json(path: str | Path) -> Json:
    """Write each epoch's rows as JSON lines to a file in folder `path`, idempotently."""
    return Json(str(path))


def csv_lines(rows: pa.Table, *, header: bool = True) -> bytes:
    """Return rows as CSV.

    >>> csv_lines(pa.table({"window": [{"start": 0, "end": 10}], "n": [3]})).decode().split()
    ['"window_start","window_end","n"', '0,10,3']
    """
    table = flat(rows)
    out = io.BytesIO()
    arrow_csv.write_csv(table, out, arrow_csv.WriteOptions(include_header=header))
    return out.getvalue()


def flat(rows: pa.Table) -> pa.Table:
    """Return rows without structs and lists: fields as columns, lists as JSON."""
    columns: dict[str, pa.ChunkedArray] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        _spread(name, column, columns)
    return pa.table(columns)


def _spread(name: str, column: pa.ChunkedArray, columns: dict[str, pa.ChunkedArray]) -> None:
    kind = column.type
    if pa.types.is_struct(kind):
        for field in kind:
            _spread(f"{name}_{field.name}", pc.struct_field(column, [field.name]), columns)
        return
    if pa.types.is_nested(kind):
        text = [None if v is None else as_json(v) for v in column.to_pylist()]
        column = pa.chunked_array([pa.array(text, pa.string())])
    elif pa.types.is_timestamp(kind):
        column = _iso(column)
    columns[name] = column


def _iso(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as text: Arrow's own CSV writer has no form that every reader knows."""
    text = [None if v is None else _plain(v) for v in column.to_pylist()]
    return pa.chunked_array([pa.array(text, pa.string())])


def json_lines(rows: pa.Table) -> bytes:
    """Return rows as JSON, one object a line.

    >>> json_lines(pa.table({"window": [{"start": 0, "end": 10}], "n": [3]})).decode().strip()
    '{"window": {"start": 0, "end": 10}, "n": 3}'
    """
    return "".join(f"{as_json(row)}\n" for row in rows.to_pylist()).encode()


def as_json(value: Any) -> str:
    """Return any value of a row as JSON; what JSON has no number for is NULL."""
    return stdlib_json.dumps(jsonable(value), ensure_ascii=False, allow_nan=False)


def jsonable(value: Any) -> Any:
    """Return a value in the types of JSON."""
    if isinstance(value, dict):
        return {str(name): jsonable(v) for name, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [jsonable(v) for v in value]
    if isinstance(value, float):
        return value if value - value == 0 else None
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, Decimal | timedelta) else value
