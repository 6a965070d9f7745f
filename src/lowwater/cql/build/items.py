"""The items of SELECT and GROUP BY in a query over windows: keys and aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from lowwater.aggregates.aggregate import Aggregate
from lowwater.cql.build.scope import Scope
from lowwater.cql.errors import cql_error, errors_at, suggestion, unsupported
from lowwater.cql.functions import AGGREGATES
from lowwater.cql.names import default_name, same, spark_text
from lowwater.cql.nodes import number_of
from lowwater.errors import CqlError
from lowwater.operators.window.plan import SECOND
from lowwater.query.stream import Stream

ALWAYS = ("window", "wid", "kind")
"""Columns of every window result. Windows on both times of a join add `window_2`."""


class Items:
    """The items of SELECT and GROUP BY; `computed` maps each new column to its expression."""

    def __init__(self, scope: Scope, select: exp.Select, *, on_both: bool = False) -> None:
        if select.args.get("distinct"):
            raise unsupported("SELECT DISTINCT over windows", scope.text, select, "remove DISTINCT")
        self.scope, self.select = scope, select
        self.items: list[exp.Expr] = select.expressions
        self.always = (*ALWAYS, SECOND) if on_both else ALWAYS
        """The columns that every result of this query has."""
        self.computed: dict[str, str] = {}
        self.loose: list[exp.Column] = []
        """Columns in SELECT that GROUP BY does not name."""
        self.composed: list[exp.Expr] = []
        """Items of SELECT that are expressions over aggregates."""
        self.grouped: dict[str, exp.Expr] = {}

    # -- keys -------------------------------------------------------------------------------------

    def keys(self) -> list[str]:
        """Return the names of the GROUP BY keys; add keys that are expressions to `computed`."""
        group = self.select.args.get("group")
        if group is None:
            return []
        if any(value for name, value in group.args.items() if name != "expressions"):
            problem = "GROUP BY has more than columns and expressions"
            raise self.cql_error(problem, group, "list columns and expressions only")
        return [self._key(node) for node in group.expressions]

    def _key(self, given: exp.Expr) -> str:
        node = self._by_alias(given)
        if isinstance(node, exp.Literal):
            raise self.cql_error("GROUP BY a number groups nothing", given, "name the column")
        if self.calls(node):
            hint = "group by a column or an expression"
            raise self.cql_error("GROUP BY cannot contain an aggregate", given, hint)
        bare = self.scope.bare(node)
        alias = next((i.alias for i in self.items if i.alias and self._same(i, bare)), "")
        plain = isinstance(bare, exp.Column) and not bare.table
        name = alias or default_name(bare)
        if name in self.grouped:
            hint = "remove one, or rename it with AS"
            raise self.cql_error(f"two columns have the name {name!r}", given, hint)
        self.grouped[name] = bare
        if not plain or name != bare.name:
            self.computed[name] = spark_text(bare)
        return name

    def _by_alias(self, node: exp.Expr) -> exp.Expr:
        """Return the item of SELECT with the alias `node`; `node` itself if it names a column."""
        known = {name.lower() for name in self.scope.stream.schema.names}
        if isinstance(node, exp.Column) and not node.table and node.name.lower() not in known:
            for item in self.items:
                if item.alias.lower() == node.name.lower():
                    return item.unalias()
        return node

    def _same(self, item: exp.Expr, bare: exp.Expr) -> bool:
        node = item.unalias()
        return not self.calls(node) and same(self.scope.bare(node), bare)

    # -- aggregates -------------------------------------------------------------------------------

    def aggregates(self) -> dict[str, Aggregate]:
        """Return {name: aggregate} for SELECT; raise CqlError if an item cannot be selected."""
        aggregates: dict[str, Aggregate] = {}
        for item in self.items:
            node = item.unalias()
            if isinstance(node, exp.Star):
                raise self.cql_error("SELECT * cannot stand over windows", node, "name aggregates")
            if self.is_call(node):
                aggregates[self.name_of(item)] = self.aggregate(node)
            elif self.calls(node):
                self.composed.append(item)
            else:
                self._check_key(item, node)
        if not aggregates and not self.composed:
            raise self.cql_error("SELECT needs an aggregate", self.select, "for example count(*)")
        return aggregates

    def _check_key(self, item: exp.Expr, node: exp.Expr) -> None:
        """Raise CqlError unless `node` is a key or a column; add an ungrouped column to `loose`."""
        always = isinstance(node, exp.Column) and node.name in self.always and not item.alias
        if always or self.key_of(node) is not None:
            return
        if isinstance(node, exp.Anonymous | exp.AggFunc):
            name = node.name if isinstance(node, exp.Anonymous) else node.key
            known = f"aggregates are: {', '.join(AGGREGATES)}"
            hint = suggestion(name, AGGREGATES, otherwise=known)
            raise self.cql_error(f"{name}() is not a known aggregate", node, hint)
        if not isinstance(node, exp.Column):
            raise self.neither(node)
        self.scope.column(node)
        self.loose.append(node)

    def key_of(self, node: exp.Expr) -> str | None:
        """Return the name of the GROUP BY key that equals `node`; None if no key does."""
        given = self._by_alias(node)
        if self.calls(given):
            return None
        bare = self.scope.bare(given)
        return next((name for name, key in self.grouped.items() if same(bare, key)), None)

    def shown(self) -> list[exp.Expr]:
        """Return the items of SELECT that contain an aggregate."""
        return [item for item in self.items if self.calls(item)]

    def name_of(self, item: exp.Expr) -> str:
        """Return the name of `item` in results: its alias, else its text without stream names."""
        return item.alias or default_name(self.scope.bare(item))

    def check_columns(self, partition: Sequence[str]) -> None:
        """Raise CqlError if a column of SELECT is in neither GROUP BY nor `partition` (PATTR)."""
        for node in self.loose:
            if self.scope.column(node) not in partition:
                raise self.neither(node)

    def aggregate(self, node: exp.Expr) -> Aggregate:
        """Return the aggregate that the call `node` describes."""
        name, given = node.name.lower(), list(node.expressions)
        if given and isinstance(given[0], exp.Distinct):
            name, given = f"{name}_distinct", list(given[0].expressions)
            if name not in AGGREGATES:
                problem = f"{node.name}(DISTINCT …) is not supported"
                raise self.cql_error(problem, node, "use count(DISTINCT …)")
        call = AGGREGATES[name]
        stars = [g for g in given if isinstance(g, exp.Star)]
        values = [self._argument(g) for g in given if g not in stars]
        if not call.least <= len(values) <= call.most or (stars and (values or call.least)):
            takes = f"{call.least} to {call.most}" if call.least < call.most else f"{call.most}"
            plural = "" if takes == "1" else "s"
            problem = f"{name}(…) takes {takes} argument{plural}, not {len(values)}"
            usual = {"quantile": "quantile(x, 0.95)", "top_k": "top_k(x, 3)"}
            raise self.cql_error(problem, node, f"write {usual.get(name, f'{name}(x)')}")
        return call.make(*values)

    def _argument(self, given: exp.Expr) -> Any:
        if isinstance(given, exp.Literal):
            return given.name if given.is_string else number_of(given.name)
        if self.calls(given):
            hint = "compute the inner one by a query in FROM"
            raise self.cql_error("an aggregate cannot stand inside an aggregate", given, hint)
        bare = self.scope.bare(given)
        if isinstance(bare, exp.Column) and not bare.table:
            return bare.name
        name = default_name(bare)
        self.computed[name] = spark_text(bare)
        return name

    def prepared(self) -> Stream:
        """Return the input of the window: the stream, with the columns of `computed` added."""
        stream = self.scope.stream
        with errors_at(self.scope.text, self.select):
            return stream.with_columns(**self.computed) if self.computed else stream

    # -- items ------------------------------------------------------------------------------------

    @staticmethod
    def is_call(node: exp.Expr) -> bool:
        """Return whether `node` is a call of an aggregate."""
        return isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES

    @classmethod
    def calls(cls, node: exp.Expr) -> list[exp.Expr]:
        """Return the calls of aggregates inside the expression `node`."""
        return [n for n in node.find_all(exp.Anonymous) if cls.is_call(n)]

    def neither(self, node: exp.Expr) -> CqlError:
        """Return a CqlError that says: `node` is neither in GROUP BY nor inside an aggregate."""
        text = default_name(node)
        problem = f"{text!r} is neither grouped by nor inside an aggregate"
        return self.cql_error(problem, node, f"add GROUP BY {text}")

    def cql_error(self, problem: str, node: exp.Expr, hint: str | None = None) -> CqlError:
        """Return a CqlError at the position of `node`."""
        return cql_error(problem, self.scope.text, node, hint)
