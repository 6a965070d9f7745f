"""Steps on rows before an operator: filters and computed columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.errors import SpecError
from lowwater.expressions.evaluate import (
    Expression,
    check_expression,
    column_text,
    evaluate,
    normal,
    types_of,
)
from lowwater.schema import plain_type

Named: TypeAlias = tuple[tuple[str, str], ...]
"""Columns, as pairs of a name and an expression."""


@dataclass(frozen=True)
class Where:
    """A step that keeps only the rows for which `condition` is true."""

    condition: str

    def __post_init__(self) -> None:
        check_expression(self.condition, "where: ")

    def __str__(self) -> str:
        return f"where {normal(self.condition)}"


@dataclass(frozen=True)
class WithColumns:
    """A step that adds computed columns, or replaces columns of the same name."""

    columns: Named

    def __post_init__(self) -> None:
        for name, text in self.columns:
            check_expression(text, f"with_columns: {name}=")

    def __str__(self) -> str:
        return f"with {_listed(self.columns)}"


@dataclass(frozen=True)
class Select:
    """A step that returns only `columns`, computed from their expressions."""

    columns: Named

    def __post_init__(self) -> None:
        names = [name for name, _ in self.columns]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise SpecError(f"select: the column {twice[0]!r} is named twice; rename one of them")
        for name, text in self.columns:
            check_expression(text, f"select: {name}=")

    def __str__(self) -> str:
        return f"select {_listed(self.columns)}"


Step: TypeAlias = Where | WithColumns | Select


def called_after(step: Step, column: str) -> str | None:
    """Return the name of `column` after `step`; None if the step drops the column.

    >>> called_after(Select((("at", "ts"), ("n", "n + 1"))), "ts")
    'at'
    """
    if not isinstance(step, Select) or column in dict(step.columns):
        return column
    return next((name for name, text in step.columns if is_column(text, column)), None)


def is_column(text: str, name: str) -> bool:
    """Return whether the expression `text` is just the column `name`."""
    return normal(text) == normal(column_text(name))


def _listed(columns: Named) -> str:
    terms = (n if is_column(text, n) else f"{n} = {normal(text)}" for n, text in columns)
    return ", ".join(terms)


@dataclass(frozen=True)
class Transform:
    """A step, checked against the schema of its input; `schema` is the schema after the step."""

    schema: pa.Schema
    step: Step
    condition: Expression | None
    columns: tuple[Expression | str, ...]
    """For each field of `schema`: an expression, or the name of the unchanged input column."""

    @classmethod
    def of(cls, step: Step, before: pa.Schema) -> Transform:
        """Return `step` for tables of schema `before`; raise SpecError if the step does not fit."""
        if isinstance(step, Where):
            condition = Expression.over(step.condition, before)
            (kind,) = types_of(before, [condition])
            if not pa.types.is_boolean(kind):
                raise SpecError(
                    f"where: {step.condition!r} has type {kind}, so it is not a condition; write "
                    f"one, like 'speed > 0'"
                )
            return cls(before, step, condition, tuple(before.names))
        kept = before.names if isinstance(step, WithColumns) else []
        columns: dict[str, Expression | str] = {name: name for name in kept}
        for name, text in step.columns:
            expression = Expression.over(text, before)
            columns[name] = expression.reads[0] if expression.is_column else expression
        return cls(_schema(columns, before), step, None, tuple(columns.values()))

    def __str__(self) -> str:
        return str(self.step)

    def origin(self, column: str) -> str | None:
        """Return the name of `column` before the step; None if the step computes the column."""
        origin = dict(zip(self.schema.names, self.columns, strict=True)).get(column)
        return origin if isinstance(origin, str) else None

    def kept(self, table: pa.Table) -> np.ndarray | None:
        """Return a mask of the rows that a filter keeps; None if the step is not a filter."""
        if self.condition is None:
            return None
        (keep,) = evaluate(table, [self.condition])
        return np.asarray(pc.fill_null(keep, False).to_numpy(zero_copy_only=False), bool)

    def over(self, before: pa.Schema, kept: str) -> Transform:
        """Return the step for tables of schema `before`, which keeps their column `kept`."""
        step = self.step
        if isinstance(step, Select) and kept not in dict(step.columns):
            step = Select((*step.columns, (kept, column_text(kept))))
        return Transform.of(step, before)

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return `table` after the step."""
        keep = self.kept(table)
        if keep is not None:
            return table.filter(pa.array(keep))
        expressions = [c for c in self.columns if isinstance(c, Expression)]
        values = iter(evaluate(table, expressions) if expressions else [])
        columns = [
            table.column(column) if isinstance(column, str) else next(values).cast(field.type)
            for column, field in zip(self.columns, self.schema, strict=True)
        ]
        return pa.table(columns, schema=self.schema)


def _schema(columns: dict[str, Expression | str], before: pa.Schema) -> pa.Schema:
    expressions = [c for c in columns.values() if isinstance(c, Expression)]
    types = map(plain_type, types_of(before, expressions) if expressions else [])
    fields = [
        before.field(c).with_name(name) if isinstance(c, str) else pa.field(name, next(types))
        for name, c in columns.items()
    ]
    return pa.schema(fields)
