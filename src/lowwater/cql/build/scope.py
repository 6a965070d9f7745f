"""Scopes, which map the names of columns in a text to the columns of a stream or a join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from lowwater.cql.errors import cql_error, errors_at, suggestion
from lowwater.cql.names import column, find, spark_text
from lowwater.cql.nodes import KeepClause, Length, WindowedStream
from lowwater.errors import CqlError
from lowwater.operators.join.plan import OTHER, SELF
from lowwater.query.stream import Stream


@dataclass(frozen=True)
class Scope:
    """A stream and the names of its columns in a text.

    `known` maps each qualifier (`a` in `a.ts`, in lower case) to {column: name in `stream`}. The
    name in `stream` differs from the column if a join has renamed the column.
    """

    text: str
    stream: Stream
    known: Mapping[str, Mapping[str, str]]
    is_closed: bool = False
    """Whether a column without a qualifier can only name a column of `stream`."""

    @classmethod
    def of(cls, text: str, stream: Stream, name: str) -> Scope:
        """Return the scope of `stream` with the qualifier `name`; an empty `name` means none."""
        columns = {column: column for column in stream.schema.names}
        return cls(text, stream, {name.lower(): columns} if name else {})

    def closed(self) -> Scope:
        """Return this scope with `is_closed` set, for a subquery in FROM without AS."""
        return replace(self, is_closed=True)

    def column(self, node: exp.Column) -> str | None:
        """Return the column that `node` names; None if `node` names a field of a column."""
        first, *fields = self.path(node)
        return None if fields else first

    def path(self, node: exp.Column) -> list[str]:
        """Return the parts of `node` without the qualifier: the name of the column, then fields."""
        first, *fields = [part.name for part in node.parts]
        if fields and first.lower() in self.known:
            columns = self.known[first.lower()]
            known = find(fields[0], columns)
            if known is None:
                raise self._unknown(fields[0], list(columns), node)
            return [columns[known], *fields[1:]]
        if fields and find(first, self.stream.schema.names) is None:
            hint = suggestion(first, self.known)
            raise cql_error(f"{first!r} is not a stream in this FROM", self.text, node, hint)
        return [self._unowned(first, node), *fields]

    def _unowned(self, name: str, node: exp.Column) -> str:
        owners = self.owners(name)
        if len(set(owners.values())) > 1:
            hint = f"write {' or '.join(f'{owner}.{name}' for owner in owners)}"
            raise cql_error(f"{name!r} is a column of several streams", self.text, node, hint)
        names = self.stream.schema.names
        known = next(iter(owners.values()), None) or find(name, names)
        if known is None:
            raise self._unknown(name, names, node)
        return known

    def owners(self, name: str) -> dict[str, str]:
        """Return {qualifier: name in `stream`} for the qualifiers that have a column `name`."""
        if self.is_closed:
            return {}
        columns = {owner: find(name, names) for owner, names in self.known.items()}
        return {owner: self.known[owner][c] for owner, c in columns.items() if c is not None}

    def _unknown(self, name: str, names: Sequence[str], node: exp.Column) -> CqlError:
        hint = suggestion(name, names, otherwise=f"it has: {', '.join(names)}")
        return cql_error(f"{name!r} is not a column of the stream", self.text, node, hint)

    def bare(self, node: exp.Expr) -> exp.Expr:
        """Return `node` without qualifiers; raise CqlError if one of its columns does not exist."""

        def strip(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Column):
                return part
            path = self.path(part)
            # Keep the node of a column without a qualifier: the text of the step stays the same.
            return part if path == [name.name for name in part.parts] else column(*path)

        return node.transform(strip)

    def where(self, condition: exp.Expr) -> Scope:
        """Return the scope of the rows for which `condition` is true."""
        text = spark_text(self.bare(condition))
        with errors_at(self.text, condition):
            return replace(self, stream=self.stream.where(text))


@dataclass(frozen=True)
class Side:
    """A stream in a join. Its rows can join for the time `kept`, measured on the column `over`."""

    node: exp.Expr
    scope: Scope
    kept: Length | None = None
    over: str | None = None

    @classmethod
    def of(cls, node: exp.Expr, scope: Scope) -> Side:
        """Return the input of a join that `node` describes, with its window or its KEEP clause."""
        if isinstance(node, KeepClause):
            return cls(node, scope, node.args["keep"])
        if not isinstance(node, WindowedStream):
            return cls(node, scope)
        window = node.args["window"]
        given = {name: value for name, value in window.args.items() if value}
        if "range" not in given or given.keys() - {"range", "wattr"}:
            problem = (
                "the window of a stream in a join can have RANGE and WATTR only: it sets how long "
                "rows can be joined"
            )
            raise cql_error(problem, scope.text, window, "write [RANGE 3 minutes]")
        over = given.get("wattr")
        named = scope.column(over) if isinstance(over, exp.Column) else None
        if over is not None and named not in times_of(scope.stream):
            problem = "WATTR of a stream in a join must be its time"
            hint = f"write WATTR {scope.stream.time}"
            raise cql_error(problem, scope.text, over, hint)
        return cls(node, scope, given["range"], named)

    @property
    def times(self) -> tuple[str, ...]:
        """The columns that the join can use as the time of this input."""
        return (self.over,) if self.over else times_of(self.scope.stream)


def times_of(stream: Stream) -> tuple[str, ...]:
    """Return the columns that have a watermark: the time of a source, or all times of results."""
    if stream.times is None:
        return (stream.time,)
    return tuple(dict.fromkeys([stream.time, *(axis.column for axis in stream.times)]))


@dataclass(frozen=True)
class Sides:
    """The scopes of both inputs of a join, and of the streams that later joins add."""

    pair: tuple[Scope, Scope]
    later: Sequence[Scope] = ()
    common: frozenset[str] = frozenset()
    """Columns of USING, in lower case; both sides have them."""

    def place(self, node: exp.Column) -> int | None:
        """Return the side (SELF or OTHER) that has the column `node`; None if neither has it."""
        first = node.parts[0].name
        everyone = (*self.pair, *self.later)
        if len(node.parts) > 1:
            named = [i for i, scope in enumerate(everyone) if first.lower() in scope.known]
            if named:
                return named[0] if named[0] <= OTHER else None
        owners = [scope.owners(first) for scope in everyone]
        names = [find(first, scope.stream.schema.names) for scope in everyone]
        holding = [i for i in range(len(everyone)) if owners[i] or names[i] is not None]
        if len(holding) > 1 and first.lower() in self.common:
            return SELF
        if len(holding) > 1:
            paths = [f"{owner}.{first}" for i in holding for owner in owners[i]]
            hint = f"write {' or '.join(paths)}" if paths else None
            problem = f"{first!r} is a column of several streams"
            raise cql_error(problem, self.pair[SELF].text, node, hint)
        return holding[0] if holding and holding[0] <= OTHER else None

    def column(self, node: exp.Expr) -> tuple[int, str] | None:
        """Return (side, name) of the column `node`; None if `node` is not a column of a side."""
        if not isinstance(node, exp.Column):
            return None
        side = self.place(node)
        name = None if side is None else self.pair[side].column(node)
        return None if side is None or name is None else (side, name)

    def of(self, condition: exp.Expr) -> frozenset[int] | None:
        """Return the sides whose columns `condition` uses; None if it also uses a later stream."""
        places = {self.place(node) for node in condition.find_all(exp.Column)}
        return None if None in places else frozenset(side for side in places if side is not None)


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Return the conditions that AND connects in `condition`."""
    if condition is None:
        return []
    if isinstance(condition, exp.And):
        return [*conjuncts(condition.this), *conjuncts(condition.expression)]
    if isinstance(condition, exp.Paren) and isinstance(condition.this, exp.And):
        return conjuncts(condition.this)
    return [condition]
