"""From a tree to a query: the same calls that a user of the builder makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sqlglot import exp

from lowwater.aggregates import Aggregate
from lowwater.cql.dialect import normal_form, parse
from lowwater.cql.items import Items
from lowwater.cql.mistakes import meant, mistake
from lowwater.cql.names import Scope, spark_text
from lowwater.cql.nodes import Kept, StreamUnion, StreamWindow, Windowed
from lowwater.cql.windows import words_of
from lowwater.errors import CqlError, SpecError
from lowwater.query import Query, Stream

_BUILT = {"expressions", "from", "from_", "where", "group", "kind"}
_NAMED = {"this", "db", "catalog", "alias", "expressions"}
_NOT_YET = {
    "joins": "a join of streams",
    "having": "HAVING",
    "order": "ORDER BY",
    "limit": "LIMIT",
    "distinct": "SELECT DISTINCT",
    "with": "WITH",
    "with_": "WITH",
}


def query_of(text: str, streams: Mapping[str, Stream]) -> Query:
    """Build the query that a text describes, over streams by name."""
    if not isinstance(text, str):
        raise SpecError(f"sql({text!r}): give the query as text")
    for name, stream in streams.items():
        if not isinstance(stream, Stream):
            raise SpecError(f"{name}={stream!r} is no stream; make one with lw.stream(...)")
    return _Builder(text, streams).query(parse(text))


class _Builder:
    """Builds from a tree, and knows the text for what it has to say about it."""

    def __init__(self, text: str, streams: Mapping[str, Stream]) -> None:
        self.text = text
        self.streams = {name.lower(): stream for name, stream in streams.items()}

    def query(self, tree: exp.Expr) -> Query:
        """Build a query."""
        if not isinstance(tree, exp.Select):
            raise self._not_yet("a union of queries", tree)
        source = self._source(tree)
        if not isinstance(source, Windowed):
            raise self._no_window(source)
        scope = self._filtered(self._scope(source.this), tree)
        items = Items(scope, tree)
        keys, aggregates = items.keys(), items.aggregates()
        return self._windowed(scope, source.args["window"], items, keys, aggregates)

    def _windowed(
        self,
        scope: Scope,
        window: StreamWindow,
        items: Items,
        keys: list[str],
        aggregates: dict[str, Aggregate],
    ) -> Query:
        stream = scope.stream
        with self._told_at(items.select):
            if items.computed:
                stream = stream.with_columns(**items.computed)
        with self._told_at(window):
            windowed = stream.window(**words_of(window, scope))
        items.check_columns(windowed.partition)
        with self._told_at(items.select):
            return windowed.group_by(*keys).agg(**aggregates)

    # -- where rows come from ---------------------------------------------------------------------

    def _source(self, select: exp.Select) -> exp.Expr:
        for name, value in select.args.items():
            if value and name not in _BUILT:
                node = value[0] if isinstance(value, list) else value
                at = node if isinstance(node, exp.Expr) else select
                raise self._not_yet(_NOT_YET.get(name, name.upper()), at)
        found = select.args.get("from_") or select.args.get("from")
        if found is None:
            raise mistake("a query needs FROM and a stream", self.text, select)
        source: exp.Expr = found.this
        if isinstance(source, Kept):
            raise self._not_yet("KEEP", source)
        return source

    def _no_window(self, source: exp.Expr) -> CqlError:
        if isinstance(source, StreamUnion):
            return self._not_yet("a union of streams", source)
        return mistake(
            "the stream needs a window",
            self.text,
            source,
            "write one behind it, for example [RANGE 5 minutes SLIDE 1 minute]",
        )

    def _scope(self, source: exp.Expr) -> Scope:
        alias = source.args.get("alias")
        more = [name for name, value in source.args.items() if value and name not in _NAMED]
        if more or (alias is not None and alias.args.get("columns")):
            raise self._not_yet(f"{normal_form(source)!r}", source)
        if isinstance(source, exp.Subquery):
            stream = self._inner(source)
        elif isinstance(source, exp.Table):
            stream = self._named(source)
        else:
            raise self._not_yet("a union of streams", source)
        return Scope(self.text, stream, frozenset({(source.alias or source.name).lower()}))

    def _named(self, table: exp.Table) -> Stream:
        found = self.streams.get(table.name.lower())
        if found is None or table.db:
            told = f"{normal_form(table)!r} is no stream"
            names = ", ".join(self.streams) or "none"
            otherwise = f"these were given: {names}; give others as {table.name}=..."
            raise mistake(
                told, self.text, table, meant(table.name, self.streams, otherwise=otherwise)
            )
        return found

    def _inner(self, subquery: exp.Subquery) -> Stream:
        """Return the stream of a query without a window: rows, filtered and computed."""
        select = subquery.this
        if not isinstance(select, exp.Select):
            raise self._not_yet("a union of queries", subquery)
        source = self._source(select)
        if isinstance(source, Windowed) or select.args.get("group"):
            raise self._not_yet("a query over the results of another", subquery)
        scope = self._filtered(self._scope(source), select)
        with self._told_at(select):
            return _projected(scope, select)

    def _filtered(self, scope: Scope, select: exp.Select) -> Scope:
        where = select.args.get("where")
        if where is None:
            return scope
        condition = scope.bare(where.this)
        with self._told_at(where.this):
            stream = scope.stream.where(spark_text(condition))
        return Scope(scope.text, stream, scope.known_as)

    # -- what is wrong ----------------------------------------------------------------------------

    @contextmanager
    def _told_at(self, node: exp.Expr) -> Iterator[None]:
        """Say of what the builder refuses where it stands in the text."""
        try:
            yield
        except CqlError:
            raise
        except SpecError as problem:
            raise mistake(str(problem), self.text, node) from problem

    def _not_yet(self, what: str, node: exp.Expr) -> CqlError:
        return mistake(f"{what} can be read, but not be run yet", self.text, node)


def _projected(scope: Scope, select: exp.Select) -> Stream:
    """Return the stream after SELECT: `*` and more adds columns, anything else chooses them."""
    items = list(select.expressions)
    every = bool(items) and isinstance(items[0], exp.Star)
    columns: dict[str, str] = {}
    for item in items[every:]:
        node = scope.bare(item.unalias())
        plain = isinstance(node, exp.Column) and not node.table
        name = item.alias or (node.name if plain else "")
        if not name or isinstance(node, exp.Star):
            raise mistake(
                "a column needs a name", scope.text, item, "write AS and a name behind it"
            )
        columns[name] = spark_text(node)
    if not every:
        return scope.stream.select(**columns)
    return scope.stream.with_columns(**columns) if columns else scope.stream
