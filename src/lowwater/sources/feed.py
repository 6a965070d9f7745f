"""A feed: the caller gives the epochs. For tests of queries, and for tests of Lowwater."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lowwater.errors import SpecError
from lowwater.schemas import parse_schema, plain


@dataclass(frozen=True, eq=False)
class Feed:
    """A source whose epochs the caller hands to `query.run(epochs={feed: [table, …]})`."""

    schema: pa.Schema

    def table(self, given: Any) -> pa.Table:
        """Return one epoch as a table of the feed's schema, whatever form it was given in."""
        if isinstance(given, pa.RecordBatch):
            given = pa.Table.from_batches([given])
        elif hasattr(given, "columns") and hasattr(given, "iloc"):
            given = pa.Table.from_pandas(given, preserve_index=False)
        elif isinstance(given, list | tuple):
            rows = [self._row(r) for r in given]
            given = pa.table(
                [_column([r[f.name] for r in rows], f) for f in self.schema], schema=self.schema
            )
        if not isinstance(given, pa.Table):
            raise SpecError(
                f"an epoch of a feed is a table, a DataFrame or a list of rows, not {type(given)}"
            )
        absent = [n for n in self.schema.names if n not in given.column_names]
        if absent:
            raise SpecError(f"an epoch of the feed lacks the columns {', '.join(absent)}")
        return pa.table([_cast(given.column(f.name), f) for f in self.schema], schema=self.schema)

    def _row(self, row: Any) -> dict[str, Any]:
        names = self.schema.names
        if isinstance(row, dict) and set(row) <= set(names):
            return {name: row.get(name) for name in names}
        if isinstance(row, list | tuple) and len(row) == len(names):
            return dict(zip(names, row, strict=True))
        raise SpecError(f"row {row!r} does not fit the feed: it has {', '.join(names)}")


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    try:
        return pa.array(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
        raise SpecError(f"column {field.name!r} does not fit {field.type}: {problem}") from problem


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise SpecError(f"column {field.name!r} does not fit {field.type}: {problem}") from problem


def feed(schema: str | pa.Schema) -> Feed:
    """Make a source whose epochs the caller gives, each table exactly one epoch.

    >>> feed("ts timestamp, speed double").schema.names
    ['ts', 'speed']
    """
    if not isinstance(schema, str | pa.Schema):
        raise SpecError(f"schema={schema!r} is none; write it like 'ts timestamp, speed double'")
    return Feed(parse_schema(schema) if isinstance(schema, str) else plain(schema))
