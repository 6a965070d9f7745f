"""Builds a query from a syntax tree, with the same calls that a user writes in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from lowwater.cql.build.items import Items
from lowwater.cql.build.join import join_streams
from lowwater.cql.build.scope import Scope, Side
from lowwater.cql.build.select import Results, project
from lowwater.cql.dialect import normal_form, parse
from lowwater.cql.errors import cql_error, errors_at, suggestion, unsupported
from lowwater.cql.names import STARTS, extreme_of
from lowwater.cql.nodes import (
    ROW_NUM,
    KeepClause,
    RankOf,
    RowNumber,
    StreamUnion,
    StreamWindow,
    WindowedStream,
    number_of,
    span_of,
    value_of,
)
from lowwater.errors import CqlError, SpecError
from lowwater.query.stream import Stream
from lowwater.windows.axis import WindowTime
from lowwater.windows.row_windows import Rank, arrival

_BUILT = {
    "expressions", "from", "from_", "joins", "where", "group", "having", "kind", "distinct",
}  # fmt: skip
_NAMED = {"this", "db", "catalog", "alias", "expressions"}
_NOT_YET = {"limit": "LIMIT", "with": "WITH", "with_": "WITH"}


def query_of(text: str, streams: Mapping[str, Stream]) -> Stream:
    """Return the query that `text` describes; `streams` maps the names in FROM to streams."""
    if not isinstance(text, str):
        raise SpecError(
            f"lw.sql({text!r}): the first argument must be the text of a query: a SELECT in quotes"
        )
    for name, stream in streams.items():
        if not isinstance(stream, Stream):
            raise SpecError(
                f"lw.sql({name}={stream!r}) is not a stream; give a stream, from lw.stream(...) or "
                f"a query"
            )
    return _Builder(text, streams).scope(parse(text)).stream


class _Builder:
    """The builder of a query and its subqueries from the syntax tree of `text`."""

    def __init__(self, text: str, streams: Mapping[str, Stream]) -> None:
        self.text = text
        self.streams = {name.lower(): stream for name, stream in streams.items()}

    def scope(self, tree: exp.Expr) -> Scope:
        """Return the scope of the query `tree`: its stream, and the names of the columns."""
        if isinstance(tree, exp.Subquery) and not tree.alias:
            return self.scope(tree.this)
        if isinstance(tree, exp.Union):
            return self._union_of_queries(tree)
        if not isinstance(tree, exp.Select):
            raise unsupported(f"{normal_form(tree)!r}", self.text, tree)
        source = self._checked(tree)
        if isinstance(source, WindowedStream) and not tree.args.get("joins"):
            return self._aggregated(self._filtered(self._source(source.this), tree), source, tree)
        if not _has_aggregates(tree):
            return project(self._rows(tree, source), tree)
        # A join takes its time from SELECT, but this SELECT lists groups: give the join `*`.
        rows = tree.copy()
        rows.set("expressions", [exp.Star()])
        groups = two_time_groups(self._rows(rows, source), tree)
        if groups is not None:
            return groups
        hint = "write one after it, for example [RANGE 5 minutes SLIDE 1 minute]"
        if not tree.args.get("joins"):
            raise cql_error("the stream needs a window", self.text, source, hint)
        place = "between SELECT and FROM, or group an inner join by the times of both streams"
        raise cql_error("the join needs a window", self.text, source, f"write one {place}")

    def _rows(self, select: exp.Select, source: exp.Expr) -> Scope:
        """Return the scope of the rows that FROM and WHERE of `select` describe."""
        joins = select.args.get("joins")
        if not joins:
            return self._filtered(self._source(source), select)
        nodes = [source, *(join.this for join in joins)]
        bare = [n.this if isinstance(n, WindowedStream | KeepClause) else n for n in nodes]
        sides = [Side.of(n, self._source(b)) for n, b in zip(nodes, bare, strict=True)]
        return join_streams(select, sides)

    def _checked(self, select: exp.Select) -> exp.Expr:
        """Return the source in FROM; raise CqlError if `select` has an unsupported clause."""
        for name, value in select.args.items():
            if value and name not in _BUILT:
                node = value[0] if isinstance(value, list) else value
                raise self._unsupported(name, node if isinstance(node, exp.Expr) else select)
        clause = select.args.get("from_") or select.args.get("from")
        if clause is None:
            raise cql_error("the query has no FROM", self.text, select, "add FROM and a stream")
        source: exp.Expr = clause.this
        return source

    def _unsupported(self, clause: str, at: exp.Expr) -> CqlError:
        if clause == "order":
            problem = "ORDER BY is not supported: a stream has no end at which it could be sorted"
            hint = "stream.order('time') emits rows in the order of their time"
            return cql_error(problem, self.text, at, hint)
        return unsupported(_NOT_YET.get(clause, clause.upper()), self.text, at)

    def _aggregated(self, scope: Scope, source: WindowedStream, select: exp.Select) -> Scope:
        """Return the scope of the results of `select` over the windows of `source`."""
        window = source.args["window"]
        items = Items(scope, select, on_both=isinstance(window.args.get("wattr"), list))
        keys, results = items.keys(), Results(items)
        stream = items.prepared()
        with errors_at(self.text, window):
            windowed = stream.window(**window_arguments(window, scope))
        items.check_columns(windowed.partition)
        with errors_at(self.text, select):
            query = windowed.group_by(*keys).agg(**results.aggregates)
        return Scope.of(self.text, results.after(query), "")

    # -- sources ----------------------------------------------------------------------------------

    def _source(self, source: exp.Expr) -> Scope:
        if isinstance(source, KeepClause):
            hint = "write [RANGE …] instead"
            raise cql_error("KEEP can stand only in a join", self.text, source, hint)
        alias = source.args.get("alias")
        more = [name for name, value in source.args.items() if value and name not in _NAMED]
        if more or (alias is not None and alias.args.get("columns")):
            raise unsupported(f"{normal_form(source)!r}", self.text, source)
        if isinstance(source, StreamUnion):
            first, *others = (self._source(member).stream for member in source.expressions)
            with errors_at(self.text, source):
                return Scope.of(self.text, first.union(*others), source.alias)
        if isinstance(source, exp.Table):
            return Scope.of(self.text, self._named(source), source.alias or source.name)
        if not isinstance(source, exp.Subquery):
            raise unsupported(f"{normal_form(source)!r}", self.text, source)
        inner = self.scope(source.this)
        return Scope.of(self.text, inner.stream, source.alias) if source.alias else inner.closed()

    def _named(self, table: exp.Table) -> Stream:
        stream = self.streams.get(table.name.lower())
        if stream is None or table.db:
            problem = f"{normal_form(table)!r} is not a stream of this query"
            names = ", ".join(self.streams) or "none"
            otherwise = f"its streams are: {names}; pass others as {table.name}=..."
            hint = suggestion(table.name, self.streams, otherwise=otherwise)
            raise cql_error(problem, self.text, table, hint)
        return stream

    def _union_of_queries(self, tree: exp.Union) -> Scope:
        if tree.args.get("distinct") or tree.args.get("by_name"):
            problem = "UNION of queries would remove equal rows, which is not supported"
            raise cql_error(problem, self.text, tree.expression, "write UNION ALL")
        first, second = (self.scope(part).stream for part in (tree.this, tree.expression))
        with errors_at(self.text, tree.expression):
            return Scope.of(self.text, first.union(second), "")

    @staticmethod
    def _filtered(scope: Scope, select: exp.Select) -> Scope:
        where = select.args.get("where")
        return scope if where is None else scope.where(where.this)


def _has_aggregates(select: exp.Select) -> bool:
    calls = [call for item in select.expressions for call in Items.calls(item)]
    called = any(extreme_of(call) is None for call in calls)
    return called or bool(select.args.get("group") or select.args.get("having"))


def two_time_groups(scope: Scope, select: exp.Select) -> Scope | None:
    """Return the scope of `select`; None unless it groups a join by the times of both sides.

    Such a group (OOP Q3) is built as a pair of windows of one tick, `window` on the first time and
    `window_2` on the second. The starts of both windows are the times of the group.
    """
    stream = scope.stream
    if not stream.jointly:
        return None
    items = Items(scope, select, on_both=True)
    keys = items.keys()
    times = _times(items)
    if len(times) != len(STARTS):
        return None
    for name in times:
        if name in items.always:
            problem = f"results have a column {name!r} already"
            raise items.cql_error(problem, select, "rename it with AS")
        items.computed.pop(name, None)  # the times are the starts of the windows
    results = Results(items, dict(zip(times, STARTS, strict=True)))
    first, second = times.values()
    with errors_at(scope.text, select):
        windowed = items.prepared().window(range=span_of(stream.axis(first), 1), on=(first, second))
        items.check_columns(())
        query = windowed.group_by(*(key for key in keys if key not in times))
        return Scope.of(scope.text, results.after(query.agg(**results.aggregates)), "")


def _times(items: Items) -> dict[str, str]:
    """Return {group key: time column} for each side of the join whose time is a group key."""
    stream = items.scope.stream
    by_side: dict[int, tuple[str, str]] = {}
    for key, node in items.grouped.items():
        plain = isinstance(node, exp.Column) and not node.table
        side = stream.jointly.get(node.name) if plain else None
        # The time of a window result is an interval, which a window of one tick cannot represent.
        if side is not None and not isinstance(stream.axis(node.name), WindowTime):
            by_side.setdefault(side, (key, node.name))
    return dict(by_side.values())


def window_arguments(window: StreamWindow, scope: Scope) -> dict[str, Any]:
    """Return the arguments of `stream.window(...)` that the node `window` describes."""
    given = window.args
    if given.get("wattr") and (given.get("rattr") or given.get("sattr")):
        raise cql_error(
            "WATTR is the attribute of RANGE and SLIDE; RATTR and SATTR are the attributes of one",
            *(scope.text, given["wattr"], "write WATTR, or RATTR and SATTR"),
        )
    lengths = ("range", "slide", "gap", "allowed_lateness")
    arguments: dict[str, Any] = {n: value_of(given[n]) for n in lengths if given.get(n)}
    over = given.get("wattr") or given.get("rattr")
    if isinstance(over, list):
        arguments["on"] = tuple(_column(node, scope) for node in over)
    elif over:
        arguments["on"] = _attribute(over, scope)
    if given.get("sattr"):
        arguments["slide_on"] = _attribute(given["sattr"], scope)
    if given.get("pattr"):
        arguments["partition_by"] = [_column(node, scope) for node in given["pattr"]]
    if (origin := given.get("origin")) is not None:
        arguments["origin"] = origin.name if origin.is_string else number_of(origin.name)
    return arguments


def _attribute(node: exp.Expr, scope: Scope) -> Any:
    if isinstance(node, RankOf):
        return Rank(_column(node.this, scope))
    if isinstance(node, RowNumber):
        return ROW_NUM if ROW_NUM in scope.stream.schema.names else arrival
    return _column(node, scope)


def _column(node: exp.Expr, scope: Scope) -> str:
    name = scope.column(node) if isinstance(node, exp.Column) else None
    if name is None:
        problem = "the attribute of this window must be a plain column"
        raise cql_error(problem, scope.text, node, "name a column of the stream")
    return name
