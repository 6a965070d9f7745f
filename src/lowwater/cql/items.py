"""The items of SELECT and GROUP BY: which are keys, which are aggregates, and over what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from lowwater.aggregates import Aggregate
from lowwater.cql.calls import AGGREGATES
from lowwater.cql.lengths import number_of
from lowwater.cql.mistakes import meant, mistake, not_yet, told_at
from lowwater.cql.names import Scope, default_name, same, spark_text
from lowwater.errors import CqlError
from lowwater.kernels.plan import SECOND
from lowwater.query import Stream

ALWAYS = ("window", "wid", "kind")
"""Columns that every result has; those of windows on both times of a join have another window."""


class Items:
    """The items of a query. `computed` gathers the columns that its expressions become."""

    def __init__(self, scope: Scope, select: exp.Select, *, on_both: bool = False) -> None:
        if select.args.get("distinct"):
            raise not_yet("SELECT DISTINCT over windows", scope.text, select)
        self.scope, self.select = scope, select
        self.always = (*ALWAYS, SECOND) if on_both else ALWAYS
        """The columns that results have whatever is asked for."""
        self.computed: dict[str, str] = {}
        self.loose: list[exp.Column] = []
        """Columns in SELECT that are no keys by GROUP BY."""
        self.composed: list[exp.Expr] = []
        """Items of SELECT that are expressions over aggregates."""
        self.grouped: dict[str, exp.Expr] = {}

    # -- keys -------------------------------------------------------------------------------------

    def keys(self) -> list[str]:
        """Return the columns to group by; those that are expressions are computed."""
        group = self.select.args.get("group")
        if group is None:
            return []
        if any(value for name, value in group.args.items() if name != "expressions"):
            raise self.mistake("GROUP BY takes columns and expressions only", group)
        return [self._key(node) for node in group.expressions]

    def _key(self, given: exp.Expr) -> str:
        node = self._by_alias(given)
        if isinstance(node, exp.Literal):
            raise self.mistake("GROUP BY a number groups nothing", given, "name the column")
        if self.calls(node):
            raise self.mistake("an aggregate cannot be grouped by", given)
        bare = self.scope.bare(node)
        alias = next((i.alias for i in self._items() if i.alias and self._same(i, bare)), "")
        plain = isinstance(bare, exp.Column) and not bare.table
        name = alias or default_name(bare)
        if name in self.grouped:
            raise self.mistake(f"{name!r} stands twice", given, "leave one out, or name it with AS")
        self.grouped[name] = bare
        if not plain or name != bare.name:
            self.computed[name] = spark_text(bare)
        return name

    def _by_alias(self, node: exp.Expr) -> exp.Expr:
        """Return the item of SELECT that a name stands for, unless a column has that name."""
        known = {name.lower() for name in self.scope.stream.schema.names}
        if isinstance(node, exp.Column) and not node.table and node.name.lower() not in known:
            for item in self._items():
                if item.alias.lower() == node.name.lower():
                    return item.unalias()
        return node

    def _same(self, item: exp.Expr, bare: exp.Expr) -> bool:
        node = item.unalias()
        return not self.calls(node) and same(self.scope.bare(node), bare)

    # -- aggregates -------------------------------------------------------------------------------

    def aggregates(self) -> dict[str, Aggregate]:
        """Return the aggregates by name."""
        found: dict[str, Aggregate] = {}
        for item in self._items():
            node = item.unalias()
            if isinstance(node, exp.Star):
                raise self.mistake("SELECT * has no meaning over windows", node, "name aggregates")
            if self.is_call(node):
                name = item.alias or default_name(self.scope.bare(node))
                if name in found:
                    raise self.mistake(f"{name!r} stands twice", item, "name one with AS")
                found[name] = self.aggregate(node)
            elif self.calls(node):
                self.composed.append(item)
            else:
                self._is_key(item, node)
        if not found and not self.composed:
            raise self.mistake("SELECT needs an aggregate", self.select, "for example count(*)")
        return found

    def _is_key(self, item: exp.Expr, node: exp.Expr) -> None:
        """Pass over a key; refuse what is neither a key nor an aggregate."""
        if isinstance(node, exp.Column) and node.name in self.always and not item.alias:
            return
        if self.key_of(node) is not None:
            return
        if isinstance(node, exp.Func):
            raise self._unknown(node)
        if not isinstance(node, exp.Column):
            raise self.neither(node)
        self.scope.column(node)
        self.loose.append(node)

    def key_of(self, node: exp.Expr) -> str | None:
        """Return the key that an expression is, if it is one."""
        given = self._by_alias(node)
        if self.calls(given):
            return None
        bare = self.scope.bare(given)
        return next((name for name, key in self.grouped.items() if same(bare, key)), None)

    def shown(self) -> list[exp.Expr]:
        """Return the items of SELECT that are aggregates, or expressions over some."""
        return [item for item in self._items() if self.calls(item)]

    def bare(self, item: exp.Expr) -> exp.Expr:
        """Return what an item is, without its name and without the streams of its columns."""
        return self.scope.bare(item.unalias())

    def check_columns(self, partition: Sequence[str]) -> None:
        """Refuse columns of SELECT that are neither grouped by nor part the stream."""
        for node in self.loose:
            if self.scope.column(node) not in partition:
                raise self.neither(node)

    def aggregate(self, node: exp.Expr) -> Aggregate:
        """Return the aggregate that a call stands for."""
        name, given = node.name.lower(), list(node.expressions)
        if given and isinstance(given[0], exp.Distinct):
            name, given = f"{name}_distinct", list(given[0].expressions)
            if name not in AGGREGATES:
                raise self.mistake(f"{node.name}(DISTINCT …) can be read, but not be run yet", node)
        call = AGGREGATES[name]
        stars = [g for g in given if isinstance(g, exp.Star)]
        values = [self._argument(g) for g in given if g not in stars]
        if not call.least <= len(values) <= call.most or (stars and (values or call.least)):
            raise self.mistake(f"{name}(…) takes {_counted(call.least, call.most)}", node)
        return call.make(*values)

    def _argument(self, given: exp.Expr) -> Any:
        if isinstance(given, exp.Literal):
            return given.name if given.is_string else number_of(given.name)
        if self.calls(given):
            raise self.mistake("an aggregate of an aggregate needs a query of its own", given)
        bare = self.scope.bare(given)
        if isinstance(bare, exp.Column) and not bare.table:
            return bare.name
        name = default_name(bare)
        self.computed[name] = spark_text(bare)
        return name

    def prepared(self) -> Stream:
        """Return the stream with the columns that are computed before the windows."""
        stream = self.scope.stream
        with told_at(self.scope.text, self.select):
            return stream.with_columns(**self.computed) if self.computed else stream

    # -- what stands there ------------------------------------------------------------------------

    def _items(self) -> list[exp.Expr]:
        return list(self.select.expressions)

    @staticmethod
    def is_call(node: exp.Expr) -> bool:
        """Say whether a node calls an aggregate."""
        return isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES

    @classmethod
    def calls(cls, node: exp.Expr) -> list[exp.Expr]:
        """Return the calls of aggregates in an expression; `max(a, b)` is about one row."""
        return [n for n in node.find_all(exp.Anonymous) if cls.is_call(n)]

    def _unknown(self, node: exp.Expr) -> CqlError:
        name = node.name if isinstance(node, exp.Anonymous) else node.key
        known = f"aggregates are: {', '.join(AGGREGATES)}"
        if isinstance(node, exp.Anonymous | exp.AggFunc):
            hint = meant(name, AGGREGATES, otherwise=known)
            return self.mistake(f"{name}() is no aggregate that is known here", node, hint)
        return self.neither(node)

    def neither(self, node: exp.Expr) -> CqlError:
        """Say that something has no one value in a window."""
        told = default_name(node)
        return self.mistake(
            f"{told!r} is neither grouped by nor inside an aggregate", node, f"add GROUP BY {told}"
        )

    def mistake(self, problem: str, node: exp.Expr, hint: str | None = None) -> CqlError:
        """Say that something is wrong with an item."""
        return mistake(problem, self.scope.text, node, hint)


def _counted(least: int, most: int) -> str:
    if least == most:
        return f"{most} argument{'' if most == 1 else 's'}"
    return f"{least} to {most} arguments"
