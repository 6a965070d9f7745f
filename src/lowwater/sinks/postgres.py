"""A sink for a PostgreSQL table with one row per window and group; finals replace early rows.

Rows of an epoch are staged and merged in one transaction, so writing an epoch again changes
nothing, and readers see all rows of an epoch or none.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from lowwater.errors import SinkError, SpecError
from lowwater.sinks.sink import Sink

OLDEST = 150_000
"""The oldest supported version of PostgreSQL, the first with UNIQUE NULLS NOT DISTINCT."""
EPOCH, PLACE = "epoch", "place"
"""The key columns of rows without a window: the epoch, and the index of the row in the epoch."""
_TYPES = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "bigint"),
    (pa.types.is_floating, "double precision"),
    (pa.types.is_decimal, "numeric"),
    (pa.types.is_date, "date"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
)


class Postgres(Sink):
    """A sink that upserts rows by `key`; without a key, it replaces the rows of the same epoch."""

    def __init__(self, dsn: str, table: str) -> None:
        self.dsn, self.table = dsn, table
        self.key: tuple[str, ...] = ()
        try:
            import psycopg
        except ImportError:
            raise SpecError(
                "lw.to_postgres needs the package psycopg; install it with: "
                "pip install 'lowwater[postgres]'"
            ) from None
        self._driver: Any = psycopg

    def __repr__(self) -> str:
        """Return the call of `to_postgres` without the address, which may contain a password."""
        return f"to_postgres(table={self.table!r})"

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        """Create the table unless it exists; raise SpecError if the table lacks a column."""
        self.key = tuple(key)
        columns = {f.name: _type(f.type) for f in _flat(schema.empty_table()).schema}
        if not key:
            columns |= {EPOCH: "bigint", PLACE: "bigint"}
        declared = ", ".join(f"{_quoted(n)} {t}" for n, t in columns.items())
        by = _listed(self.key or (EPOCH, PLACE))
        with self._transaction() as cursor:
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {self._name} "
                f"({declared}, UNIQUE NULLS NOT DISTINCT ({by}))"
            )
            cursor.execute(f"SELECT * FROM {self._name} LIMIT 0")  # noqa: S608
            existing = {c.name for c in cursor.description}
        missing = [name for name in columns if name not in existing]
        if missing:
            raise SpecError(
                f"to_postgres(table={self.table!r}): the table exists and has no column "
                f"{missing[0]!r}; add the column, or name a new table"
            )

    def write(self, epoch: int, rows: pa.Table) -> None:
        """Merge the rows of an epoch into the table."""
        flat = _flat(rows)
        names = flat.column_names
        if not self.key:
            flat = flat.append_column(EPOCH, pa.repeat(pa.scalar(epoch), len(flat)))
            names = [*names, EPOCH, PLACE]
        flat = flat.append_column(PLACE, pa.array(np.arange(len(flat))))
        with self._transaction() as cursor:
            place = "" if not self.key else f", 0::bigint AS {PLACE}"
            alike = f"SELECT {_listed(names)}{place} FROM {self._name}"  # noqa: S608
            cursor.execute(f"CREATE TEMP TABLE staged ON COMMIT DROP AS {alike} WITH NO DATA")
            with cursor.copy(f"COPY staged ({_listed(flat.column_names)}) FROM STDIN CSV") as copy:
                copy.write(_csv(flat))
            if not self.key:
                cursor.execute(f"DELETE FROM {self._name} WHERE {EPOCH} = %s", [epoch])  # noqa: S608
            cursor.execute(self._merge_statement(names))

    def _merge_statement(self, names: Sequence[str]) -> str:
        """Return the statement that merges the staged rows into the table."""
        own = _listed(names)
        into = f"INSERT INTO {self._name} ({own})"
        if not self.key:
            return f"{into} SELECT {own} FROM staged"  # noqa: S608
        # Of several rows of a window in one epoch, the last is stored that is not early, if any.
        best = f"{PLACE} DESC" if "kind" not in names else f"kind = 'early', {PLACE} DESC"
        by, rest = _listed(self.key), [n for n in names if n not in self.key]
        news = ", ".join(f"{_quoted(n)} = EXCLUDED.{_quoted(n)}" for n in rest)
        return (
            f"{into} SELECT DISTINCT ON ({by}) {own} FROM staged ORDER BY {by}, {best} "  # noqa: S608
            f"ON CONFLICT ({by}) DO {f'UPDATE SET {news}' if rest else 'NOTHING'}"
        )

    @property
    def _name(self) -> str:
        return ".".join(map(_quoted, self.table.split(".")))

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Yield a cursor inside one transaction.

        Each epoch opens its own connection, so that a server may restart between epochs.
        """
        try:
            with self._driver.connect(self.dsn, connect_timeout=10) as connection:
                version = connection.info.server_version
                if version < OLDEST:
                    raise SinkError(
                        f"to_postgres() needs PostgreSQL 15 or later, but the server has version "
                        f"{version // 10_000}; name another server"
                    )
                with connection.cursor() as cursor:
                    yield cursor
        except self._driver.Error as error:
            reason = " ".join(str(error).split())
            raise SinkError(f"to_postgres(table={self.table!r}): {reason}") from error


def to_postgres(dsn: str, *, table: str) -> Postgres:
    """Return a sink that upserts results into a PostgreSQL table by window and group.

    A final replaces the early row of its window, a revised result replaces the final. Fields of
    structs become columns, such as `window_start` and `window_end`. Rows without a window, and rows
    of queries that do not select `wid` and the group, are keyed by epoch and row number. The table
    is created if it does not exist. `dsn` is an address of libpq, for example
    "postgresql://me@host/db"; libpq looks up a missing password.
    """
    return Postgres(dsn, table)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_quoted, names))


def _type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    return next((name for fits, name in _TYPES if fits(kind)), "jsonb")


def _flat(rows: pa.Table) -> pa.Table:
    """Return `rows` with the fields of structs as columns, one level deep."""
    for at in reversed(range(rows.num_columns)):
        name, column = rows.column_names[at], rows.column(at)
        if not pa.types.is_struct(column.type):
            continue
        rows = rows.remove_column(at)
        parts = column.combine_chunks().flatten() if len(column) else None
        for i, inner in reversed(list(enumerate(column.type))):
            values = pa.array([], inner.type) if parts is None else parts[i]
            rows = rows.add_column(at, f"{name}_{inner.name}", values)
    return rows


def _csv(rows: pa.Table) -> bytes:
    """Return `rows` as CSV for COPY: text is quoted, and an empty unquoted field is NULL."""
    for at, column in enumerate(rows.columns):
        if _type(column.type) == "jsonb":
            values = column.to_pylist()
            texts = [None if v is None else json.dumps(_finite(v), default=str) for v in values]
            rows = rows.set_column(at, rows.column_names[at], pa.array(texts, pa.string()))
    out = io.BytesIO()
    pcsv.write_csv(rows, out, pcsv.WriteOptions(include_header=False))
    return out.getvalue()


def _finite(value: Any) -> Any:
    """Return `value` with NaN and infinity as text, because JSON lacks these numbers."""
    if isinstance(value, dict):
        return {name: _finite(v) for name, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
