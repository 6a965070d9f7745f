"""Builds nodes of a logical plan: a source, a step, a union, an output of plain rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from lowwater.errors import SpecError
from lowwater.expressions.evaluate import column_text
from lowwater.expressions.steps import Select, Step, Transform, called_after
from lowwater.logical.nodes import Apply, Node, Project, Source, Union
from lowwater.operators.passthrough import PassthroughPlan
from lowwater.sources.feed import Feed
from lowwater.sources.source import BlockSource
from lowwater.watermarks.policy import WatermarkPolicy

_Node = TypeVar("_Node", Source, Project)


def read(source: Any, time: str, watermark: WatermarkPolicy) -> Source:
    """Return the node that reads `source`, with the time column `time`."""
    return _checked(Source(schema=source.schema, time=time, source=source, watermark=watermark))


def step(of: Node, taken: Step) -> Node:
    """Return `of` followed by the step `taken`; in a union, the step follows each part."""
    if isinstance(of, Union):
        return unite(tuple(step(part, taken) for part in of.of))
    time = called_after(taken, of.time)
    if time is None:
        raise SpecError(
            f"{taken}: the column {of.time!r}, the stream's time, must stay, because windows and "
            f"watermarks need it; add it to select(...)"
        )
    if isinstance(of, Source) and not isinstance(of.source, BlockSource | Feed):
        source = of.source.transformed(taken)
        steps = (*of.steps, taken)
        return _checked(replace(of, schema=source.schema, time=time, source=source, steps=steps))
    transform = Transform.of(taken, of.schema)
    schema, times = transform.schema, of.times
    if times is not None:
        origins = [(name, transform.origin(name)) for name in schema.names]
        times = tuple(replace(t, column=n) for t in times for n, was in origins if was == t.column)
    return _checked(
        Project(schema=schema, time=time, times=times, of=of, step=taken, transform=transform)
    )


def _checked(node: _Node) -> _Node:
    """Return `node`; raise SpecError if a column name is reserved or the time has no watermark."""
    refuse_hidden(node.schema)
    node.axis(node.time)
    return node


def refuse_hidden(schema: pa.Schema) -> None:
    """Raise SpecError if a column name begins with `__`, which Lowwater reserves."""
    hidden = [name for name in schema.names if name.startswith("__")]
    if hidden:
        raise SpecError(
            f"column {hidden[0]!r}: names that begin with '__' are Lowwater's own; rename it"
        )


def unite(nodes: Sequence[Node]) -> Union:
    """Return the union of `nodes`; raise SpecError unless all have the same columns."""
    first = nodes[0]
    fitted = [first, *(_fitted(first, other) for other in nodes[1:])]
    flat = [part for node in fitted for part in (node.of if isinstance(node, Union) else (node,))]
    times = [node.times for node in flat if node.times is not None]
    common = tuple(axis for axis in times[0] if all(axis in t for t in times)) if times else None
    if common is not None and first.time not in [axis.column for axis in common]:
        raise SpecError(
            f"union: {first.time!r} does not mean the same time in all streams; give all of them "
            f"windows of the same kind, or unite them before the windows"
        )
    return Union(schema=first.schema, time=first.time, times=common, of=tuple(flat))


def _fitted(first: Node, other: Node) -> Node:
    """Return `other` with columns ordered as in `first`; raise SpecError if the columns differ."""
    if other.time != first.time:
        raise SpecError(
            f"union: the streams' times are {first.time!r} and {other.time!r}; rename one with "
            f"select(..., {first.time}={other.time!r}) where the stream is made"
        )
    mine = {f.name: f.type for f in first.schema}
    theirs = {f.name: f.type for f in other.schema}
    if mine != theirs:
        raise SpecError(
            f"union: the columns differ: {_difference(mine, theirs)}. Give all streams the same "
            f"columns with select(...)"
        )
    if first.schema.names == other.schema.names:
        return other
    return step(other, Select(tuple((n, column_text(n)) for n in first.schema.names)))


def _difference(mine: Mapping[str, pa.DataType], theirs: Mapping[str, pa.DataType]) -> str:
    lines = [f"{name} is missing in the other" for name in mine if name not in theirs]
    lines += [f"{name} is missing in the first" for name in theirs if name not in mine]
    lines += [
        f"{name} is {kind} here and {theirs[name]} there"
        for name, kind in mine.items()
        if name in theirs and theirs[name] != kind
    ]
    return "; ".join(lines)


def collect(of: Node) -> Apply:
    """Return an operator over `of` that emits the rows of `of` unchanged as results."""
    plan = PassthroughPlan(of.schema, of.axis(of.time))
    return Apply(schema=of.schema, time=of.time, times=(), plan=plan, of=(of,))
