"""The nodes of a logical plan: a source, a step over a node, a union of nodes, an operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lowwater.errors import SpecError, unknown_name
from lowwater.expressions.steps import Step, Transform
from lowwater.operators.operator import OperatorPlan
from lowwater.watermarks.policy import WatermarkPolicy
from lowwater.windows.axis import Axis


@dataclass(frozen=True, eq=False, kw_only=True)
class Relation:
    """The base class of all nodes, which describes the columns of a node's rows.

    `time` is the column of event time. For results of operators, `times` lists the columns that
    have a watermark. For rows of sources, `times` is None: any ordered column can have a watermark.
    """

    schema: pa.Schema
    time: str
    times: tuple[Axis, ...] | None = None

    def axis(self, column: Any) -> Axis:
        """Return `column` as a window attribute (axis); raise SpecError if it has no watermark."""
        if column not in self.schema.names:
            raise unknown_name("column", column, self.schema.names)
        if self.times is None:
            return Axis(column, self.schema.field(column).type)
        known = [axis for axis in self.times if axis.column == column]
        if not known:
            columns = ", ".join(axis.column for axis in self.times) or "(none)"
            raise SpecError(
                f"{column!r} does not progress in this stream: it has no watermark, so no window "
                f"over it could close. Take one of these columns: {columns}"
            )
        return known[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class Source(Relation):
    """The rows of a source, and their watermark policy.

    `steps` lists the steps that the source's own engine, such as Spark, computes.
    """

    source: Any
    watermark: WatermarkPolicy
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Project(Relation):
    """The rows of the node `of` after a step, which filters rows or changes columns."""

    of: Node
    step: Step
    transform: Transform


@dataclass(frozen=True, eq=False, kw_only=True)
class Union(Relation):
    """The rows of several nodes with the same columns."""

    of: tuple[Node, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Apply(Relation):
    """The results of an operator over one or more nodes."""

    plan: OperatorPlan
    of: tuple[Node, ...]


Node: TypeAlias = Source | Project | Union | Apply


def below_steps(node: Node) -> tuple[Node, tuple[Transform, ...]]:
    """Return the source, union or operator below the last steps of `node`, and these steps."""
    transforms: tuple[Transform, ...] = ()
    while isinstance(node, Project):
        transforms = (node.transform, *transforms)
        node = node.of
    return node, transforms


def steps_of(node: Node) -> tuple[Step, ...]:
    """Return the steps of `node` after its source, or after its last operator or union."""
    if isinstance(node, Project):
        return (*steps_of(node.of), node.step)
    return node.steps if isinstance(node, Source) else ()


def sources_of(node: Node) -> list[Source]:
    """Return the sources whose rows reach `node` without passing an operator."""
    if isinstance(node, Source):
        return [node]
    if isinstance(node, Project):
        return sources_of(node.of)
    return [leaf for of in node.of for leaf in sources_of(of)] if isinstance(node, Union) else []


def source_column(node: Node) -> str | None:
    """Return the column of which each value has its own watermark (`lw.per_source`), or None."""
    if isinstance(node, Source):
        column = node.watermark.source
    elif isinstance(node, Project):
        column = source_column(node.of)
    elif isinstance(node, Union):
        columns = {source_column(of) for of in node.of}
        column = columns.pop() if len(columns) == 1 else None
    else:
        column = node.plan.source_out
    return column if column in node.schema.names else None


def paired_times(node: Node) -> Mapping[str, int]:
    """Return {column: side} for the columns of `node` that are times of a join below (OOP 7)."""
    if isinstance(node, Project):
        before = paired_times(node.of)
        origins = {name: node.transform.origin(name) for name in node.schema.names}
        return {name: before[was] for name, was in origins.items() if was and was in before}
    if isinstance(node, Union):
        first, *others = (paired_times(of) for of in node.of)
        return {n: side for n, side in first.items() if all(o.get(n) == side for o in others)}
    return node.plan.paired_times if isinstance(node, Apply) else {}
