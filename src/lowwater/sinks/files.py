"""Sinks that write one file per epoch: Parquet, CSV, or JSON lines.

The name of a file contains its epoch, so writing an epoch again replaces its file.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from lowwater.sinks.sink import Sink
from lowwater.storage import AtomicFolder

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None


@dataclass(frozen=True)
class FileSink(Sink):
    """A sink that writes each epoch to its own file; `encode` returns the content of a file."""

    path: str
    ending: str
    encode: Callable[[pa.Table], bytes]

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        AtomicFolder(self.path).write(f"epoch-{epoch:010d}.{self.ending}", self.encode(rows))


def to_csv(path: str | Path) -> FileSink:
    """Return a sink that writes each epoch to its own CSV file in folder `path`, idempotently.

    The fields of a struct become columns: `window_start`, `window_end`.
    """
    return FileSink(str(path), "csv", csv_lines)


def to_json(path: str | Path) -> FileSink:
    """Return a sink that writes each epoch to its own file of JSON lines, idempotently."""
    return FileSink(str(path), "jsonl", json_lines)


def to_parquet(path: str | Path) -> FileSink:
    """Return a sink that writes each epoch to its own Parquet file, idempotently."""
    return FileSink(str(path), "parquet", parquet_bytes)


def parquet_bytes(rows: pa.Table) -> bytes:
    """Return `rows` as the content of a Parquet file."""
    out = io.BytesIO()
    pq.write_table(rows, out)
    return out.getvalue()


def csv_lines(rows: pa.Table, *, header: bool = True) -> bytes:
    """Return `rows` as CSV; fields of structs become columns, lists become JSON text.

    >>> csv_lines(pa.table({"window": [{"start": 0, "end": 10}], "n": [3]})).decode().split()
    ['"window_start","window_end","n"', '0,10,3']
    """
    out = io.BytesIO()
    columns: dict[str, pa.ChunkedArray] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        _spread(name, column, columns)
    csv.write_csv(pa.table(columns), out, csv.WriteOptions(include_header=header))
    return out.getvalue()


def _spread(name: str, column: pa.ChunkedArray, columns: dict[str, pa.ChunkedArray]) -> None:
    """Add `column` to `columns`; structs become a column per field, lists become JSON text."""
    kind = column.type
    if pa.types.is_struct(kind):
        for field in kind:
            _spread(f"{name}_{field.name}", pc.struct_field(column, [field.name]), columns)
        return
    # Times become ISO text, because not all readers accept the form of Arrow's CSV writer.
    to_text = as_json if pa.types.is_nested(kind) else _plain
    if pa.types.is_nested(kind) or pa.types.is_timestamp(kind):
        text = [None if v is None else to_text(v) for v in column.to_pylist()]
        column = pa.chunked_array([pa.array(text, pa.string())])
    columns[name] = column


def json_lines(rows: pa.Table) -> bytes:
    """Return `rows` as JSON lines, one object per line.

    >>> json_lines(pa.table({"window": [{"start": 0, "end": 10}], "n": [3]})).decode().strip()
    '{"window": {"start": 0, "end": 10}, "n": 3}'
    """
    return "".join(f"{as_json(row)}\n" for row in rows.to_pylist()).encode()


def as_json(value: Any) -> str:
    """Return `value`, of any type in a row, as JSON text; NaN and infinity become null."""
    return json.dumps(jsonable(value), ensure_ascii=False, allow_nan=False)


def jsonable(value: Any) -> JsonValue:
    """Return `value` in the types of JSON; NaN and infinity become None."""
    if isinstance(value, dict):
        return {str(name): jsonable(v) for name, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [jsonable(v) for v in value]
    if isinstance(value, float):
        return value if value - value == 0 else None
    return _plain(value)


def _plain(value: Any) -> JsonValue:
    if isinstance(value, datetime | date):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    plain: JsonValue = str(value) if isinstance(value, Decimal | timedelta) else value
    return plain
