"""A feed: a source whose epochs the caller passes to `run`, for tests of queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lowwater.errors import SpecError
from lowwater.schema import schema_of


@dataclass(frozen=True, eq=False)
class Feed:
    """A source whose epochs the caller passes to `query.run(epochs={feed: [table, …]})`."""

    schema: pa.Schema

    def table(self, given: Any) -> pa.Table:
        """Return an epoch (a table, a DataFrame or a list of rows) as a table of `schema`."""
        if isinstance(given, pa.RecordBatch):
            given = pa.Table.from_batches([given])
        elif hasattr(given, "columns") and hasattr(given, "iloc"):
            given = pa.Table.from_pandas(given, preserve_index=False)
        elif isinstance(given, list | tuple):
            rows = [self._row(r) for r in given]
            columns = [_column([r[f.name] for r in rows], f) for f in self.schema]
            given = pa.table(columns, schema=self.schema)
        if not isinstance(given, pa.Table):
            raise SpecError(
                f"an epoch of a feed must be a table, a DataFrame or a list of rows, not "
                f"{type(given).__name__}"
            )
        absent = [n for n in self.schema.names if n not in given.column_names]
        if absent:
            raise SpecError(
                f"an epoch of the feed lacks columns of its schema: {', '.join(absent)}; add "
                f"them to the table"
            )
        return pa.table([_column(given.column(f.name), f) for f in self.schema], schema=self.schema)

    def _row(self, row: Any) -> dict[str, Any]:
        names = self.schema.names
        if isinstance(row, dict) and set(row) <= set(names):
            return {name: row.get(name) for name in names}
        if isinstance(row, list | tuple) and len(row) == len(names):
            return dict(zip(names, row, strict=True))
        raise SpecError(
            f"row {row!r} does not fit the feed; give a value for each of: {', '.join(names)}"
        )


def _column(values: list[Any] | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    try:
        return pa.array(values, field.type) if isinstance(values, list) else values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as problem:
        raise SpecError(
            f"column {field.name!r} of an epoch does not fit {field.type}: {problem}; give values "
            f"of that type, or change the schema of the feed"
        ) from problem


def feed(schema: str | pa.Schema) -> Feed:
    """Return a source whose epochs the caller passes to `run`; each table is one epoch.

    >>> feed("ts timestamp, speed double").schema.names
    ['ts', 'speed']
    """
    if not isinstance(schema, str | pa.Schema):
        raise SpecError(
            f"schema={schema!r} must be text or a pyarrow schema; write it like 'ts timestamp, "
            f"speed double'"
        )
    return Feed(schema_of(schema))
