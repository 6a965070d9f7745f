"""What is made of the aggregates of a window: expressions over them, and HAVING."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from lowwater.aggregates import Aggregate
from lowwater.cql.items import Items
from lowwater.cql.mistakes import told_at
from lowwater.cql.names import column, default_name, find, spark_text
from lowwater.errors import CqlError
from lowwater.query import Query, Stream
from lowwater.sources import Select
from lowwater.sources.expressions import column_text


class Results:
    """The aggregates of a query, also those that only stand inside expressions.

    `times` are keys that are no columns of results, with what they are instead.
    """

    def __init__(self, items: Items, times: Mapping[str, exp.Expr] | None = None) -> None:
        self.items, self.times = items, dict(times or {})
        self.aggregates: dict[str, Aggregate] = items.aggregates()
        shown = list(self.aggregates)
        self.given: dict[str, exp.Expr | None] = {}
        """The columns of SELECT in their order; those that are expressions with what they are."""
        for item in items.shown():
            name = item.alias or default_name(items.bare(item))
            if name in self.given or name in items.grouped:
                raise items.mistake(f"{name!r} stands twice", item, "name one with AS")
            composed = item in items.composed
            self.given[name] = self._over_results(item.unalias()) if composed else None
        having = items.select.args.get("having")
        self.having = None if having is None else (having.this, self._over_results(having.this))
        self.plain = not self.times and not items.composed and shown == list(self.aggregates)

    def after(self, query: Query) -> Stream:
        """Return the results of the query that SELECT and HAVING ask for."""
        stream: Stream = query
        if self.having is not None:
            written, condition = self.having
            with told_at(self.items.scope.text, written):
                stream = stream.where(spark_text(condition))
        if self.plain:
            return stream
        given = {**dict.fromkeys(query.plan.keys), **self.given}
        always = (name for name in self.items.always if name != "kind")
        columns = {**dict.fromkeys(always), **self.times, **given, "kind": None}
        told = [(n, column_text(n) if e is None else spark_text(e)) for n, e in columns.items()]
        with told_at(self.items.scope.text, self.items.select):
            return stream.after(Select(tuple(told)))

    def _over_results(self, node: exp.Expr) -> exp.Expr:
        """Return an expression over the columns of results."""
        items = self.items

        def found(part: exp.Expr) -> exp.Expr:
            if items.is_call(part):
                return column(self._name(part))
            key = self._key(part)
            if key is not None:
                return self.times.get(key, column(key)).copy()
            return self._named(part) if isinstance(part, exp.Column) else part

        return node.transform(found)

    def _key(self, part: exp.Expr) -> str | None:
        try:
            return self.items.key_of(part)
        except CqlError:  # a name of SELECT, or a column of results: no column of the stream
            return None

    def _name(self, call: exp.Expr) -> str:
        """Return what an aggregate is called, which is computed if it is not yet."""
        wanted = self.items.aggregate(call)
        for name, known in self.aggregates.items():
            if known == wanted:
                return name
        name = default_name(self.items.bare(call))
        self.aggregates[name] = wanted
        return name

    def _named(self, node: exp.Column) -> exp.Expr:
        """Return a column that results always have, or what SELECT calls by that name."""
        path = [part.name for part in node.parts]
        if path[0].lower() in self.items.always:
            return node
        alias = find(path[0], [item.alias for item in self.items.shown() if item.alias])
        if len(path) == 1 and alias is not None:
            item = next(item for item in self.items.shown() if item.alias == alias)
            return self._over_results(item.unalias())
        raise self.items.neither(node)
