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
from lowwater.sinks.postgres_address import Address
from lowwater.sinks.postgres_columns import LONGEST_NAME, TableColumns
from lowwater.sinks.sink import Sink

OLDEST = 150_000
"""The oldest supported version of PostgreSQL, the first with UNIQUE NULLS NOT DISTINCT."""
_STAGED = "lowwater_staged"
"""The temporary table that receives the rows of an epoch before they are merged."""
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
        try:
            import psycopg
        except ImportError:
            raise SpecError(
                "lw.to_postgres needs the package psycopg; install it with: "
                "pip install 'lowwater[postgres]'"
            ) from None
        self._driver: Any = psycopg
        self._address, self.table = Address(dsn, psycopg), table
        name: Any = table
        if not isinstance(name, str) or "\0" in table or not all(table.split(".")):
            raise SpecError(
                f"to_postgres(table={table!r}) is not a name; write a table, or schema.table"
            )
        if any(len(part.encode()) > LONGEST_NAME for part in table.split(".")):
            raise SpecError(
                f"to_postgres(table={table!r}) has more than {LONGEST_NAME} bytes, after which "
                f"PostgreSQL cuts a name; write a shorter name"
            )
        self.key: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the call of `to_postgres` without the address, which may contain a password."""
        return f"to_postgres(table={self.table!r})"

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        """Create the table unless it exists; raise SpecError if the table lacks a column."""
        self.key = tuple(key)
        columns = TableColumns.of(schema, self.key)
        declared = {field.name: _type(field.type) for field in columns.fields}
        if not key:
            declared |= {columns.epoch: "bigint", columns.place: "bigint"}
        by = _listed(columns.key or (columns.epoch, columns.place))
        with self._transaction() as cursor:
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {self._name} "
                f"({', '.join(f'{_quoted(n)} {t}' for n, t in declared.items())}, "
                f"UNIQUE NULLS NOT DISTINCT ({by}))"
            )
            cursor.execute(f"SELECT * FROM {self._name} LIMIT 0")  # noqa: S608
            existing = {c.name for c in cursor.description}
        missing = [name for name in declared if name not in existing]
        if missing:
            raise SpecError(
                f"to_postgres(table={self.table!r}): the table exists and has no column "
                f"{missing[0]!r}; add the column, or name a new table"
            )

    def write(self, epoch: int, rows: pa.Table) -> None:
        """Merge the rows of an epoch into the table."""
        columns = TableColumns.of(rows.schema, self.key)
        flat, names = columns.of_rows(rows), columns.names
        if not self.key:
            flat = flat.append_column(columns.epoch, pa.repeat(pa.scalar(epoch), len(flat)))
            names = [*names, columns.epoch, columns.place]
        flat = flat.append_column(columns.place, pa.array(np.arange(len(flat))))
        with self._transaction() as cursor:
            place = "" if not self.key else f", 0::bigint AS {_quoted(columns.place)}"
            alike = f"SELECT {_listed(names)}{place} FROM {self._name}"  # noqa: S608
            staged = f"CREATE TEMP TABLE {self._staged} ON COMMIT DROP AS {alike} WITH NO DATA"
            cursor.execute(staged)
            into = f"{self._staged} ({_listed(flat.column_names)})"
            with cursor.copy(f"COPY {into} FROM STDIN CSV") as copy:
                copy.write(_csv(flat))
            if not self.key:
                same = f"{_quoted(columns.epoch)} = {int(epoch)}"
                cursor.execute(f"DELETE FROM {self._name} WHERE {same}")  # noqa: S608
            cursor.execute(self._merge_statement(columns, names))

    def _merge_statement(self, columns: TableColumns, names: Sequence[str]) -> str:
        """Return the statement that merges the staged rows into the table."""
        own = _listed(names)
        into = f"INSERT INTO {self._name} ({own})"
        if not self.key:
            return f"{into} SELECT {own} FROM {self._staged}"  # noqa: S608
        # Of several rows of a window in one epoch, the last is stored that is not early, if any.
        best = f"{_quoted(columns.place)} DESC"
        if columns.labelled:
            best = f"kind = 'early', {best}"
        by, rest = _listed(columns.key), [n for n in names if n not in columns.key]
        news = ", ".join(f"{_quoted(n)} = EXCLUDED.{_quoted(n)}" for n in rest)
        return (
            f"{into} SELECT DISTINCT ON ({by}) {own} FROM {self._staged} "  # noqa: S608
            f"ORDER BY {by}, {best} "
            f"ON CONFLICT ({by}) DO {f'UPDATE SET {news}' if rest else 'NOTHING'}"
        )

    @property
    def _name(self) -> str:
        return ".".join(map(_quoted, self.table.split(".")))

    @property
    def _staged(self) -> str:
        """The temporary table; it must not hide the user's table, which may have any name."""
        own = self.table.split(".")[-1]
        return f"pg_temp.{_STAGED}{'_2' if own == _STAGED else ''}"

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Yield a cursor inside one transaction.

        Each epoch opens its own connection, so that a server may restart between epochs.
        """
        try:
            with self._address.connect(self._driver, connect_timeout=10) as connection:
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
            shown = self._address.without_secrets(reason)
            # A chained error is printed with its own text, so one with a secret is not chained.
            cause = error if shown == reason else None
            raise SinkError(f"to_postgres(table={self.table!r}): {shown}") from cause


def to_postgres(dsn: str, *, table: str) -> Postgres:
    """Return a sink that upserts results into a PostgreSQL table by window and group.

    A final replaces the early row of its window, a revised result replaces the final. Fields of
    structs become columns, such as `window_start` and `window_end`. Rows without a window, and rows
    of queries that do not select `wid` and the group, are keyed by epoch and row number. The table
    is created if it does not exist. A column keeps its name if PostgreSQL allows it; a longer, a
    reserved or a repeated name is replaced by the nearest free one. `dsn` is an address of libpq,
    for example "postgresql://me@host/db"; libpq looks up a missing password.
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
