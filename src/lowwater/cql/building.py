"""From a tree to a query: the same calls that a user of the builder makes."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from lowwater.cql.dialect import normal_form, parse
from lowwater.cql.items import Items
from lowwater.cql.joining import extreme_of, joined
from lowwater.cql.mistakes import meant, mistake, not_yet, told_at
from lowwater.cql.names import Scope
from lowwater.cql.nodes import Kept, StreamUnion, Windowed
from lowwater.cql.pairs import paired
from lowwater.cql.projecting import projected
from lowwater.cql.results import Results
from lowwater.cql.sides import Side
from lowwater.cql.windows import words_of
from lowwater.errors import CqlError, SpecError
from lowwater.query import Stream

_BUILT = {
    "expressions", "from", "from_", "joins", "where", "group", "having", "kind", "distinct",
}  # fmt: skip
_NAMED = {"this", "db", "catalog", "alias", "expressions"}
_NOT_YET = {"limit": "LIMIT", "with": "WITH", "with_": "WITH"}


def query_of(text: str, streams: Mapping[str, Stream]) -> Stream:
    """Build the query that a text describes, over streams by name."""
    if not isinstance(text, str):
        raise SpecError(f"sql({text!r}): give the query as text")
    for name, stream in streams.items():
        if not isinstance(stream, Stream):
            raise SpecError(f"{name}={stream!r} is no stream; make one with lw.stream(...)")
    return _Builder(text, streams).scope(parse(text)).stream


class _Builder:
    """Builds from a tree, and knows the text for what it has to say about it."""

    def __init__(self, text: str, streams: Mapping[str, Stream]) -> None:
        self.text = text
        self.streams = {name.lower(): stream for name, stream in streams.items()}

    def scope(self, tree: exp.Expr) -> Scope:
        """Build a query; its columns may still be called by the streams that they are of."""
        if isinstance(tree, exp.Subquery) and not tree.alias:
            return self.scope(tree.this)
        if isinstance(tree, exp.Union):
            return self._union_of_queries(tree)
        if not isinstance(tree, exp.Select):
            raise not_yet(f"{normal_form(tree)!r}", self.text, tree)
        source = self._checked(tree)
        if isinstance(source, Windowed) and not tree.args.get("joins"):
            return self._aggregated(self._filtered(self._source(source.this), tree), source, tree)
        if not _has_aggregates(tree):
            return projected(self._rows(tree, source), tree)
        # What SELECT names says what the rows of a join progress on; groups are no rows.
        rows = tree.copy()
        rows.set("expressions", [exp.Star()])
        found = paired(self._rows(rows, source), tree)
        if found is None:
            raise self._needs_a_window(tree, source)
        return found

    def _rows(self, select: exp.Select, source: exp.Expr) -> Scope:
        """Return the rows of FROM and WHERE."""
        joins = select.args.get("joins")
        if not joins:
            return self._filtered(self._source(source), select)
        nodes = [source, *(join.this for join in joins)]
        return joined(select, [Side.of(node, self._inside(node)) for node in nodes])

    def _checked(self, select: exp.Select) -> exp.Expr:
        """Return what stands in FROM, of a query that has nothing that cannot be built."""
        for name, value in select.args.items():
            if value and name not in _BUILT:
                node = value[0] if isinstance(value, list) else value
                at = node if isinstance(node, exp.Expr) else select
                raise self._refused(name, at)
        found = select.args.get("from_") or select.args.get("from")
        if found is None:
            raise mistake("a query needs FROM and a stream", self.text, select)
        source: exp.Expr = found.this
        return source

    def _refused(self, clause: str, at: exp.Expr) -> CqlError:
        if clause == "order":
            return mistake(
                "ORDER BY can be read, but not be run: a stream has no end at which it could be "
                "sorted",
                self.text,
                at,
                "stream.order('time') gives rows in the order of their time",
            )
        return not_yet(_NOT_YET.get(clause, clause.upper()), self.text, at)

    def _aggregated(self, scope: Scope, source: Windowed, select: exp.Select) -> Scope:
        """Build a query over windows."""
        window = source.args["window"]
        items = Items(scope, select, on_both=isinstance(window.args.get("wattr"), list))
        keys, results = items.keys(), Results(items)
        stream = items.prepared()
        with told_at(self.text, window):
            windowed = stream.window(**words_of(window, scope))
        items.check_columns(windowed.partition)
        with told_at(self.text, select):
            query = windowed.group_by(*keys).agg(**results.aggregates)
        return Scope.of(self.text, results.after(query), "")

    def _needs_a_window(self, select: exp.Select, source: exp.Expr) -> CqlError:
        if not select.args.get("joins"):
            hint = "write one behind it, for example [RANGE 5 minutes SLIDE 1 minute]"
            return mistake("the stream needs a window", self.text, source, hint)
        hint = (
            "write one between SELECT and FROM: it is over the join; an inner join can also be "
            "grouped by the times of both streams"
        )
        return mistake("the join needs a window", self.text, source, hint)

    # -- where rows come from ---------------------------------------------------------------------

    def _inside(self, node: exp.Expr) -> Scope:
        """Return a stream of a join, without its window."""
        return self._source(node.this if isinstance(node, Windowed | Kept) else node)

    def _source(self, source: exp.Expr) -> Scope:
        if isinstance(source, Kept):
            raise mistake(
                "KEEP is for the streams of a join", self.text, source, "write [RANGE …] instead"
            )
        alias = source.args.get("alias")
        more = [name for name, value in source.args.items() if value and name not in _NAMED]
        if more or (alias is not None and alias.args.get("columns")):
            raise not_yet(f"{normal_form(source)!r}", self.text, source)
        name = source.alias or source.name
        if isinstance(source, StreamUnion):
            return Scope.of(self.text, self._union(source), source.alias)
        if isinstance(source, exp.Table):
            return Scope.of(self.text, self._named(source), name)
        if not isinstance(source, exp.Subquery):
            raise not_yet(f"{normal_form(source)!r}", self.text, source)
        inner = self.scope(source.this)
        return Scope.of(self.text, inner.stream, source.alias) if source.alias else inner.closed()

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

    def _union(self, union: StreamUnion) -> Stream:
        """Return several streams as one."""
        first, *others = (self._source(member).stream for member in union.expressions)
        with told_at(self.text, union):
            return first.union(*others)

    def _union_of_queries(self, tree: exp.Union) -> Scope:
        if tree.args.get("distinct") or tree.args.get("by_name"):
            raise mistake(
                "queries flow together, whatever they have in common",
                self.text,
                tree.expression,
                "write UNION ALL",
            )
        first, second = (self.scope(part).stream for part in (tree.this, tree.expression))
        with told_at(self.text, tree.expression):
            return Scope.of(self.text, first.union(second), "")

    @staticmethod
    def _filtered(scope: Scope, select: exp.Select) -> Scope:
        where = select.args.get("where")
        return scope if where is None else scope.where(where.this)


def _has_aggregates(select: exp.Select) -> bool:
    calls = [call for item in select.expressions for call in Items.calls(item)]
    called = any(extreme_of(call) is None for call in calls)
    return called or bool(select.args.get("group") or select.args.get("having"))
