"""What is done to rows before they are cut into windows: filters and computed columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.errors import SpecError
from lowwater.expressions.evaluate import (
    Expression,
    checked,
    column_text,
    evaluate,
    normal,
    types_of,
)
from lowwater.schema import plain

Named: TypeAlias = tuple[tuple[str, str], ...]
"""Columns by name, each with its expression."""


@dataclass(frozen=True)
class Where:
    """Keeps the rows for which a condition is true; the query ignores the others."""

    condition: str

    def __post_init__(self) -> None:
        checked(self.condition, "where: ")

    def __str__(self) -> str:
        return f"where {normal(self.condition)}"


@dataclass(frozen=True)
class WithColumns:
    """Adds computed columns, or puts them in the place of those there are."""

    columns: Named

    def __post_init__(self) -> None:
        for name, text in self.columns:
            checked(text, f"with_columns: {name}=")

    def __str__(self) -> str:
        return f"with {_told(self.columns)}"


@dataclass(frozen=True)
class Select:
    """Gives exactly these columns."""

    columns: Named

    def __post_init__(self) -> None:
        names = [name for name, _ in self.columns]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise SpecError(f"select: the column {twice[0]!r} is named twice")
        for name, text in self.columns:
            checked(text, f"select: {name}=")

    def __str__(self) -> str:
        return f"select {_told(self.columns)}"


Step: TypeAlias = Where | WithColumns | Select


def called_after(step: Step, column: str) -> str | None:
    """Return what a column is called after a step that chooses columns, if it is among them.

    >>> called_after(Select((("at", "ts"), ("n", "n + 1"))), "ts")
    'at'
    """
    if not isinstance(step, Select):
        return column
    chosen = dict(step.columns)
    if column in chosen:
        return column
    return next((name for name, text in step.columns if is_column(text, column)), None)


def is_column(text: str, name: str) -> bool:
    """Return whether an expression is only the column of a name."""
    return normal(text) == normal(column_text(name))


def _told(columns: Named) -> str:
    return ", ".join(
        name if is_column(text, name) else f"{name} = {normal(text)}" for name, text in columns
    )


@dataclass(frozen=True)
class Transform:
    """A step made ready for tables of one schema: which rows stay, what each column is made of."""

    schema: pa.Schema
    step: Step
    condition: Expression | None
    columns: tuple[Expression | str, ...]
    """In the order of the schema: an expression, or the column that is taken over."""

    @classmethod
    def of(cls, step: Step, before: pa.Schema) -> Transform:
        """Return a step for tables of one schema; raise SpecError if it does not fit them."""
        if isinstance(step, Where):
            condition = Expression.over(step.condition, before)
            (kind,) = types_of(before, [condition])
            if not pa.types.is_boolean(kind):
                raise SpecError(f"where: {step.condition!r} is a {kind}, not a condition")
            return cls(before, step, condition, tuple(before.names))
        made: dict[str, Expression | str] = {}
        if isinstance(step, WithColumns):
            made.update({name: name for name in before.names})
        for name, text in step.columns:
            found = Expression.over(text, before)
            made[name] = found.reads[0] if found.is_column else found
        return cls(_schema(made, before), step, None, tuple(made.values()))

    def __str__(self) -> str:
        return str(self.step)

    def carries(self, column: str) -> bool:
        """Return whether a column is the same as before."""
        return self.origin(column) == column

    def origin(self, column: str) -> str | None:
        """Return the column before the step that one after it is, as it was."""
        made = dict(zip(self.schema.names, self.columns, strict=True)).get(column)
        return made if isinstance(made, str) else None

    def kept(self, table: pa.Table) -> np.ndarray | None:
        """Return which rows a filter keeps; None if the step is not a filter."""
        if self.condition is None:
            return None
        (keep,) = evaluate(table, [self.condition])
        return np.asarray(pc.fill_null(keep, False).to_numpy(zero_copy_only=False), bool)

    def __call__(self, table: pa.Table) -> pa.Table:
        """Transform a table."""
        keep = self.kept(table)
        if keep is not None:
            return table.filter(pa.array(keep))
        asked = [made for made in self.columns if isinstance(made, Expression)]
        values = iter(evaluate(table, asked) if asked else [])
        found = [
            table.column(made) if isinstance(made, str) else next(values).cast(field.type)
            for made, field in zip(self.columns, self.schema, strict=True)
        ]
        return pa.table(found, schema=self.schema)


def _schema(made: dict[str, Expression | str], before: pa.Schema) -> pa.Schema:
    asked = [e for e in made.values() if isinstance(e, Expression)]
    types = iter(types_of(before, asked) if asked else [])
    fields = [
        before.field(e).with_name(name)
        if isinstance(e, str)
        else plain(pa.schema([(name, next(types))])).field(0)
        for name, e in made.items()
    ]
    return pa.schema(fields)
