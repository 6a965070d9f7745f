"""The statements that merge the staged rows of an epoch into a PostgreSQL table.

`table` and `staged` are the quoted names of the table and of the temporary table with the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.sinks.postgres_columns import TableColumns
from lowwater.sinks.postgres_memory import quoted


def listed(names: Sequence[str]) -> str:
    """Return names as a list in SQL."""
    return ", ".join(map(quoted, names))


def stage_statement(table: str, staged: str, columns: TableColumns) -> str:
    """Return the statement that creates the temporary table, with the types of the table."""
    own = listed([*columns.names, *([] if columns.key else [columns.epoch, columns.place])])
    place = f", 0::bigint AS {quoted(columns.place)}" if columns.key else ""
    alike = f"SELECT {own}{place} FROM {table} WITH NO DATA"  # noqa: S608
    return f"CREATE TEMP TABLE {staged} ON COMMIT DROP AS {alike}"


def replaced_statement(table: str, staged: str, columns: TableColumns, rows: pa.Table) -> str:
    """Return the statement that selects, as JSON, the rows with the key of one of `rows`.

    It has one join for each combination of NULL in keys, because only equality can use an index.
    """
    keys = list(map(quoted, columns.key))
    nulls = [np.asarray(pc.is_null(rows.column(name))) for name in columns.key]
    joins = []
    for pattern in np.unique(np.column_stack(nulls), axis=0):
        on = [
            f"t.{k} IS NULL AND s.{k} IS NULL" if null else f"t.{k} = s.{k}"
            for k, null in zip(keys, pattern, strict=True)
        ]
        joins.append(
            f"SELECT to_jsonb(t) FROM (SELECT DISTINCT {', '.join(keys)} FROM {staged}) AS s "  # noqa: S608
            f"JOIN {table} AS t ON {' AND '.join(on)}"
        )
    return " UNION ALL ".join(joins)


def merge_statement(table: str, staged: str, columns: TableColumns, number: int) -> str:
    """Return the statement that merges the staged rows; `number` is the number of the write."""
    names = [*columns.names, *([] if columns.key else [columns.epoch, columns.place])]
    own, write = listed(names), quoted(columns.write)
    into = f"INSERT INTO {table} ({own}, {write})"
    if not columns.key:
        return f"{into} SELECT {own}, {number} FROM {staged}"  # noqa: S608
    # Of several rows of a window in one epoch, the last is stored that is not early, if any.
    best = f"{quoted(columns.place)} DESC"
    if columns.labelled:
        best = f"kind = 'early', {best}"
    by, rest = listed(columns.key), [n for n in names if n not in columns.key]
    news = ", ".join(f"{quoted(n)} = EXCLUDED.{quoted(n)}" for n in [*rest, columns.write])
    return (
        f"{into} SELECT DISTINCT ON ({by}) {own}, {number} FROM {staged} "  # noqa: S608
        f"ORDER BY {by}, {best} ON CONFLICT ({by}) DO UPDATE SET {news}"
    )
