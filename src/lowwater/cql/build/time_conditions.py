"""Turns conditions on the times of two streams into a band, or into a common tumbling window.

A band bounds `u = other.time - self.time`. A comparison of the two times bounds u. A window or KEEP
of length W also bounds u: on `self` it means `u < W`, on `other` it means `-u < W`, because the
window excludes its older end (OOP 5.3, Q2; QDJ algorithm 1).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlglot import exp

from lowwater.cql.build.scope import Side, Sides
from lowwater.cql.errors import cql_error, errors_at
from lowwater.cql.nodes import number_of, span_of, value_of
from lowwater.operators.join.plan import OTHER, SELF
from lowwater.query.join_args import SameWindowSpec, same_window
from lowwater.ticks import instant, ticks
from lowwater.windows.axis import Axis

Pair = tuple[str, str]
"""The names of the time columns of both sides."""
_BOUNDS: dict[type[exp.Expr], tuple[int | None, int | None]] = {
    exp.LT: (None, -1), exp.LTE: (None, 0), exp.EQ: (0, 0), exp.GTE: (0, None), exp.GT: (1, None),
}  # fmt: skip
"""Maps a comparison of u with c to (least u - c, greatest u - c), with None for no bound."""
_SIZE_SLIDE_START = 3


class Linear(NamedTuple):
    """A sum of columns and constants, each with its sign."""

    columns: tuple[tuple[int, exp.Column], ...] = ()
    constants: tuple[tuple[int, exp.Expr], ...] = ()

    def plus(self, other: Linear, sign: int = 1) -> Linear:
        """Return this sum plus `other`, or minus `other` if `sign` is -1."""
        columns = tuple((sign * s, node) for s, node in other.columns)
        constants = tuple((sign * s, node) for s, node in other.constants)
        return Linear(self.columns + columns, self.constants + constants)


def linear(node: exp.Expr) -> Linear | None:
    """Return the sum `node`, such as `a.ts + INTERVAL 3 SECONDS`; None if `node` is not a sum."""
    if isinstance(node, exp.Paren):
        return linear(node.this)
    if isinstance(node, exp.Column):
        return Linear(columns=((1, node),))
    if isinstance(node, exp.Interval) or (isinstance(node, exp.Literal) and not node.is_string):
        return Linear(constants=((1, node),))
    if isinstance(node, exp.Neg):
        parts = [Linear(), linear(node.this)]
    elif isinstance(node, exp.Add | exp.Sub):
        parts = [linear(node.this), linear(node.expression)]
    else:
        return None
    first, second = parts
    if first is None or second is None:
        return None
    return first.plus(second, 1 if isinstance(node, exp.Add) else -1)


class Bounds:
    """The bounds that conditions set on u, the difference of the two times of a joined pair."""

    def __init__(self, sides: Sides, sources: tuple[Side, Side]) -> None:
        self.sides, self.sources = sides, sources
        self.text = sources[SELF].scope.text
        self.pair: Pair | None = None
        self.same: SameWindowSpec | None = None
        self.lows: list[int] = []
        self.highs: list[int] = []
        self.compared: list[exp.Expr] = []

    def take(self, condition: exp.Expr) -> bool:
        """Return whether `condition` was added: it must compare the times of both sides."""
        if isinstance(condition, exp.EQ) and self._window(condition):
            return True
        parts = [condition]
        if isinstance(condition, exp.Between):
            ends = ((exp.GTE, condition.args["low"]), (exp.LTE, condition.args["high"]))
            parts = [kind(this=condition.this.copy(), expression=e.copy()) for kind, e in ends]
        bounds = [self._compared(part) for part in parts]
        if None in bounds:
            return False
        for least, most in (bound for bound in bounds if bound is not None):
            self.lows += [] if least is None else [least]
            self.highs += [] if most is None else [most]
        self.compared.append(condition)
        return True

    def _compared(self, node: exp.Expr) -> tuple[int | None, int | None] | None:
        """Return the band that `node` allows; None if `node` does not compare both times."""
        if type(node) not in _BOUNDS:
            return None
        first, second = linear(node.this), linear(node.expression)
        if first is None or second is None:
            return None
        whole = first.plus(second, -1)
        columns = [self.sides.column(column) for _, column in whole.columns]
        pair = self._pair(columns)
        signs = [sign for sign, _ in whole.columns]
        if pair is None or sum(signs) != 0:
            return None
        axis = self._axis(pair)
        with errors_at(self.text, node):
            offset = sum(sign * _span(axis, part) for sign, part in whole.constants)
        self.pair = pair
        sign = signs[columns.index((OTHER, pair[OTHER]))]  # sign * u + offset, compared with 0
        low, high = _BOUNDS[type(node)]
        if sign > 0:
            return _moved(-offset, low), _moved(-offset, high)
        return _moved(offset, high, -1), _moved(offset, low, -1)

    def _pair(self, columns: list[tuple[int, str] | None]) -> Pair | None:
        """Return the names of `columns`; None if they are not the times of both sides."""
        names = dict(column for column in columns if column is not None)
        if len(columns) != len((SELF, OTHER)) or names.keys() != {SELF, OTHER}:
            return None
        pair = names[SELF], names[OTHER]
        progress = all(c in source.times for c, source in zip(pair, self.sources, strict=True))
        return pair if progress and self.pair in (None, pair) else None

    def _axis(self, pair: Pair) -> Axis:
        return self.sources[SELF].scope.stream.axis(pair[SELF])

    # -- a window in common -----------------------------------------------------------------------

    def _window(self, node: exp.EQ) -> bool:
        first, second = _bucket(node.this), _bucket(node.expression)
        if first is None or second is None or first[1:] != second[1:]:
            return False
        pair = self._pair([self.sides.column(column) for column in (first[0], second[0])])
        if pair is None or self.same is not None:
            return False
        _, size, start = first
        axis = self._axis(pair)
        with errors_at(self.text, node):
            given: Any = None if start is None else _length(start)
            timed = axis.kind == "time" and start is not None
            origin = instant(ticks(given)) if timed else given
            axis.span(_length(size), name="same_window")
        self.pair, self.same = pair, same_window(_length(size), origin=origin)
        return True

    # -- the band ---------------------------------------------------------------------------------

    def band(self, node: exp.Expr) -> SameWindowSpec | tuple[Any, Any]:
        """Return the common window; if there is none, return the band (least u, greatest u)."""
        if self.same is not None:
            if any(source.kept for source in self.sources):
                problem = "a join by a common window cannot have RANGE or KEEP, too"
                hint = "remove them, or the condition on windows"
                raise cql_error(problem, self.text, node, hint)
            return self.same
        if self.pair is None:
            self.pair = self.sources[SELF].times[0], self.sources[OTHER].times[0]
        axis = self._axis(self.pair)
        self._keep(axis)
        self.compared = []
        if not self.lows or not self.highs:
            raise self._unbounded(node)
        low, high = max(self.lows), min(self.highs)
        if low > high:
            problem = "no rows can join: the conditions on their times exclude each other"
            raise cql_error(problem, self.text, node, "remove one of them, or widen it")
        return span_of(axis, low), span_of(axis, high)

    def _keep(self, axis: Axis) -> None:
        for side, source in enumerate(self.sources):
            if source.kept is None or source.kept.args["kind"] == "unbounded":
                continue
            with errors_at(self.text, source.node):
                last = axis.span(value_of(source.kept), name="RANGE") - 1
            (self.highs if side == SELF else self.lows).append(last if side == SELF else -last)

    def _unbounded(self, node: exp.Expr) -> Exception:
        assert self.pair is not None  # noqa: S101
        names = [next(iter(s.scope.known), "") for s in self.sources]
        mine, other = (f"{n}.{c}" if n else c for n, c in zip(names, self.pair, strict=True))
        some = " on one side" if self.lows or self.highs else ""
        problem = f"the conditions do not bound the times of rows that join{some}"
        between = f"{mine} - INTERVAL 2 SECONDS AND {mine} + INTERVAL 3 SECONDS"
        hint = f"add a condition like {other} BETWEEN {between}"
        return cql_error(f"{problem}, so no row could ever be evicted", self.text, node, hint)


def _moved(bound: int, by: int | None, sign: int = 1) -> int | None:
    return None if by is None else bound + sign * by


def _span(axis: Axis, node: exp.Expr) -> int:
    if isinstance(node, exp.Interval):
        unit = node.args.get("unit")
        length = node.this.name if unit is None else f"{node.this.name} {unit.name}"
        return axis.span(length, name="INTERVAL")
    return axis.span(number_of(node.name), name="band")


def _bucket(node: exp.Expr) -> tuple[exp.Column, exp.Expr, exp.Expr | None] | None:
    """Return (column, size, start) of `ts DIV 10`, `window(ts, …)` or the like; None otherwise."""
    if isinstance(node, exp.Paren | exp.Floor):
        return _bucket(node.this)
    if isinstance(node, exp.IntDiv | exp.Div):
        column, given = node.this, [node.expression]
    elif isinstance(node, exp.Anonymous) and node.name.lower() == "window":
        column, *given = node.expressions or [node]
    else:
        return None
    if not isinstance(column, exp.Column) or not given or len(given) > _SIZE_SLIDE_START:
        return None
    if not all(isinstance(g.this if isinstance(g, exp.Neg) else g, exp.Literal) for g in given):
        return None
    if len(given) > 1 and given[1] != given[0]:
        return None
    return column, given[0], given[-1] if len(given) == _SIZE_SLIDE_START else None


def _length(node: exp.Expr) -> Any:
    if isinstance(node, exp.Neg):
        return -_length(node.this)
    return node.name if node.is_string else number_of(node.name)
