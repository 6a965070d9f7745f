"""Streams and the sentence that builds a query: stream, window, group_by, agg."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lowwater.aggregates import Aggregate, column_type
from lowwater.errors import SpecError, unknown_name
from lowwater.progress import Progress
from lowwater.query.query import Query
from lowwater.windows import Axis, Landmark, Sliding, Unbounded, WindowSpec

_RESERVED = ("window", "wid", "kind")


@dataclass(frozen=True)
class Stream:
    """A source, the column that holds its time, and how its progress is learned."""

    source: Any
    schema: pa.Schema
    time: str
    progress: Progress

    def __post_init__(self) -> None:
        if not isinstance(self.progress, Progress):
            raise SpecError(
                f"progress={self.progress!r} is no policy; give lw.slack('10 seconds'), "
                f"lw.ordered(), lw.punctuated(...) or lw.per_source(...)"
            )
        hidden = [n for n in self.schema.names if n.startswith("__")]
        if hidden:
            raise SpecError(f"column {hidden[0]!r}: names that begin with '__' are Lowwater's own")
        self._axis(self.time)

    def _axis(self, column: str) -> Axis:
        if column not in self.schema.names:
            raise unknown_name("column", column, self.schema.names)
        return Axis(column, self.schema.field(column).type)

    def window(
        self,
        *,
        range: Any,
        slide: Any = None,
        on: str | None = None,
        origin: Any = None,
    ) -> Windowed:
        """Cut the stream into windows of `range` that start every `slide` (by default `range`).

        `on` names the attribute the windows lie over; by default the stream's time. `range` and
        `slide` are durations over time and numbers over numbers. `range=lw.unbounded` gives
        landmark windows, which reach back to the beginning. `origin` is a point where a window
        starts; by default 1970-01-01 or 0, as in Spark's `window()`.
        """
        axis = self._axis(on or self.time)
        return Windowed(self, axis, _spec(axis, range, slide, origin))


def _spec(axis: Axis, size: Any, slide: Any, origin: Any) -> WindowSpec:
    start = None if origin is None else axis.point(origin, name="origin")
    if isinstance(size, Unbounded):
        if slide is None:
            raise SpecError("range=lw.unbounded needs slide=, how often a result is given")
        return Landmark(slide=_positive(axis, "slide", slide), landmark=start)
    step = None if slide is None else _positive(axis, "slide", slide)
    return Sliding(range=_positive(axis, "range", size), slide=step, origin=start or 0)


def _positive(axis: Axis, name: str, value: Any) -> int:
    span = axis.span(value, name=name)
    if span <= 0:
        raise SpecError(f"{name}={value!r} must be greater than zero")
    return span


@dataclass(frozen=True)
class Windowed:
    """A stream cut into windows, perhaps by group, waiting for aggregates."""

    stream: Stream
    axis: Axis
    spec: WindowSpec
    keys: tuple[str, ...] = ()

    def group_by(self, *columns: str) -> Windowed:
        """Give one result per window and group; NULL is a group of its own."""
        for column in columns:
            if pa.types.is_map(column_type(self.stream.schema, column)):
                raise SpecError(
                    f"group_by({column!r}): a map is not hashable; take one of its keys"
                )
            if column in _RESERVED:
                raise SpecError(f"group_by({column!r}): results have a column of that name already")
        if len(set(columns)) != len(columns):
            raise SpecError(f"group_by{columns}: a column is named twice")
        return replace(self, keys=columns)

    def agg(self, **aggregates: Aggregate) -> Query:
        """Name the aggregates of each window: `agg(n=lw.count(), top=lw.max("speed"))`."""
        if not aggregates:
            raise SpecError("agg() needs at least one aggregate, for example n=lw.count()")
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise SpecError(f"agg({name}={aggregate!r}): give an aggregate like lw.count()")
            if name in (*_RESERVED, *self.keys):
                raise SpecError(f"agg({name}=...): results have a column of that name already")
        return Query.build(self.stream, self.axis, self.spec, self.keys, aggregates)
