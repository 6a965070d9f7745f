"""The streams of a join: what they are called, and which of them a condition is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from lowwater.cql.mistakes import mistake
from lowwater.cql.names import Scope, find
from lowwater.cql.nodes import Kept, Length, Windowed
from lowwater.cql.windows import first_of
from lowwater.query import Stream

SELF, OTHER = 0, 1


@dataclass(frozen=True)
class Side:
    """A stream in FROM. `kept` says how long its rows can be joined, `over` on which attribute."""

    node: exp.Expr
    scope: Scope
    kept: Length | None = None
    over: str | None = None

    @classmethod
    def of(cls, node: exp.Expr, scope: Scope) -> Side:
        """Read the window or KEEP behind a stream of a join."""
        if isinstance(node, Kept):
            return cls(node, scope, node.args["keep"])
        if not isinstance(node, Windowed):
            return cls(node, scope)
        window = node.args["window"]
        given = {name: value for name, value in window.args.items() if value}
        if "range" not in given or given.keys() - {"range", "wattr"}:
            raise mistake(
                "the window of a stream in a join says how long its rows can be joined",
                scope.text,
                window,
                "write [RANGE 3 minutes], with WATTR if need be",
            )
        over = given.get("wattr")
        named = scope.column(over) if isinstance(over, exp.Column) else None
        if over is not None and named not in times_of(scope.stream):
            told = f"a join is over the time of a stream, here {scope.stream.time!r}"
            raise mistake(told, scope.text, first_of(over))
        return cls(node, scope, given["range"], named)

    @property
    def times(self) -> tuple[str, ...]:
        """The columns that can be its time in a join."""
        return (self.over,) if self.over else times_of(self.scope.stream)


def times_of(stream: Stream) -> tuple[str, ...]:
    """Return the columns that progress: of a source, its time; of results, all that do."""
    if stream.times is None:
        return (stream.time,)
    return tuple(dict.fromkeys([stream.time, *(axis.column for axis in stream.times)]))


@dataclass(frozen=True)
class Sides:
    """Both sides of a join, and the streams that are joined later."""

    pair: tuple[Scope, Scope]
    later: Sequence[Scope] = ()
    common: frozenset[str] = frozenset()
    """Columns that USING makes one of both, in lower case."""

    def place(self, node: exp.Column) -> int | None:
        """Return the side that a column is of; None if it is of neither."""
        first = node.parts[0].name
        everyone = (*self.pair, *self.later)
        if len(node.parts) > 1:
            named = [i for i, scope in enumerate(everyone) if first.lower() in scope.known]
            if named:
                return named[0] if named[0] <= OTHER else None
        holding = [i for i, scope in enumerate(everyone) if _has(scope, first)]
        if len(holding) > 1 and first.lower() in self.common:
            return SELF
        if len(holding) > 1:
            owners = [owner for i in holding for owner in everyone[i].owners(first)]
            choice = " or ".join(f"{owner}.{first}" for owner in owners)
            hint = f"write {choice}" if choice else None
            raise mistake(f"{first!r} may be of either", self.pair[SELF].text, node, hint)
        return holding[0] if holding and holding[0] <= OTHER else None

    def column(self, node: exp.Expr) -> tuple[int, str] | None:
        """Return side and name of a plain column of one of both."""
        if not isinstance(node, exp.Column):
            return None
        side = self.place(node)
        name = None if side is None else self.pair[side].column(node)
        return None if side is None or name is None else (side, name)

    def of(self, condition: exp.Expr) -> frozenset[int] | None:
        """Return the sides that a condition is about; None if it is about others, too."""
        found = {self.place(node) for node in condition.find_all(exp.Column)}
        return None if None in found else frozenset(side for side in found if side is not None)


def _has(scope: Scope, name: str) -> bool:
    return bool(scope.owners(name)) or find(name, scope.stream.schema.names) is not None


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Return the conditions that AND holds together."""
    if condition is None:
        return []
    if isinstance(condition, exp.And):
        return [*conjuncts(condition.this), *conjuncts(condition.expression)]
    if isinstance(condition, exp.Paren) and isinstance(condition.this, exp.And):
        return conjuncts(condition.this)
    return [condition]


def together(conditions: Iterable[exp.Expr]) -> exp.Expr:
    """Return conditions as one."""
    first, *rest = (part.copy() for part in conditions)
    for part in rest:
        first = exp.And(this=_closed(first), expression=_closed(part))
    return first


def _closed(part: exp.Expr) -> exp.Expr:
    return exp.Paren(this=part) if isinstance(part, exp.Or) else part
