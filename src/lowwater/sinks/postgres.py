"""A table in PostgreSQL: one row per window and group, which an early row begins, the final ends.

Rows of an epoch are staged and merged in one transaction, so an epoch that comes again changes
nothing, and readers see all of an epoch or nothing of it.
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
"""The first version whose unique indexes can take NULL for a value, as group-by does."""
EPOCH, PLACE = "epoch", "place"
"""The key of rows that have none of their own: their epoch, and where they stood in it."""
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
    """Upserts rows by their window and group; replaces them by epoch where they have neither."""

    def __init__(self, dsn: str, table: str) -> None:
        self.dsn, self.table = dsn, table
        self.key: tuple[str, ...] = ()
        self._driver = _driver()

    def __repr__(self) -> str:
        """Leave out the address: it may hold a password."""
        return f"postgres(table={self.table!r})"

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        """Create the table if it is absent; refuse one that does not fit."""
        self.key = tuple(key)
        columns = _columns(schema)
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
            there = {c.name for c in cursor.description}
        missing = [name for name in columns if name not in there]
        if missing:
            raise SpecError(
                f"postgres(table={self.table!r}): the table is there and has no column "
                f"{missing[0]!r}; add it, or name a table that is not there yet"
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
            cursor.execute(self._merged(names))

    def _merged(self, names: Sequence[str]) -> str:
        """Return how staged rows become rows of the table."""
        own = _listed(names)
        into = f"INSERT INTO {self._name} ({own})"
        if not self.key:
            return f"{into} SELECT {own} FROM staged"  # noqa: S608
        # Of several rows of a window in one epoch the last stands, but an early one never does.
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
        """Give a cursor; all that is done with it is done, or nothing.

        Each epoch connects anew: nothing is left open, and a server that was away is back.
        """
        try:
            with self._driver.connect(self.dsn, connect_timeout=10) as connection:
                version = connection.info.server_version
                if version < OLDEST:
                    found = version // 10_000
                    raise SinkError(f"postgres() needs PostgreSQL 15 or later, and this is {found}")
                with connection.cursor() as cursor:
                    yield cursor
        except self._driver.Error as error:
            reason = " ".join(str(error).split())
            raise SinkError(f"postgres(table={self.table!r}): {reason}") from error


def postgres(dsn: str, *, table: str) -> Postgres:
    """Upsert results into a PostgreSQL table by window and group.

    An early row of a window is replaced by its final, a final by what revises it. Structs become
    columns, `window_start` and `window_end` among them. Rows that are of no window, and those of
    queries that do not select `wid` and the group, are kept by epoch. The table is created if it
    is absent. `dsn` is as libpq takes it, say "postgresql://me@host/db"; without a password it
    looks for one where libpq does.
    """
    return Postgres(dsn, table)


def _driver() -> Any:
    """Import what speaks to the server: an extra, since few need it."""
    try:
        import psycopg
    except ImportError:
        raise SpecError(
            "lw.postgres needs the package psycopg: pip install 'lowwater[postgres]'"
        ) from None
    return psycopg


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_quoted, names))


def _columns(schema: pa.Schema) -> dict[str, str]:
    """Return the columns of a table and their types."""
    return {f.name: _type(f.type) for f in _flat(schema.empty_table()).schema}


def _type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    return next((name for fits, name in _TYPES if fits(kind)), "jsonb")


def _flat(rows: pa.Table) -> pa.Table:
    """Return rows whose structs are columns of their own, one level of them."""
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
    """Return rows as COPY reads them: what is quoted is text, what is empty is NULL."""
    for at, column in enumerate(rows.columns):
        if _type(column.type) == "jsonb":
            texts = [None if v is None else _json(v) for v in column.to_pylist()]
            rows = rows.set_column(at, rows.column_names[at], pa.array(texts, pa.string()))
    out = io.BytesIO()
    pcsv.write_csv(rows, out, pcsv.WriteOptions(include_header=False))
    return out.getvalue()


def _json(value: Any) -> str:
    """Return a value as JSON, which has no NaN and no infinity: they are text there."""
    return json.dumps(_finite(value), default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(v) for name, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
