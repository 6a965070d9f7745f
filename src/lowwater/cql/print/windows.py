"""Turns the window of a plan into the window of a CQL text."""

from __future__ import annotations

from functools import singledispatch
from typing import TypeAlias

from sqlglot import exp

from lowwater.cql.names import column
from lowwater.cql.nodes import ROW_NUM, Length, RankOf, RowNumber, StreamWindow, length
from lowwater.errors import SpecError
from lowwater.operators.window.plan import WindowPlan
from lowwater.ticks import instant
from lowwater.windows.axis import Axis
from lowwater.windows.common_panes import Shared
from lowwater.windows.landmark import Landmark
from lowwater.windows.row_windows import ARRIVAL, RowWindow
from lowwater.windows.session import SessionWindow

Clauses: TypeAlias = dict[str, exp.Expr | list[exp.Column] | None]
"""Maps arguments of `StreamWindow` to the clauses of a window; None for an absent clause."""


def window_of(plan: WindowPlan) -> StreamWindow:
    """Return the window of `plan` as a syntax node; raise SpecError if CQL cannot express it."""
    if plan.flush is not None:
        raise SpecError(
            "flush= has no text: it sets when results leave, and a text describes results; print "
            "the query without flush="
        )
    clauses = _clauses(plan.spec, plan) if plan.numbering is None else _numbered(plan)
    clauses["pattr"] = [column(name) for name in plan.partition]
    return StreamWindow(**{name: value for name, value in clauses.items() if value})


@singledispatch
def _clauses(spec: object, plan: WindowPlan) -> Clauses:
    """Return the clauses of the window `spec` of `plan`; this default is for sliding windows."""
    del spec
    if len(plan.fixed_windows) != 1:
        raise SpecError(
            f"windows ({plan.window_text}) have no text: CQL has no clause for them; keep the "
            f"query in Python"
        )
    ((_, window),) = plan.fixed_windows
    axis, second = plan.axis, plan.second
    times = [column(time.column) for time in (axis, second) if time is not None]
    return {
        "range": _span(axis, window.range),
        "slide": _span(axis, window.slide),
        "wattr": times if second else times[0],
        "origin": _point(axis, window.origin) if window.origin else None,
        "allowed_lateness": _span(axis, plan.revise) if plan.revise else None,
    }


@_clauses.register
def _(spec: Shared, plan: WindowPlan) -> Clauses:
    del plan
    raise SpecError(
        f"lw.windows() of {len(spec.named)} windows has no text: CQL has one window per stream; "
        f"write a query for each of them"
    )


@_clauses.register
def _(spec: SessionWindow, plan: WindowPlan) -> Clauses:
    return {"gap": _span(plan.axis, spec.gap), "wattr": column(plan.axis.column)}


@_clauses.register
def _(spec: Landmark, plan: WindowPlan) -> Clauses:
    return {
        "range": Length(this="UNBOUNDED", kind="unbounded"),
        "slide": _span(plan.axis, spec.slide),
        "wattr": column(plan.axis.column),
        "origin": None if spec.landmark is None else _point(plan.axis, spec.landmark),
    }


@_clauses.register
def _(spec: RowWindow, plan: WindowPlan) -> Clauses:
    axis = plan.axis
    return {"range": _span(axis, spec.range), "rattr": column(axis.column), **_ends(plan, spec)}


def _numbered(plan: WindowPlan) -> Clauses:
    """Return the clauses of a window that is measured in row numbers."""
    ((_, window),) = plan.spec.fixed
    rank = RankOf(this=column(plan.axis.column))
    return {
        "range": _rows(window.range),
        "slide": _rows(window.slide),
        "wattr": _row_number(plan) if plan.numbering == "arrival" else rank,
    }


def _ends(plan: WindowPlan, spec: RowWindow) -> Clauses:
    """Return SLIDE and SATTR, the clauses that define at which rows windows end."""
    if spec.slide_on == ARRIVAL or (spec.slide_on is None and spec.slide == 1):
        return {"slide": _rows(spec.slide), "sattr": _row_number(plan)}
    if spec.slide_on is None:
        return {"slide": _rows(spec.slide), "sattr": RankOf(this=column(plan.axis.column))}
    other = Axis(spec.slide_on, plan.schema.field(spec.slide_on).type)
    return {"slide": _span(other, spec.slide), "sattr": column(spec.slide_on)}


def _row_number(plan: WindowPlan) -> RowNumber | None:
    """Return `row-num`; None (arrival order, the default) if a column is named `row-num`."""
    return None if ROW_NUM in plan.schema.names else RowNumber()


def _rows(count: int) -> Length:
    return _length(str(count), "row")


def _span(axis: Axis, span: int) -> Length:
    number, *unit = axis.say(span).split()
    return _length(number, unit[0].removesuffix("s") if unit else None)


def _length(number: str, unit: str | None) -> Length:
    node = length([(number, unit)])
    assert node is not None  # noqa: S101
    return node


def _point(axis: Axis, at: int) -> exp.Literal:
    if axis.kind == "time":
        return exp.Literal.string(instant(at).isoformat(sep=" "))
    return exp.Literal(this=axis.say(at), is_string=False)
