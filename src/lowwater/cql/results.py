"""What is made of the aggregates of a window: expressions over them, and HAVING."""

from __future__ import annotations

from sqlglot import exp

from lowwater.aggregates import Aggregate
from lowwater.cql.items import ALWAYS, Items
from lowwater.cql.mistakes import told_at
from lowwater.cql.names import column, default_name, find, spark_text
from lowwater.errors import CqlError
from lowwater.query import Query, Stream
from lowwater.sources import Select
from lowwater.sources.expressions import column_text


class Results:
    """The aggregates of a query, also those that only stand inside expressions."""

    def __init__(self, items: Items) -> None:
        self.items = items
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
        self.plain = not items.composed and shown == list(self.aggregates)

    def after(self, query: Query) -> Stream:
        """Return the results of the query that SELECT and HAVING ask for."""
        stream: Stream = query
        if self.having is not None:
            written, condition = self.having
            with told_at(self.items.scope.text, written):
                stream = stream.where(spark_text(condition))
        if self.plain:
            return stream
        keys = query.plan.keys
        columns = {name: column_text(name) for name in ("window", "wid", *keys)}
        for name, node in self.given.items():
            columns[name] = column_text(name) if node is None else spark_text(node)
        columns["kind"] = "kind"
        with told_at(self.items.scope.text, self.items.select):
            return stream.after(Select(tuple(columns.items())))

    def _over_results(self, node: exp.Expr) -> exp.Expr:
        """Return an expression over the columns of results."""
        items = self.items

        def found(part: exp.Expr) -> exp.Expr:
            if items.is_call(part):
                return column(self._name(part))
            key = self._key(part)
            if key is not None:
                return column(key)
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
        if path[0].lower() in ALWAYS:
            return node
        alias = find(path[0], [item.alias for item in self.items.shown() if item.alias])
        if len(path) == 1 and alias is not None:
            item = next(item for item in self.items.shown() if item.alias == alias)
            return self._over_results(item.unalias())
        raise self.items.neither(node)
