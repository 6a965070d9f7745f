"""The memory of a PostgreSQL table of results: its owners, its epochs, and the rows it replaced.

Four tables in the schema of the results hold it:

| table | a row for each |
|---|---|
| `lowwater_tables` | table of results, with the number of its newest write; a writer locks it |
| `lowwater_owners` | query that writes to the table, with the token of its newest run |
| `lowwater_epochs` | write, with its query, epoch and tag |
| `lowwater_replaced` | row that one of the newest writes has replaced |

A write stores one epoch of one query. The writes of a table are numbered from 1, and each row of
the results has the number of its write.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any

from lowwater.errors import SinkError
from lowwater.sinks.sink import History

KEPT_REPLACED = 20
"""The number of newest writes whose replaced rows are kept, one for each epoch of a rewind."""
KEPT_WRITES = 100_000
"""The number of newest writes whose epochs are remembered."""
_TABLES = {
    "lowwater_tables": "name text PRIMARY KEY, writes bigint DEFAULT 0, forgotten bigint DEFAULT 0",
    "lowwater_owners": "name text, query text, checkpoint text, run text, holder text, "
    "since timestamptz DEFAULT now(), PRIMARY KEY (name, query)",
    "lowwater_epochs": "name text, write bigint, query text, epoch bigint, tag text, "
    "PRIMARY KEY (name, write), UNIQUE (name, query, epoch, tag)",
    "lowwater_replaced": "name text, write bigint, place bigint, content jsonb, "
    "PRIMARY KEY (name, write, place)",
}
RESERVED = frozenset(_TABLES)
"""The names of the tables that hold the memory."""
_KEEP = "start with outputs='keep', or restore the table from a backup of the same time"


@dataclass(frozen=True)
class Owner:
    """A query that writes to a table, and its newest run: token, process and start."""

    query: str
    checkpoint: str
    run: str
    holder: str
    since: str

    def __str__(self) -> str:
        where = f"checkpoint {self.checkpoint}" if self.checkpoint else "without a checkpoint"
        return f"query {self.query} ({where}, {self.holder}, since {self.since})"


@dataclass(frozen=True)
class TableMemory:
    """The memory of the table `table` of `schema`. A `cursor` is inside a transaction."""

    schema: str
    table: str

    def create(self, cursor: Any) -> None:
        """Create the tables of the memory unless they exist."""
        for name, columns in _TABLES.items():
            self._execute(cursor, f"CREATE TABLE IF NOT EXISTS {{}}.{name} ({columns})")
        new = "INSERT INTO {}.lowwater_tables (name) VALUES (%s) ON CONFLICT DO NOTHING"
        self._execute(cursor, new, self.table)

    def lock(self, cursor: Any) -> int:
        """Let this transaction alone write until it ends; return the number of the last write."""
        own = "SELECT writes FROM {}.lowwater_tables WHERE name = %s FOR UPDATE"
        row = self._execute(cursor, own, self.table).fetchone()
        if row is None:
            raise SinkError(
                f"to_postgres(table={self.table!r}): its row in lowwater_tables is missing; "
                f"start the query again"
            )
        return int(row[0])

    # -- owners ------------------------------------------------------------------------------------

    def owners(self, cursor: Any) -> dict[str, Owner]:
        """Return the owners of the table by query; call `lock` before."""
        every = (
            "SELECT query, checkpoint, run, holder, date_trunc('second', since)::text "
            "FROM {}.lowwater_owners WHERE name = %s ORDER BY since DESC"
        )
        rows = self._execute(cursor, every, self.table).fetchall()
        return {row[0]: Owner(*row) for row in rows}

    def take(self, cursor: Any, history: History, run: str) -> None:
        """Make `run` the run of its query that may write."""
        new = (
            "INSERT INTO {}.lowwater_owners (name, query, checkpoint, run, holder) "
            "VALUES (%s, %s, %s, %s, %s) ON CONFLICT (name, query) DO UPDATE SET since = now(), "
            "checkpoint = EXCLUDED.checkpoint, run = EXCLUDED.run, holder = EXCLUDED.holder"
        )
        holder = f"process {os.getpid()} of {socket.gethostname()}"
        own = self.table, history.query, history.checkpoint, run, holder
        self._execute(cursor, new, *own)

    def clear(self, cursor: Any) -> None:
        """Forget all owners and epochs."""
        self._execute(cursor, "DELETE FROM {}.lowwater_owners WHERE name = %s", self.table)
        self._forget_from(cursor, 1)
        none = "UPDATE {}.lowwater_tables SET forgotten = 0 WHERE name = %s"
        self._execute(cursor, none, self.table)

    # -- epochs ------------------------------------------------------------------------------------

    def newest(self, cursor: Any, query: str) -> int | None:
        """Return the epoch of the last write of `query`; None without a write."""
        last = (
            "SELECT epoch FROM {}.lowwater_epochs WHERE name = %s AND query = %s "
            "ORDER BY write DESC LIMIT 1"
        )
        row = self._execute(cursor, last, self.table, query).fetchone()
        return None if row is None else int(row[0])

    def holds(self, cursor: Any, query: str, epoch: int, tag: str) -> bool:
        """Return whether the epoch with this tag is written."""
        same = (
            "SELECT FROM {}.lowwater_epochs WHERE name = %s AND query = %s AND epoch = %s "
            "AND tag = %s"
        )
        found = self._execute(cursor, same, self.table, query, epoch, tag).fetchone()
        return found is not None

    def add(self, cursor: Any, write: int, query: str, epoch: int, tag: str) -> None:
        """Remember a write, and forget those that no query can go back to."""
        new = "INSERT INTO {}.lowwater_epochs VALUES (%s, %s, %s, %s, %s)"
        self._execute(cursor, new, self.table, write, query, epoch, tag)
        old = "DELETE FROM {}.lowwater_epochs WHERE name = %s AND write <= %s"
        self._execute(cursor, old, self.table, write - KEPT_WRITES)
        replaced = (
            "WITH old AS (DELETE FROM {}.lowwater_replaced WHERE name = %s AND write <= %s "
            "RETURNING write) UPDATE {}.lowwater_tables SET forgotten = "
            "greatest(forgotten, (SELECT max(write) FROM old)) WHERE name = %s"
        )
        self._execute(cursor, replaced, self.table, write - KEPT_REPLACED, self.table)
        self._set_writes(cursor, write)

    def writes_after(self, cursor: Any, history: History) -> dict[int, int]:
        """Return {write: epoch} of the writes of the query after the last one in `history`."""
        first = min(history.tags, default=0)
        newer = (
            "WITH own AS (SELECT write, epoch, tag FROM {}.lowwater_epochs "
            "WHERE name = %s AND query = %s) SELECT * FROM own WHERE write > "
            "coalesce((SELECT max(write) FROM own WHERE epoch < %s), 0) ORDER BY write DESC"
        )
        foreign = {}
        for write, epoch, tag in self._execute(cursor, newer, self.table, history.query, first):
            if history.holds(epoch, tag):
                break
            foreign[write] = epoch
        return foreign

    def check_way_back(self, cursor: Any, history: History, first: int) -> None:
        """Raise SinkError if the writes from `first` on cannot be removed.

        They must be of this query, and the rows that they replaced must be kept.
        """
        known = (
            "SELECT t.forgotten, min(e.write), bool_or(e.query = %s AND e.write < %s), "
            "max(e.query) FILTER (WHERE e.query <> %s AND e.write > %s) "
            "FROM {}.lowwater_tables t JOIN {}.lowwater_epochs e USING (name) "
            "WHERE name = %s GROUP BY t.forgotten"
        )
        own = history.query, first, history.query, first, self.table
        row = self._execute(cursor, known, *own).fetchone()
        forgotten, oldest, has_earlier, other = row
        problem = None
        if other is not None:
            problem = f"query {other} has written to it since"
        elif forgotten >= first:
            problem = (
                f"later epochs have replaced rows of earlier ones, and the replaced rows are kept "
                f"for the newest {KEPT_REPLACED} epochs only"
            )
        elif oldest > 1 and not has_earlier:
            problem = f"it remembers only its newest {KEPT_WRITES} epochs"
        if problem is not None:
            raise SinkError(
                f"to_postgres(table={self.table!r}) cannot go back to epoch {history.newest}: "
                f"{problem}; {_KEEP}"
            )

    # -- replaced rows -----------------------------------------------------------------------------

    def keep_replaced(self, cursor: Any, write: int, rows: str) -> None:
        """Keep the rows of the statement `rows`, which `write` is about to replace.

        `rows` selects one column, the row as JSON.
        """
        kept = self._placed(
            "INSERT INTO {}.lowwater_replaced SELECT %s, %s, row_number() OVER (), content FROM "
        )
        cursor.execute(f"{kept} ({_escaped(rows)}) AS r (content)", (self.table, write))

    def undo(self, cursor: Any, first: int, column: str) -> None:
        """Remove the writes from `first` on; `column` has the number of a row's write."""
        name, by = quoted(self.schema, self.table), _escaped(quoted(column))
        cursor.execute(f"DELETE FROM {_escaped(name)} WHERE {by} >= %s", (first,))  # noqa: S608
        writable = (
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND "
            "NOT attisdropped AND attgenerated = '' AND attidentity <> 'a' ORDER BY attnum"
        )
        names = [row[0] for row in cursor.execute(writable, (name,))]
        columns, name = _escaped(", ".join(map(quoted, names))), _escaped(name)
        kept = self._placed(
            "FROM {}.lowwater_replaced WHERE name = %s AND write >= %s "
            "AND coalesce((content ->> %s)::bigint, 0) < %s"
        )
        cursor.execute(
            f"INSERT INTO {name} ({columns}) SELECT {columns} FROM "  # noqa: S608
            f"(SELECT (jsonb_populate_record(NULL::{name}, content)).* {kept}) AS r",
            (self.table, first, column, first),
        )
        self._forget_from(cursor, first)

    def _forget_from(self, cursor: Any, first: int) -> None:
        """Forget the epochs and replaced rows of the writes from `first` on."""
        epochs = "DELETE FROM {}.lowwater_epochs WHERE name = %s AND write >= %s"
        self._execute(cursor, epochs, self.table, first)
        replaced = "DELETE FROM {}.lowwater_replaced WHERE name = %s AND write >= %s"
        self._execute(cursor, replaced, self.table, first)
        self._set_writes(cursor, first - 1)

    def _set_writes(self, cursor: Any, write: int) -> None:
        last = "UPDATE {}.lowwater_tables SET writes = %s WHERE name = %s"
        self._execute(cursor, last, write, self.table)

    def _execute(self, cursor: Any, text: str, *values: object) -> Any:
        """Execute a statement in which `{}` is the schema; return the cursor."""
        return cursor.execute(self._placed(text), values)

    def _placed(self, text: str) -> str:
        return text.replace("{}", _escaped(quoted(self.schema)))


def quoted(*names: str) -> str:
    """Return a name, or a name inside others, as SQL.

    >>> print(quoted("public", "my table"))
    "public"."my table"
    """
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def _escaped(text: str) -> str:
    """Return a part of a statement as psycopg reads it beside placeholders."""
    return text.replace("%", "%%")
