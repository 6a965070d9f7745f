"""A sink for a PostgreSQL table with one row per window and group; finals replace early rows.

Rows of an epoch are staged and merged in one transaction. The same transaction compares the owner
of the table with the run, and adds the epoch to the table's memory (`postgres_memory.py`). So an
epoch is stored once, by a run that owns it, and readers see all rows of an epoch or none.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.errors import SinkError, SpecError
from lowwater.sinks.postgres_address import Address
from lowwater.sinks.postgres_columns import LONGEST_NAME, TableColumns
from lowwater.sinks.postgres_copy import NUL, copy_csv, sql_type
from lowwater.sinks.postgres_memory import RESERVED, TableMemory, quoted
from lowwater.sinks.postgres_merge import (
    listed,
    merge_statement,
    replaced_statement,
    stage_statement,
)
from lowwater.sinks.sink import Existing, History, Sink, checked_existing

OLDEST = 150_000
"""The oldest supported version of PostgreSQL, the first with UNIQUE NULLS NOT DISTINCT."""
_STAGED = "lowwater_staged"
"""The temporary table that receives the rows of an epoch before they are merged."""
_PREPARING = 0x6C6F7777617465
"""The number of the lock that a sink holds while it creates tables."""
_LONGEST_PAUSE = "60s"
"""After this pause inside a transaction, the server ends it, so that another run can take over."""


class Postgres(Sink):
    """A sink that upserts rows by `key`; without a key, it stores the rows of each epoch."""

    def __init__(
        self, dsn: str, table: str, existing: Existing | None = None, nul: str | None = None
    ) -> None:
        try:
            import psycopg
        except ImportError:
            raise SpecError(
                "lw.to_postgres needs the package psycopg; install it with: "
                "pip install 'lowwater[postgres]'"
            ) from None
        self._driver: Any = psycopg
        self._address, self.table = Address(dsn, psycopg), _checked_table(table)
        self.existing, self.nul = checked_existing(existing), _checked_nul(nul)
        self.key: tuple[str, ...] = ()
        self._memory = TableMemory("", "")
        self._columns: TableColumns
        self._query, self._run = "", ""
        self._kept: int | None = None

    def __repr__(self) -> str:
        """Return the call of `to_postgres` without the address, which may contain a password."""
        return f"to_postgres(table={self.table!r})"

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:
        """Create the table unless it exists; raise SpecError if the table lacks a column."""
        self.key = tuple(key)
        columns = self._columns = TableColumns.of(schema, self.key)
        declared = {field.name: sql_type(field.type) for field in columns.fields}
        if not key:
            declared |= {columns.epoch: "bigint", columns.place: "bigint"}
        declared[columns.write] = "bigint"
        by = listed(columns.key or (columns.write, columns.place))
        name = quoted(*self.table.split("."))
        with self._transaction() as cursor:
            cursor.execute(f"SELECT pg_advisory_xact_lock({_PREPARING})")
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {name} "
                f"({', '.join(f'{quoted(n)} {t}' for n, t in declared.items())}, "
                f"UNIQUE NULLS NOT DISTINCT ({by}))"
            )
            cursor.execute(f"SELECT * FROM {name} LIMIT 0")  # noqa: S608
            existing = {c.name for c in cursor.description}
            for missing in (n for n in declared if n not in existing):
                raise SpecError(
                    f"to_postgres(table={self.table!r}): the table exists and has no column "
                    f"{missing!r}; add the column with type {declared[missing]}, or name a new "
                    f"table"
                )
            where = (
                "SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                "WHERE c.oid = %s::regclass"
            )
            (schema_name,) = cursor.execute(where, (name,)).fetchone()
            self._memory = TableMemory(schema_name, self.table.rpartition(".")[2])
            self._memory.create(cursor)

    # -- owners ------------------------------------------------------------------------------------

    def take_over(self, history: History) -> None:  # noqa: D102
        run = history.owner or secrets.token_hex(8)
        with self._transaction() as cursor:
            self._memory.lock(cursor)
            owners = self._memory.owners(cursor)
            # A run that claims the checkpoint after this check takes over the table after this run.
            if not history.owned():
                raise self._error("another run has taken over the checkpoint, so this run ends")
            mine = owners.get(history.query)
            if mine is not None and mine.run == run:
                raise self._error("two outputs of the query name this table; name two tables")
            if mine is None:
                self._take_from(cursor, [str(owner) for owner in owners.values()])
            self._memory.take(cursor, history, run)
        self._query, self._run, self._kept = history.query, run, None

    def _take_from(self, cursor: Any, owners: Sequence[str]) -> None:
        """Prepare the table for a query that is not one of its `owners`."""
        found = cursor.execute(f"SELECT EXISTS (SELECT FROM {self._name})")  # noqa: S608
        (filled,) = found.fetchone()
        if filled and self.existing is None:
            by = "; ".join(owners) or "rows that Lowwater did not write"
            raise self._error(
                f"the table holds rows of another writer: {by}. Name an empty table, continue with "
                f"that checkpoint, or give existing='append' or existing='overwrite'"
            )
        if self.existing != "append":
            cursor.execute(f"DELETE FROM {self._name}")  # noqa: S608
            self._memory.clear(cursor)

    def _next_write(self, cursor: Any) -> int:
        """Lock the table and return the number of its next write.

        Raise SinkError if this run does not own the table.
        """
        write = self._memory.lock(cursor) + 1
        owners = self._memory.owners(cursor)
        if mine := owners.get(self._query):
            owners = {} if mine.run == self._run else {self._query: mine}
        elif self._run and not owners:
            raise self._error("its row in lowwater_owners is missing; start the query again")
        if owners:
            by = "; ".join(map(str, owners.values()))
            raise self._error(f"the table now belongs to {by}. This run writes nothing to it")
        return write

    def ahead(self, history: History) -> int | None:  # noqa: D102
        with self._transaction() as cursor:
            later = self._memory.writes_after(cursor, history)
        self._kept = max(later.values(), default=None)
        return self._kept

    def truncate(self, history: History) -> None:  # noqa: D102
        with self._transaction() as cursor:
            self._next_write(cursor)
            later = self._memory.writes_after(cursor, history)
            if later:
                self._memory.check_way_back(cursor, history, min(later))
                self._memory.undo(cursor, min(later), self._columns.write)
        self._kept = None

    # -- rows --------------------------------------------------------------------------------------

    def write(self, epoch: int, rows: pa.Table) -> None:
        """Store the rows of an epoch; only the first of several writes of an epoch counts."""
        self.write_epoch(epoch, rows, "")

    def write_epoch(self, epoch: int, rows: pa.Table, tag: str) -> None:
        """Merge the rows of an epoch into the table, unless the table has this epoch."""
        columns = TableColumns.of(rows.schema, self.key)
        flat = columns.of_rows(rows)
        if not self.key:
            flat = flat.append_column(columns.epoch, pa.repeat(pa.scalar(epoch), len(flat)))
        flat = flat.append_column(columns.place, pa.array(np.arange(len(flat))))
        content, names = copy_csv(flat, self.nul), flat.column_names
        with self._transaction() as cursor:
            cursor.execute(stage_statement(self._name, self._staged, columns))
            with cursor.copy(f"COPY {self._staged} ({listed(names)}) FROM STDIN CSV") as copy:
                copy.write(content)
            # The lock comes after the rows, so that a slow client does not hold it.
            number = self._next_write(cursor)
            if self._memory.holds(cursor, self._query, epoch, tag):
                return
            newest = self._memory.newest(cursor, self._query)
            if newest is not None and newest >= epoch and self._kept is None:
                raise self._error(
                    f"the table holds epoch {newest} of another history of this query, so epoch "
                    f"{epoch} is refused; start the query again"
                )
            if self.key and len(flat):
                replaced = replaced_statement(self._name, self._staged, columns, flat)
                self._memory.keep_replaced(cursor, number, replaced)
            cursor.execute(merge_statement(self._name, self._staged, columns, number))
            self._memory.add(cursor, number, self._query, epoch, tag)
        self._kept = None

    @property
    def _name(self) -> str:
        return quoted(self._memory.schema, self._memory.table)

    @property
    def _staged(self) -> str:
        """The temporary table; it must not hide the user's table, which may have any name."""
        return f"pg_temp.{_STAGED}{'_2' if self._memory.table == _STAGED else ''}"

    def _error(self, problem: str) -> SinkError:
        return SinkError(f"to_postgres(table={self.table!r}): {problem}")

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
                # After it has waited for a lock, a statement must see the rows of the other run.
                connection.isolation_level = self._driver.IsolationLevel.READ_COMMITTED
                with connection.cursor() as cursor:
                    pause = f"SET LOCAL idle_in_transaction_session_timeout = '{_LONGEST_PAUSE}'"
                    cursor.execute(pause)
                    yield cursor
        except self._driver.Error as error:
            reason = " ".join(str(error).split())
            shown = self._address.without_secrets(reason)
            # A chained error is printed with its own text, so one with a secret is not chained.
            cause = error if shown == reason else None
            raise self._error(shown) from cause


def to_postgres(
    dsn: str, *, table: str, existing: Existing | None = None, nul: str | None = None
) -> Postgres:
    """Return a sink that upserts results into a PostgreSQL table by window and group.

    A final replaces the early row of its window, a revised result replaces the final. Fields of
    structs become columns, such as `window_start` and `window_end`. Rows without a window, and rows
    of queries that do not select `wid` and the group, are inserted with their epoch and row number.
    The table is created if it does not exist. A column keeps its name if PostgreSQL allows it; a
    longer, a reserved or a repeated name is replaced by the nearest free one. `dsn` is an address
    of libpq, for example "postgresql://me@host/db"; libpq looks up a missing password.

    An epoch is stored once, together with a note in the tables `lowwater_...` of the same schema; a
    run that lost its checkpoint stores nothing more. The column `lowwater_write` has the number of
    the write. If the table holds rows of another query, or rows that Lowwater did not write, the
    run is refused, unless `existing` is "append" or "overwrite". PostgreSQL cannot store the
    character NUL: a text with it raises SinkError, unless `nul` is the text to store in its place.
    """
    return Postgres(dsn, table, existing, nul)


def _checked_table(table: str) -> str:
    name: Any = table
    if not isinstance(name, str) or NUL in table or not all(table.split(".")):
        raise SpecError(
            f"to_postgres(table={table!r}) is not a name; write a table, or schema.table"
        )
    if any(len(part.encode()) > LONGEST_NAME for part in table.split(".")):
        raise SpecError(
            f"to_postgres(table={table!r}) has more than {LONGEST_NAME} bytes, after which "
            f"PostgreSQL cuts a name; write a shorter name"
        )
    if table.rpartition(".")[2] in RESERVED:
        raise SpecError(
            f"to_postgres(table={table!r}) is a table that Lowwater writes beside the results; "
            f"write another name"
        )
    return table


def _checked_nul(nul: str | None) -> str | None:
    given: Any = nul
    if given is not None and (not isinstance(given, str) or NUL in given):
        raise SpecError(f"to_postgres(nul={nul!r}) must be a text without NUL, such as '?'")
    return nul
