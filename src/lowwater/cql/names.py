"""Helpers that find, quote, compare and combine names and conditions of a CQL text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from sqlglot import exp

from lowwater.cql.dialect import normal_form
from lowwater.expressions.evaluate import column_text
from lowwater.operators.join.plan import Time
from lowwater.operators.window.plan import SECOND


def find(name: str, names: Iterable[str]) -> str | None:
    """Return the entry of `names` that equals `name`, ignoring case; prefer an exact match."""
    equal = [known for known in names if known.lower() == name.lower()]
    return name if name in equal else next(iter(equal), None)


def identifier(name: str) -> exp.Identifier:
    """Return `name` as an identifier, in back quotes if Spark SQL needs them.

    >>> identifier("seg-id").sql("spark"), identifier("speed").sql("spark")
    ('`seg-id`', 'speed')
    """
    return exp.Identifier(this=name, quoted=column_text(name) != name)


def column(*path: str) -> exp.Column:
    """Return the column whose dotted name has the parts `path`, such as a stream and its column.

    >>> column("a", "ts").sql("spark")
    'a.ts'
    """
    *before, last = map(identifier, path)
    owners = zip(("table", "db", "catalog"), reversed(before), strict=False)
    return exp.Column(this=last, **dict(owners))


def same(node: exp.Expr, other: exp.Expr) -> bool:
    """Return whether `node` and `other` have the same text, apart from quotes."""
    first, second = (n.sql("spark", comments=False, identify=True) for n in (node, other))
    return first == second


def spark_text(node: exp.Expr) -> str:
    """Return `node` as Spark SQL text."""
    return node.sql("spark", comments=False)


def default_name(node: exp.Expr) -> str:
    """Return the name of a SELECT item `node` without AS: its column's name, else its text."""
    return node.name if isinstance(node, exp.Column) else normal_form(node)


STARTS = (column("window", "start"), column(SECOND, "start"))
"""The starts of the two windows of a result; for `GROUP BY a.ts, b.ts`, these are the times."""


def conjunction(conditions: Iterable[exp.Expr]) -> exp.Expr:
    """Return one condition: all `conditions`, connected by AND."""
    parts = [part.copy() for part in conditions]
    if len(parts) == 1:
        return parts[0]
    closed = [exp.Paren(this=part) if isinstance(part, exp.Or) else part for part in parts]
    return reduce(lambda first, part: exp.And(this=first, expression=part), closed)


def extreme_of(node: exp.Expr) -> tuple[Time, list[exp.Expr]] | None:
    """Return ("max" or "min", arguments) of a call like `max(a.ts, b.ts)`; None for other nodes."""
    if isinstance(node, exp.Greatest | exp.Least):
        return "max" if isinstance(node, exp.Greatest) else "min", [node.this, *node.expressions]
    if isinstance(node, exp.Anonymous) and len(node.expressions) > 1:
        word = node.name.lower()
        if word in ("max", "min"):
            return word, list(node.expressions)  # type: ignore[return-value]  # one of both
    return None
