"""Sinks that write one file per epoch: Parquet, CSV, or JSON lines.

The name of a file contains its epoch and the epoch's tag, so writing an epoch again replaces its
file, and files of another history are recognised. The hidden file `.lowwater` names the owner.
"""

from __future__ import annotations

import base64
import io
import json
import re
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

from lowwater.errors import SinkError
from lowwater.sinks.sink import Existing, History, Sink, checked_existing
from lowwater.storage.folder import AtomicFolder

JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None


OWNER = ".lowwater"
"""The hidden file in the folder of a sink that names the query and the checkpoint of its rows."""
_NAME = re.compile(r"epoch-(\d+)-(\w+)\.\w+")


@dataclass(frozen=True)
class FileSink(Sink):
    """A sink that writes each epoch to its own file; `encode` returns the content of a file."""

    path: str
    ending: str
    encode: Callable[[pa.Table], bytes]
    existing: Existing | None = None

    @property
    def places(self) -> tuple[str, ...]:  # noqa: D102
        local = self.path.removeprefix("file://")
        return (local.rstrip("/") if "://" in local else str(Path(local).resolve()),)

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        self.write_epoch(epoch, rows, "0")

    def write_epoch(self, epoch: int, rows: pa.Table, tag: str) -> None:  # noqa: D102
        name = f"epoch-{epoch:010d}-{tag}.{self.ending}"
        AtomicFolder(self.path).write(name, self.encode(rows))

    def take_over(self, history: History) -> None:  # noqa: D102
        folder, known, epochs = AtomicFolder(self.path), self._owner(), self._epochs()
        mine = known.get("query") == history.query
        folder.remove_partial()
        if epochs and not mine and self.existing is None:
            by = known.get("checkpoint") or "a run without a checkpoint"
            raise SinkError(
                f"{self.path!r} holds {len(epochs)} files of another query ({by}); name an empty "
                f"folder, continue with that checkpoint, or give existing='append' or "
                f"existing='overwrite'"
            )
        if epochs and not mine and self.existing == "overwrite":
            self._delete(sorted(epochs), history)
        if not mine:
            others = sorted(epochs) if self.existing == "append" else []
            owner = {"query": history.query, "checkpoint": history.checkpoint, "others": others}
            folder.write(OWNER, json.dumps(owner).encode())

    def ahead(self, history: History) -> int | None:  # noqa: D102
        return max((epoch for epoch, _ in self._ahead(history).values()), default=None)

    def truncate(self, history: History) -> None:  # noqa: D102
        # The newest first: after a crash, the next start finds the others still ahead.
        self._delete(sorted(self._ahead(history), reverse=True), history)

    def _delete(self, names: Sequence[str], history: History) -> None:
        """Delete files that were listed, unless another run, which may have written them, owns."""
        if not history.owned():
            raise SinkError(f"{self.path!r} belongs to a newer run of the query, so this run ends")
        for name in names:
            AtomicFolder(self.path).delete(name)

    def _ahead(self, history: History) -> dict[str, tuple[int, str]]:
        """Return {name: (epoch, tag)} of files that the query wrote in another history."""
        others = set(self._owner().get("others", ()))
        epochs = self._epochs().items()
        return {n: at for n, at in epochs if n not in others and not history.holds(*at)}

    def _owner(self) -> dict[str, Any]:
        """Return the content of `OWNER`: query, checkpoint, and files that are of other queries."""
        folder = AtomicFolder(self.path)
        written = folder.read(OWNER)
        try:
            return {} if written is None else dict(json.loads(written))
        except (ValueError, TypeError) as problem:
            raise SinkError(
                f"{folder.path(OWNER)} is damaged ({problem}); delete it to make the folder yours"
            ) from problem

    def _epochs(self) -> dict[str, tuple[int, str]]:
        """Return {name: (epoch, tag)} of the files in the folder that this kind of sink wrote."""
        found = map(_NAME.fullmatch, AtomicFolder(self.path).names())
        return {match[0]: (int(match[1]), match[2]) for match in found if match}


def to_csv(path: str | Path, *, existing: Existing | None = None) -> FileSink:
    """Return a sink that writes each epoch to its own CSV file in folder `path`, idempotently.

    The fields of a struct become columns: `window_start`, `window_end`. If the folder holds files
    of another query, the run is refused, unless `existing` is "append" or "overwrite".
    """
    return FileSink(str(path), "csv", csv_lines, checked_existing(existing))


def to_json(path: str | Path, *, existing: Existing | None = None) -> FileSink:
    """Return a sink that writes each epoch to its own file of JSON lines, idempotently.

    `existing` is as for `to_csv`.
    """
    return FileSink(str(path), "jsonl", json_lines, checked_existing(existing))


def to_parquet(path: str | Path, *, existing: Existing | None = None) -> FileSink:
    """Return a sink that writes each epoch to its own Parquet file, idempotently.

    `existing` is as for `to_csv`.
    """
    return FileSink(str(path), "parquet", parquet_bytes, checked_existing(existing))


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
