"""Names and conditions in a text: how they are looked up, quoted, compared and combined."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from sqlglot import exp

from lowwater.cql.dialect import normal_form
from lowwater.expressions.evaluate import column_text
from lowwater.operators.join.plan import Time
from lowwater.operators.window.plan import SECOND


def find(name: str, names: Iterable[str]) -> str | None:
    """Return the known name that equals a name, by case first, then without; else None."""
    known = list(names)
    if name in known:
        return name
    return next((other for other in known if other.lower() == name.lower()), None)


def identifier(name: str) -> exp.Identifier:
    """Return a name as an identifier, in back quotes where the language needs them.

    >>> identifier("seg-id").sql("spark"), identifier("speed").sql("spark")
    ('`seg-id`', 'speed')
    """
    return exp.Identifier(this=name, quoted=column_text(name) != name)


def column(name: str) -> exp.Column:
    """Return a column by its name."""
    return exp.Column(this=identifier(name))


def same(node: exp.Expr, other: exp.Expr) -> bool:
    """Return whether two expressions have the same text, apart from quotes."""
    first, second = (n.sql("spark", comments=False, identify=True) for n in (node, other))
    return first == second


def spark_text(node: exp.Expr) -> str:
    """Return an expression as text of Spark SQL."""
    return node.sql("spark", comments=False)


def default_name(node: exp.Expr) -> str:
    """Return the name of a column without AS: its own text."""
    return node.name if isinstance(node, exp.Column) else normal_form(node)


STARTS = tuple(
    exp.Column(this=identifier("start"), table=identifier(name)) for name in ("window", SECOND)
)
"""The starts of both windows in a result: the two times of its group."""


def conjunction(conditions: Iterable[exp.Expr]) -> exp.Expr:
    """Return conditions as one, connected by AND."""
    parts = [part.copy() for part in conditions]
    if len(parts) == 1:
        return parts[0]
    closed = [exp.Paren(this=part) if isinstance(part, exp.Or) else part for part in parts]
    return reduce(lambda first, part: exp.And(this=first, expression=part), closed)


def extreme_of(node: exp.Expr) -> tuple[Time, list[exp.Expr]] | None:
    """Return word and arguments of `max(a.ts, b.ts)` or `min(…)` over one row, else None."""
    if isinstance(node, exp.Greatest | exp.Least):
        return "max" if isinstance(node, exp.Greatest) else "min", [node.this, *node.expressions]
    if isinstance(node, exp.Anonymous) and len(node.expressions) > 1:
        word = node.name.lower()
        if word in ("max", "min"):
            return word, list(node.expressions)  # type: ignore[return-value]  # one of both
    return None
