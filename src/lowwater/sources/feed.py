"""A feed: the caller gives the epochs. For tests of queries, and for tests of Lowwater."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lowwater.errors import SpecError
from lowwater.schemas import parse_schema


@dataclass(frozen=True, eq=False)
class Feed:
    """A source whose epochs the caller hands to `query.run(epochs={feed: [table, …]})`."""

    schema: pa.Schema

    def table(self, given: Any) -> pa.Table:
        """Return one epoch as a table of the feed's schema, whatever form it was given in."""
        if isinstance(given, pa.RecordBatch):
            given = pa.Table.from_batches([given])
        if hasattr(given, "columns") and hasattr(given, "iloc"):
            given = pa.Table.from_pandas(given, preserve_index=False)
        if isinstance(given, list | tuple):
            names = self.schema.names
            rows = [r if isinstance(r, dict) else dict(zip(names, r, strict=True)) for r in given]
            return pa.Table.from_pylist(rows, self.schema)
        if not isinstance(given, pa.Table):
            raise SpecError(
                f"an epoch of a feed is a table, a DataFrame or a list of rows, not {type(given)}"
            )
        absent = [n for n in self.schema.names if n not in given.column_names]
        if absent:
            raise SpecError(f"an epoch of the feed lacks the columns {', '.join(absent)}")
        return given.select(self.schema.names).cast(self.schema)


def feed(schema: str | pa.Schema) -> Feed:
    """Make a source whose epochs the caller gives, each table exactly one epoch.

    >>> feed("ts timestamp, speed double").schema.names
    ['ts', 'speed']
    """
    return Feed(parse_schema(schema) if isinstance(schema, str) else schema)
