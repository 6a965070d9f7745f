"""SELECT over rows: which columns there are, and what they are called."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from lowwater.cql.joining import extreme_of
from lowwater.cql.mistakes import mistake, told_at
from lowwater.cql.names import Scope, spark_text
from lowwater.sources import Select, WithColumns
from lowwater.sources.expressions import column_text


def projected(scope: Scope, select: exp.Select) -> Scope:
    """Return the stream after SELECT: `*` and more adds columns, anything else chooses them."""
    items = list(select.expressions)
    every = bool(items) and isinstance(items[0], exp.Star)
    columns: dict[str, str] = {}
    for item in items[every:]:
        for name, text in _columns(scope, item).items():
            if name in columns:
                raise mistake(f"{name!r} stands twice", scope.text, item, "name one with AS")
            columns[name] = text
    found = _chosen(scope, select, columns, every=every)
    if not select.args.get("distinct"):
        return found
    with told_at(scope.text, select):
        return replace(found, stream=found.stream.distinct())


def _chosen(scope: Scope, select: exp.Select, columns: dict[str, str], *, every: bool) -> Scope:
    stream = scope.stream
    if every:
        # A column that is what it was is no step: `SELECT *, max(a.ts, b.ts) AS time_max`.
        new = [(n, t) for n, t in columns.items() if not _is_there(scope, n, t)]
        with told_at(scope.text, select):
            return replace(scope, stream=stream.after(WithColumns(tuple(new)))) if new else scope
    with told_at(scope.text, select):
        made = stream.after(Select(tuple(columns.items())))
    called = {text: name for name, text in reversed(columns.items())}
    known = {
        owner: {
            c: called[column_text(now)] for c, now in owned.items() if column_text(now) in called
        }
        for owner, owned in scope.known.items()
    }
    return Scope(scope.text, made, known)


def _is_there(scope: Scope, name: str, text: str) -> bool:
    return name in scope.stream.schema.names and text == column_text(name)


def _columns(scope: Scope, item: exp.Expr) -> dict[str, str]:
    """Return what an item of SELECT gives, by name."""
    node = item.unalias()
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return {name: column_text(name) for name in _all_of(scope, node)}
    bare = scope.bare(_of_one_row(node))
    plain = isinstance(bare, exp.Column) and not bare.table
    name = item.alias or (bare.name if plain else "")
    if not name or isinstance(node, exp.Star):
        raise mistake("a column needs a name", scope.text, item, "write AS and a name behind it")
    return {name: column_text(bare.name) if plain else spark_text(bare)}


def _all_of(scope: Scope, node: exp.Column) -> list[str]:
    owner = scope.known.get(node.table.lower())
    if owner is None:
        raise mistake(f"{node.table!r} is no stream here", scope.text, node)
    return list(owner.values())


def _of_one_row(node: exp.Expr) -> exp.Expr:
    """Write `max(a, b)`, which is about one row, as Spark does."""

    def written(part: exp.Expr) -> exp.Expr:
        found = extreme_of(part) if isinstance(part, exp.Anonymous) else None
        if found is None:
            return part
        kind = exp.Greatest if found[0] == "max" else exp.Least
        first, *rest = found[1]
        return kind(this=first, expressions=rest, ignore_nulls=True)

    return node.transform(written)
