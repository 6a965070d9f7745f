"""Prints a join as `SELECT … FROM a JOIN b ON …`."""

from __future__ import annotations

from sqlglot import exp

from lowwater.cql.dialect import parse
from lowwater.cql.names import column, conjunction, extreme_of, identifier
from lowwater.errors import SpecError
from lowwater.expressions.steps import Select, Step
from lowwater.operators.join.band import Band, SameWindow
from lowwater.operators.join.plan import OTHER, SELF, JoinPlan
from lowwater.windows.axis import Axis

_WORDS = {
    "inner": (None, None), "left": ("LEFT", None), "right": ("RIGHT", None),
    "full": ("FULL", None), "anti": ("LEFT", "ANTI"),
}  # fmt: skip
_USUAL = {"right": "other", "full": "max"}
"""The default `time=` of right and full joins; other joins default to the left stream's time."""


def expression(text: str) -> exp.Expr:
    """Return the syntax tree of `text`, an expression of a step."""
    tree: exp.Expr = parse(f"SELECT {text}").expressions[0]
    return tree


class JoinText:
    """The text of a join: a query with both inputs in FROM."""

    def __init__(self, plan: JoinPlan, mine: exp.Expr, other: exp.Expr) -> None:
        self.plan = plan
        sources = [mine.copy(), other.copy()]
        names = [s.name if isinstance(s, exp.Table) else "" for s in sources]
        if not all(names) or names[SELF].lower() == names[OTHER].lower():
            names = ["l", "r"]
            for source, name in zip(sources, names, strict=True):
                source.set("alias", exp.TableAlias(this=identifier(name)))
        self.names, self.sources = names, sources
        if plan.flush is not None:
            raise SpecError(
                "flush= has no text: it sets when rows leave, and a text describes rows; print the "
                "query without flush="
            )
        if plan.suffix != "_other":
            remedy = "rename columns with select() instead"
            raise SpecError(f"suffix={plan.suffix!r} has no text; {remedy}")

    def all(self) -> exp.Select:
        """Return the query of the join with all columns."""
        plan = self.plan
        items: list[exp.Expr] = [exp.Star()]
        if plan.time != _USUAL.get(plan.how, "self"):
            if plan.time == "both":
                remedy = "remove it, and name the time of the window by on="
                raise SpecError(f"time='both' has no text; {remedy}")
            alias = identifier(plan.result_times[0])
            extreme = exp.Alias(this=self._extreme(), alias=alias)
            items.append(self._time(OTHER) if plan.time == "other" else extreme)
        return self._select(items)

    def chosen(self, step: Select) -> exp.Select:
        """Return the query of the join with the columns that `step` selects."""
        items = []
        for name, text in step.columns:
            node = expression(text)
            same = _is_plain(node) and node.name == name
            written = node.transform(self._source_of)
            items.append(written if same else exp.Alias(this=written, alias=identifier(name)))
        return self._select(items)

    def _select(self, items: list[exp.Expr]) -> exp.Select:
        side, kind = _WORDS[self.plan.how]
        join = exp.Join(this=self.sources[OTHER], side=side, kind=kind, on=self._condition())
        select = exp.select(*items).from_(self.sources[SELF])
        select.set("joins", [join])
        return select

    def _source_of(self, node: exp.Expr) -> exp.Expr:
        """Return a column of the result as a column of its input; return other nodes unchanged."""
        if not isinstance(node, exp.Column):
            return node
        first, *fields = [part.name for part in node.parts]
        plan = self.plan
        if plan.time in ("min", "max") and first == plan.result_times[0]:
            return self._extreme()
        for side in (SELF, OTHER):
            for old, new in plan.names[side].items():
                if new == first:
                    return column(self.names[side], old, *fields)
        return node

    def _extreme(self) -> exp.Expr:
        return exp.Anonymous(this=self.plan.time, expressions=[self._time(SELF), self._time(OTHER)])

    def _time(self, side: int) -> exp.Column:
        return column(self.names[side], self.plan.axes[side].column)

    # -- ON ---------------------------------------------------------------------------------------

    def _condition(self) -> exp.Expr:
        """Return the condition of ON: first it compares the two times, then each pair of keys."""
        plan = self.plan
        times = tuple(axis.column for axis in plan.axes)
        if times in plan.on:
            problem = f"on={times!r} compares the times of both streams, which has no text"
            raise SpecError(f"{problem}; write band=(0, 0) instead")
        near = [self._same_window()] if isinstance(plan.band, SameWindow) else self._band()
        left, right = self.names
        keys = [exp.EQ(this=column(left, a), expression=column(right, b)) for a, b in plan.on]
        return conjunction([*near, *keys])

    def _band(self) -> list[exp.Expr]:
        band, axis = self.plan.band, self.plan.axes[SELF]
        assert isinstance(band, Band)  # noqa: S101
        other = self._time(OTHER)
        if band.lo == band.hi:
            return [exp.EQ(this=other, expression=self._moved(band.lo))]
        after, before = _is_rounder(axis, band.lo, -1), _is_rounder(axis, band.hi, 1)
        if not after and not before:
            low, high = self._moved(band.lo), self._moved(band.hi)
            return [exp.Between(this=other, low=low, high=high)]
        low, high = self._moved(band.lo - after), self._moved(band.hi + before)
        least = (exp.GT if after else exp.GTE)(this=other, expression=low)
        most = (exp.LT if before else exp.LTE)(this=other.copy(), expression=high)
        return [least, most]

    def _moved(self, by: int) -> exp.Expr:
        if by == 0:
            return self._time(SELF)
        kind = exp.Add if by > 0 else exp.Sub
        return kind(this=self._time(SELF), expression=_length(self.plan.axes[SELF], abs(by)))

    def _same_window(self) -> exp.Expr:
        band, axis = self.plan.band, self.plan.axes[SELF]
        assert isinstance(band, SameWindow)  # noqa: S101
        given = [band.size] if band.origin == 0 else [band.size, band.size, band.origin]
        mine, other = (
            exp.Anonymous(this="window", expressions=[time, *(_literal(axis, n) for n in given)])
            for time in (self._time(SELF), self._time(OTHER))
        )
        return exp.EQ(this=mine, expression=other)


def is_select_of(plan: JoinPlan, step: Step) -> bool:
    """Return whether `step` can be the SELECT of a join: it must select the time of the result."""
    if not isinstance(step, Select):
        return False
    nodes = [expression(text) for _, text in step.columns]
    named = [node.name for node in nodes if _is_plain(node)]
    composed = [node for node in nodes if not _is_plain(node)]
    inside = [c.parts[0].name for node in composed for c in node.find_all(exp.Column)]
    own, *_ = plan.result_times
    extreme = plan.time in ("min", "max")
    if any(extreme_of(node) is not None for node in nodes) or (extreme and own in inside):
        return False
    if plan.time == "other" and plan.how == "inner":
        return own in named and plan.own_times["self"] not in named
    return plan.time != "both" and named.count(own) == 1


def _is_plain(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and len(node.parts) == 1


def _length(axis: Axis, span: int) -> exp.Expr:
    number, *unit = axis.say(span).split()
    if not unit:
        return exp.Literal.number(number)
    return exp.Interval(this=exp.Literal.string(number), unit=exp.Var(this=unit[0].upper()))


def _is_rounder(axis: Axis, bound: int, step: int) -> bool:
    """Return whether the exclusive bound, `bound + step`, has a shorter text than `bound`."""
    return len(axis.say(abs(bound + step))) + 1 < len(axis.say(abs(bound)))


def _literal(axis: Axis, span: int) -> exp.Expr:
    if axis.kind == "time":
        return exp.Literal.string(axis.say(span))
    number = exp.Literal.number(axis.say(abs(span)))
    return exp.Neg(this=number) if span < 0 else number
