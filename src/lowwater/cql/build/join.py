"""Builds joins: turns the conditions of ON and WHERE into join keys, a band, and filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

from sqlglot import exp

from lowwater.cql.build.scope import Scope, Side, Sides, conjuncts
from lowwater.cql.build.time_conditions import Bounds, Pair
from lowwater.cql.errors import cql_error, errors_at, position, set_position, unsupported
from lowwater.cql.names import column, conjunction, extreme_of, find
from lowwater.logical.nodes import Apply
from lowwater.operators.join.plan import OTHER, SELF, How, JoinPlan, Time
from lowwater.query.combine import join as join_nodes
from lowwater.query.join_args import JoinArgs
from lowwater.query.stream import Stream

_HOWS: dict[tuple[str, str], How] = {
    ("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "inner",
    ("LEFT", ""): "left", ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right", ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full", ("FULL", "OUTER"): "full",
    ("", "ANTI"): "anti", ("LEFT", "ANTI"): "anti",
}  # fmt: skip
_KEEPS: dict[How, frozenset[int]] = {
    "inner": frozenset(),
    "left": frozenset({SELF}),
    "right": frozenset({OTHER}),
    "full": frozenset({SELF, OTHER}),
    "anti": frozenset({SELF}),
}
"""For each kind of join, the sides whose rows without a partner are emitted, too."""


def join_streams(select: exp.Select, sides: Sequence[Side]) -> Scope:
    """Join the streams of `select` from left to right, apply its WHERE, and return the scope."""
    joins = select.args["joins"]
    hows = [_how(join, sides[0].scope.text) for join in joins]
    _check_names(sides)
    where = select.args.get("where")
    pool = conjuncts(where.this if where else None)
    # A RIGHT or FULL join adds rows that WHERE must filter: then apply WHERE after all joins.
    last = bool({"right", "full"} & set(hows))
    left = sides[0]
    for number, (join, how) in enumerate(zip(joins, hows, strict=True), start=1):
        later = [side.scope for side in sides[number + 1 :]]
        work = _Join(select, join, how, (left, sides[number]), later)
        left = Side(join, work.run([] if last else pool))
        pool = [condition for condition in pool if condition not in work.used]
    return left.scope.where(conjunction(pool)) if pool else left.scope


def _how(join: exp.Join, text: str) -> How:
    word = (str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper())
    if word not in _HOWS or join.args.get("method"):
        named = " ".join(filter(None, (str(join.args.get("method") or "").upper(), *word)))
        known = ", ".join(get_args(How)).upper()
        raise unsupported(f"a {named} JOIN", text, join, f"joins are: {known}")
    return _HOWS[word]


def _check_names(sides: Sequence[Side]) -> None:
    """Raise CqlError if two streams have the same name."""
    names: set[str] = set()
    for side in sides:
        twice = names & set(side.scope.known)
        if twice:
            problem = f"two streams have the name {twice.pop()!r}"
            raise cql_error(problem, side.scope.text, side.node, "rename one with AS")
        names |= set(side.scope.known)


@dataclass
class _Join:
    """The builder of one join. `used` lists the conditions of WHERE that the join applies."""

    select: exp.Select
    join: exp.Join
    how: How
    sources: tuple[Side, Side]
    later: Sequence[Scope]
    used: list[exp.Expr] = field(default_factory=list)

    def __post_init__(self) -> None:
        left, right = (side.scope for side in self.sources)
        using = frozenset(name.name.lower() for name in self.join.args.get("using") or ())
        self.text, self.sides = left.text, Sides((left, right), self.later, using)

    def run(self, pool: Sequence[exp.Expr]) -> Scope:
        """Return the scope of the join; `pool` lists the conditions of WHERE not yet applied."""
        before: dict[int, list[exp.Expr]] = {SELF: [], OTHER: []}
        bounds = Bounds(self.sides, self.sources)
        keys = self._using()
        rest: list[exp.Expr] = []
        for condition in self._conditions(pool):
            about = self.sides.of(condition)
            if about is not None and len(about) == 1:
                (side,) = about
                # ON must not filter a side before the join if all its rows are emitted.
                whole = condition not in self.used and side in _KEEPS[self.how]
                (rest if whole else before[side]).append(condition)
            elif not bounds.take(condition) and not self._key(condition, keys):
                rest.append(condition)
        band = bounds.band(self.join)
        rest += bounds.compared
        if rest and self.how != "inner":
            problem = f"ON of a {self.how} join can compare equal columns and times only"
            hint = "move other conditions to WHERE, or into a query in FROM"
            raise cql_error(problem, self.text, rest[0], hint)
        assert bounds.pair is not None  # noqa: S101
        streams = [
            (side.scope.where(conjunction(before[i])) if before[i] else side.scope).stream
            for i, side in enumerate(self.sources)
        ]
        time, called = self._time(bounds.pair)
        with errors_at(self.text, self.join):
            arguments = JoinArgs(keys, band, self.how, time, times=bounds.pair)
            joined = Stream(join_nodes(streams[SELF].node, streams[OTHER].node, arguments))
        scope = self._scope(joined, called)
        return scope.where(conjunction(rest)) if rest else scope

    def _conditions(self, pool: Sequence[exp.Expr]) -> list[exp.Expr]:
        """Return the conditions of ON, and the conditions of `pool` that this join can apply."""
        own = conjuncts(self.join.args.get("on"))
        for condition in pool:
            about = self.sides.of(condition)
            first = about == frozenset({SELF})
            if about and (self.how == "inner" or first) and condition not in self.used:
                self.used.append(condition)
        return own + self.used

    def _using(self) -> dict[str, str]:
        keys = {}
        for name in self.join.args.get("using") or ():
            mine, other = (find(name.name, s.scope.stream.schema.names) for s in self.sources)
            if mine is None or other is None:
                problem = f"USING: {name.name!r} is not a column of both streams"
                raise cql_error(problem, self.text, name, "write ON a.x = b.y instead")
            keys[mine] = other
        return keys

    def _key(self, condition: exp.Expr, keys: dict[str, str]) -> bool:
        """Return whether `condition` was added to `keys`: it must equate columns of both sides."""
        if not isinstance(condition, exp.EQ):
            return False
        columns = [self.sides.column(node) for node in (condition.this, condition.expression)]
        names = dict(c for c in columns if c is not None)
        if names.keys() != {SELF, OTHER} or names[SELF] in keys:
            return False
        keys[names[SELF]] = names[OTHER]
        return True

    def _time(self, pair: Pair) -> tuple[Time | None, exp.Expr | None]:
        """Return the argument `time=` of the join, and the item of SELECT that sets it.

        An item `max(a.ts, b.ts)` sets "max", and `min(a.ts, b.ts)` sets "min". Otherwise `time=` is
        "other" if SELECT of an inner join names the right stream's time but not the left's.
        """
        times = [(SELF, pair[SELF]), (OTHER, pair[OTHER])]
        nodes = [item.unalias() for item in self.select.expressions]
        for node in nodes:
            extreme = extreme_of(node)
            if extreme is not None and sorted(map(self._named, extreme[1])) == times:
                return extreme[0], node
        named = {self._named(node) for node in nodes}
        alone = times[OTHER] in named and times[SELF] not in named
        return ("other" if alone and self.how == "inner" else None), None

    def _named(self, node: exp.Expr) -> tuple[int, str]:
        """Return (side, name) of the column `node`; for `a.*`, of the time column of `a`."""
        nothing = (-1, "")
        if not isinstance(node, exp.Column):
            return nothing
        if not isinstance(node.this, exp.Star):
            return self.sides.column(node) or nothing
        owned = [node.table.lower() in scope.known for scope in self.sides.pair]
        if True not in owned:
            return nothing
        side = owned.index(True)
        return side, self.sources[side].times[0]

    def _scope(self, joined: Stream, called: exp.Expr | None) -> Scope:
        """Return the scope of `joined`; in SELECT, replace the item `called` by the time column."""
        assert isinstance(joined.node, Apply)  # noqa: S101
        plan = joined.node.plan
        assert isinstance(plan, JoinPlan)  # noqa: S101
        if called is not None:
            time = column(plan.result_times[0])
            set_position(time, position(called))
            called.replace(time)
        shown = self.sources[:1] if self.how == "anti" else self.sources
        known = {
            name: {old: names[new] for old, new in columns.items()}
            for side, names in zip(shown, plan.names, strict=False)
            for name, columns in side.scope.known.items()
        }
        return Scope(self.text, joined, known)
