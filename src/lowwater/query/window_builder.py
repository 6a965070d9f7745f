"""The class that `stream.window(...)` returns: a stream with windows, before `agg(...)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import pyarrow as pa

from lowwater.aggregates.aggregate import Aggregate, column_type
from lowwater.errors import SpecError
from lowwater.logical.nodes import Apply
from lowwater.operators.window.plan import SECOND
from lowwater.planner.window import AskedWindows, window_node

Q = TypeVar("Q")
"""The class of the queries that `agg` returns."""
_RESERVED = ("window", "wid", "window_name", "kind")


def groupable(word: str, column: str, schema: pa.Schema) -> None:
    """Raise SpecError if rows cannot be grouped by `column`; the error text begins with `word`."""
    if pa.types.is_map(column_type(schema, column)):
        raise SpecError(
            f"{word}({column!r}): a map is not hashable; take one of its keys first, "
            f"with_columns(key=\"{column}['...']\")"
        )
    if column in _RESERVED:
        raise SpecError(
            f"{word}({column!r}): results have a column of that name already; copy it under "
            f"another name before the window, with_columns(key={column!r})"
        )


@dataclass(frozen=True, kw_only=True)
class WindowedStream(AskedWindows, Generic[Q]):
    """A stream with windows and optional groups, before its aggregates are chosen.

    `agg` passes the plan node of the aggregates to `query`, which returns the query.
    """

    query: Callable[[Apply], Q]

    def __post_init__(self) -> None:
        if self.second is not None and SECOND in self.keys:
            raise SpecError(
                f"group_by({SECOND!r}): results have a column of that name already; copy it "
                f"under another name before the window, with_columns(key={SECOND!r})"
            )

    def group_by(self, *columns: str) -> WindowedStream[Q]:
        """Return the windows with one result per group of `columns`; NULL is a group."""
        for column in columns:
            groupable("group_by", column, self.of.schema)
        if len(set(columns)) != len(columns):
            raise SpecError(f"group_by{columns}: a column is named twice; name it once")
        keys = tuple(dict.fromkeys([*self.partition, *columns]))
        if self.spec.driven and self.partition and keys != self.partition:
            raise SpecError(
                f"group_by{columns}: the rows of a partition determine these windows, so they "
                f"cannot be grouped further; add the columns to partition_by=, or leave that out"
            )
        return replace(self, keys=keys)

    def agg(self, **aggregates: Aggregate) -> Q:
        """Return the query that aggregates each window: `agg(n=lw.count(), m=lw.max("x"))`."""
        if not aggregates:
            raise SpecError("agg() needs at least one aggregate, for example n=lw.count()")
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise SpecError(
                    f"agg({name}={aggregate!r}) is not an aggregate; give one like lw.count()"
                )
            if name in (*_RESERVED, SECOND, *self.keys):
                raise SpecError(
                    f"agg({name}=...): results have a column of that name already; choose another"
                )
        return self.query(window_node(self, aggregates))
