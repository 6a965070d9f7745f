"""Builds SELECT over rows, and SELECT and HAVING over the aggregates of a window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from lowwater.aggregates.aggregate import Aggregate
from lowwater.cql.build.items import Items
from lowwater.cql.build.scope import Scope
from lowwater.cql.errors import cql_error, errors_at
from lowwater.cql.names import column, extreme_of, find, spark_text
from lowwater.errors import CqlError
from lowwater.expressions.evaluate import column_text
from lowwater.expressions.steps import Select, WithColumns
from lowwater.query.stream import Query, Stream


def project(scope: Scope, select: exp.Select) -> Scope:
    """Apply SELECT and return the new scope; if SELECT begins with `*`, it keeps all columns."""
    items = list(select.expressions)
    every = bool(items) and isinstance(items[0], exp.Star)
    columns: dict[str, str] = {}
    for item in items[every:]:
        for name, text in _columns(scope, item).items():
            if name in columns:
                problem = f"two columns have the name {name!r}"
                raise cql_error(problem, scope.text, item, "rename one with AS")
            columns[name] = text
    chosen = _choose(scope, select, columns, every=every)
    if not select.args.get("distinct"):
        return chosen
    with errors_at(scope.text, select):
        return replace(chosen, stream=chosen.stream.distinct())


def _choose(scope: Scope, select: exp.Select, columns: dict[str, str], *, every: bool) -> Scope:
    """Return the scope of `columns`, {name: text}; if `every`, keep all other columns, too."""
    stream = scope.stream
    if every:
        # An unchanged column needs no step: `SELECT *, max(a.ts, b.ts) AS time_max`.
        unchanged = [(n, column_text(n)) for n in stream.schema.names]
        new = tuple(column for column in columns.items() if column not in unchanged)
        with errors_at(scope.text, select):
            return replace(scope, stream=stream.after(WithColumns(new))) if new else scope
    with errors_at(scope.text, select):
        result = stream.after(Select(tuple(columns.items())))
    chosen = {text: name for name, text in reversed(columns.items())}
    known = {}
    for owner, owned in scope.known.items():
        names = {old: chosen.get(column_text(current)) for old, current in owned.items()}
        known[owner] = {old: name for old, name in names.items() if name is not None}
    return Scope(scope.text, result, known)


def _columns(scope: Scope, item: exp.Expr) -> dict[str, str]:
    """Return {name: Spark SQL text} of the columns that `item` of SELECT describes."""
    node = item.unalias()
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        owner = scope.known.get(node.table.lower())
        if owner is None:
            hint = f"streams in it are: {', '.join(scope.known) or 'none with a name'}"
            raise cql_error(f"{node.table!r} is not a stream in this FROM", scope.text, node, hint)
        return {name: column_text(name) for name in owner.values()}
    bare = scope.bare(_of_one_row(node))
    plain = isinstance(bare, exp.Column) and not bare.table
    name = item.alias or (bare.name if plain else "")
    if not name or isinstance(node, exp.Star):
        raise cql_error("the column has no name", scope.text, item, "write AS and a name after it")
    return {name: column_text(bare.name) if plain else spark_text(bare)}


def _of_one_row(node: exp.Expr) -> exp.Expr:
    """Return `node` with `max(a, b)` replaced by Spark's `greatest(a, b)`, and `min` by `least`."""

    def replaced(part: exp.Expr) -> exp.Expr:
        extreme = extreme_of(part) if isinstance(part, exp.Anonymous) else None
        if extreme is None:
            return part
        kind = exp.Greatest if extreme[0] == "max" else exp.Least
        first, *rest = extreme[1]
        return kind(this=first, expressions=rest, ignore_nulls=True)

    return node.transform(replaced)


class Results:
    """The aggregates of a window query, and the SELECT and HAVING that use these aggregates.

    `times` maps each GROUP BY key that is not a column of the results to its expression.
    """

    def __init__(self, items: Items, times: Mapping[str, exp.Expr] | None = None) -> None:
        self.items, self.times = items, dict(times or {})
        self.aggregates: dict[str, Aggregate] = items.aggregates()
        shown = list(self.aggregates)
        self.given: dict[str, exp.Expr | None] = {}
        """The columns of SELECT in their order, each with its expression; None for an aggregate."""
        for item in items.shown():
            name = items.name_of(item)
            if name in self.given or name in items.grouped:
                problem = f"two columns have the name {name!r}"
                raise items.cql_error(problem, item, "rename one with AS")
            composed = item in items.composed
            self.given[name] = self._over_results(item.unalias()) if composed else None
        having = items.select.args.get("having")
        self.having = None if having is None else (having.this, self._over_results(having.this))
        self.plain = not self.times and not items.composed and shown == list(self.aggregates)

    def after(self, query: Query) -> Stream:
        """Return the results of `query` after HAVING and SELECT."""
        stream: Stream = query
        if self.having is not None:
            written, condition = self.having
            with errors_at(self.items.scope.text, written):
                stream = stream.where(spark_text(condition))
        if self.plain:
            return stream
        given = {**dict.fromkeys(query.plan.keys), **self.given}
        always = (name for name in self.items.always if name != "kind")
        columns = {**dict.fromkeys(always), **self.times, **given, "kind": None}
        texts = [(n, column_text(n) if e is None else spark_text(e)) for n, e in columns.items()]
        with errors_at(self.items.scope.text, self.items.select):
            return stream.after(Select(tuple(texts)))

    def _over_results(self, node: exp.Expr) -> exp.Expr:
        """Return `node` with its aggregate calls and keys replaced by columns of the results."""
        items = self.items

        def replaced(part: exp.Expr) -> exp.Expr:
            if items.is_call(part):
                return column(self._name(part))
            key = self._key(part)
            if key is not None:
                return self.times.get(key, column(key)).copy()
            return self._named(part) if isinstance(part, exp.Column) else part

        return node.transform(replaced)

    def _key(self, part: exp.Expr) -> str | None:
        try:
            return self.items.key_of(part)
        except CqlError:  # `part` is an alias of SELECT, or a column of results
            return None

    def _name(self, call: exp.Expr) -> str:
        """Return the result column of the aggregate `call`; add it to `aggregates` if it is new."""
        wanted = self.items.aggregate(call)
        name = next((n for n, known in self.aggregates.items() if known == wanted), None)
        if name is None:
            name = self.items.name_of(call)
            self.aggregates[name] = wanted
        return name

    def _named(self, node: exp.Column) -> exp.Expr:
        """Return `node` if all results have this column, else the SELECT item with this alias."""
        path = [part.name for part in node.parts]
        if path[0].lower() in self.items.always:
            return node
        alias = find(path[0], [item.alias for item in self.items.shown() if item.alias])
        if len(path) == 1 and alias is not None:
            item = next(item for item in self.items.shown() if item.alias == alias)
            return self._over_results(item.unalias())
        raise self.items.neither(node)
