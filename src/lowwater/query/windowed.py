"""A stream cut into windows, waiting for groups and aggregates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lowwater.aggregates import Aggregate, column_type
from lowwater.errors import SpecError
from lowwater.kernels.plan import SECOND, Numbering
from lowwater.query.smoothing import Flush
from lowwater.windows import Axis, Session, SlideByRow, WindowSpec

if TYPE_CHECKING:
    from lowwater.query.query import Query
    from lowwater.query.stream import Stream

_RESERVED = ("window", "wid", "window_name", "kind")


def groupable(word: str, column: str, schema: pa.Schema) -> None:
    """Refuse a column that cannot tell groups apart."""
    if pa.types.is_map(column_type(schema, column)):
        raise SpecError(f"{word}({column!r}): a map is not hashable; take one of its keys")
    if column in _RESERVED:
        raise SpecError(f"{word}({column!r}): results have a column of that name already")


@dataclass(frozen=True)
class Windowed:
    """A stream cut into windows, perhaps by group, waiting for aggregates."""

    stream: Stream
    axis: Axis
    spec: WindowSpec
    keys: tuple[str, ...] = ()
    numbering: Numbering | None = None
    partition: tuple[str, ...] = ()
    second: Axis | None = None
    smooth: Flush | None = None
    revise_for: Any = None

    def __post_init__(self) -> None:
        if self.second is not None and SECOND in self.keys:
            raise SpecError(f"group_by({SECOND!r}): results have a column of that name already")

    def group_by(self, *columns: str) -> Windowed:
        """Give one result per window and group; NULL is a group of its own."""
        for column in columns:
            groupable("group_by", column, self.stream.schema)
        if len(set(columns)) != len(columns):
            raise SpecError(f"group_by{columns}: a column is named twice")
        keys = tuple(dict.fromkeys([*self.partition, *columns]))
        driven = isinstance(self.spec, SlideByRow | Session)
        if driven and self.partition and keys != self.partition:
            raise SpecError(
                f"group_by{columns}: windows that the rows of a partition make cannot be "
                f"grouped further; put the columns into partition_by, or leave that out"
            )
        return replace(self, keys=keys)

    def agg(self, **aggregates: Aggregate) -> Query:
        """Name the aggregates of each window: `agg(n=lw.count(), top=lw.max("speed"))`."""
        if not aggregates:
            raise SpecError("agg() needs at least one aggregate, for example n=lw.count()")
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise SpecError(f"agg({name}={aggregate!r}): give an aggregate like lw.count()")
            if name in (*_RESERVED, SECOND, *self.keys):
                raise SpecError(f"agg({name}=...): results have a column of that name already")
        from lowwater.query.query import Query

        return Query.over(self, aggregates)
