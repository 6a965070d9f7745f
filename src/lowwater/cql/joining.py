"""Joins: of streams in a list, or by JOIN … ON. Conditions become keys, a band, and filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from sqlglot import exp

from lowwater.cql.bands import Bounds, Pair
from lowwater.cql.mistakes import mark, mistake, not_yet, position, told_at
from lowwater.cql.names import Scope, column, find
from lowwater.cql.sides import OTHER, SELF, Side, Sides, conjuncts, together
from lowwater.errors import CqlError
from lowwater.kernels.joins import How, JoinPlan, Time
from lowwater.query import Stream
from lowwater.query.nodes import Operated

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
"""The sides whose rows come out without a partner, too."""


def joined(select: exp.Select, sides: Sequence[Side]) -> Scope:
    """Join the streams of a query, from left to right, and apply its WHERE."""
    joins = select.args["joins"]
    hows = [_how(join, sides[0].scope.text) for join in joins]
    _refuse_twice(sides)
    where = select.args.get("where")
    pool = conjuncts(where.this if where else None)
    # What a later RIGHT or FULL join adds must pass WHERE, too: nothing of it can come first.
    last = bool({"right", "full"} & set(hows))
    left = sides[0]
    for number, (join, how) in enumerate(zip(joins, hows, strict=True), start=1):
        later = [side.scope for side in sides[number + 1 :]]
        work = _Join(select, join, how, (left, sides[number]), later)
        left = Side(join, work.run([] if last else pool))
        pool = [condition for condition in pool if condition not in work.used]
    return left.scope.where(together(pool)) if pool else left.scope


def _how(join: exp.Join, text: str) -> How:
    word = (str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper())
    if word not in _HOWS or join.args.get("method"):
        named = " ".join(filter(None, (str(join.args.get("method") or "").upper(), *word)))
        known = ", ".join(get_args(How)).upper()
        raise not_yet(f"a {named} JOIN", text, join, f"joins are: {known}")
    return _HOWS[word]


def _refuse_twice(sides: Sequence[Side]) -> None:
    seen: set[str] = set()
    for side in sides:
        twice = seen & set(side.scope.known)
        if twice:
            raise mistake(
                f"two streams are called {twice.pop()!r}",
                side.scope.text,
                side.node,
                "give one another name with AS",
            )
        seen |= set(side.scope.known)


@dataclass
class _Join:
    """One join while it is read. `used` are the conditions of WHERE that it has taken in."""

    select: exp.Select
    join: exp.Join
    how: How
    sources: tuple[Side, Side]
    later: Sequence[Scope]
    used: list[exp.Expr] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.text = self.sources[SELF].scope.text
        self.sides = Sides(
            (self.sources[SELF].scope, self.sources[OTHER].scope),
            self.later,
            frozenset(name.name.lower() for name in self.join.args.get("using") or ()),
        )

    def run(self, held: Sequence[exp.Expr]) -> Scope:
        """Return the result; `held` are conditions of WHERE that may act before it."""
        before: dict[int, list[exp.Expr]] = {SELF: [], OTHER: []}
        bounds = Bounds(self.sides, self.sources)
        keys = self._using()
        rest: list[exp.Expr] = []
        for condition in self._conditions(held):
            about = self.sides.of(condition)
            if about is not None and len(about) == 1:
                (side,) = about
                (rest if side in self._whole(condition) else before[side]).append(condition)
            elif not bounds.take(condition) and not self._key(condition, keys):
                rest.append(condition)
        band = bounds.band(self.join)
        rest += bounds.compared
        if rest and self.how != "inner":
            raise self._not_in_on(rest[0])
        assert bounds.pair is not None  # noqa: S101
        streams = self._streams(before, bounds.pair)
        time, called = self._time(bounds.pair)
        with told_at(self.text, self.join):
            made = streams[SELF].join(streams[OTHER], on=keys, band=band, how=self.how, time=time)
        found = self._scope(made, called)
        return found.where(together(rest)) if rest else found

    def _conditions(self, held: Sequence[exp.Expr]) -> list[exp.Expr]:
        """Return the conditions of ON, and those of WHERE that can be told by now."""
        own = conjuncts(self.join.args.get("on"))
        for condition in held:
            about = self.sides.of(condition)
            first = about == frozenset({SELF})
            if about and (self.how == "inner" or first) and condition not in self.used:
                self.used.append(condition)
        return own + self.used

    def _whole(self, condition: exp.Expr) -> frozenset[int]:
        """Return the sides whose rows must not be filtered before the join by a condition."""
        return frozenset() if condition in self.used else _KEEPS[self.how]

    def _using(self) -> dict[str, str]:
        keys = {}
        for name in self.join.args.get("using") or ():
            mine, other = (find(name.name, s.scope.stream.schema.names) for s in self.sources)
            if mine is None or other is None:
                raise mistake(f"{name.name!r} is no column of both", self.text, name)
            keys[mine] = other
        return keys

    def _key(self, condition: exp.Expr, keys: dict[str, str]) -> bool:
        """Take in an equality of two columns."""
        if not isinstance(condition, exp.EQ):
            return False
        columns = [self.sides.column(node) for node in (condition.this, condition.expression)]
        found = dict(c for c in columns if c is not None)
        if found.keys() != {SELF, OTHER} or found[SELF] in keys:
            return False
        keys[found[SELF]] = found[OTHER]
        return True

    def _streams(self, before: Mapping[int, list[exp.Expr]], pair: Pair) -> tuple[Stream, Stream]:
        """Return both streams, filtered, with the times by which they join."""
        mine, other = (
            replace(
                (s.scope.where(together(before[i])) if before[i] else s.scope).stream, time=pair[i]
            )
            for i, s in enumerate(self.sources)
        )
        return mine, other

    def _time(self, pair: Pair) -> tuple[Time | None, exp.Expr | None]:
        """Return what the result progresses on, and the item of SELECT that says so.

        That is the greater or the smaller of both times where SELECT has it, or the time of other
        if SELECT names that one alone, also beside `*`.
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
        """Return side and name of the column that an item of SELECT is; `a.*` names the time."""
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

    def _scope(self, made: Stream, called: exp.Expr | None) -> Scope:
        """Return the result, and what its columns may be called."""
        assert isinstance(made.node, Operated)  # noqa: S101
        plan = made.node.plan
        assert isinstance(plan, JoinPlan)  # noqa: S101
        if called is not None:
            stands = column(plan.result_times[0])
            mark(stands, position(called))
            called.replace(stands)
        shown = self.sources[:1] if self.how == "anti" else self.sources
        known = {
            name: {old: names[new] for old, new in columns.items()}
            for side, names in zip(shown, plan.names, strict=False)
            for name, columns in side.scope.known.items()
        }
        return Scope(self.text, made, known)

    def _not_in_on(self, condition: exp.Expr) -> CqlError:
        return mistake(
            f"a {self.how} join goes by equal columns and by times",
            self.text,
            condition,
            "put other conditions into WHERE, or into a query of its own in FROM",
        )


def extreme_of(node: exp.Expr) -> tuple[Time, list[exp.Expr]] | None:
    """Read `max(a.ts, b.ts)` and `min(a.ts, b.ts)`, which are about one row."""
    if isinstance(node, exp.Greatest | exp.Least):
        return "max" if isinstance(node, exp.Greatest) else "min", [node.this, *node.expressions]
    if isinstance(node, exp.Anonymous) and len(node.expressions) > 1:
        word = node.name.lower()
        if word in ("max", "min"):
            return word, list(node.expressions)  # type: ignore[return-value]  # one of both
    return None
