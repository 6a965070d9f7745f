"""Windows of a text as the words of `stream.window(...)`, and back."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from lowwater.cql.lengths import endless, length, number_of, value_of
from lowwater.cql.mistakes import mistake
from lowwater.cql.names import Scope, column
from lowwater.cql.nodes import Length, RankOf, RowNumber, StreamWindow
from lowwater.durations import instant
from lowwater.errors import SpecError
from lowwater.kernels import ARRIVAL, WindowPlan
from lowwater.windows import Axis, Landmark, Rank, Session, Shared, SlideByRow, Sliding, arrival

ROW_NUM = "row-num"
"""The papers' word for the order of arrival, unless a stream has a column of that name."""


def words_of(window: StreamWindow, scope: Scope) -> dict[str, Any]:
    """Return the arguments of `stream.window(...)` that a window stands for."""
    given = window.args
    if given.get("wattr") and (given.get("rattr") or given.get("sattr")):
        raise mistake(
            "WATTR is for RANGE and SLIDE alike; RATTR and SATTR are one for each",
            scope.text,
            first_of(given["wattr"]),
            "leave out the one or the others",
        )
    words: dict[str, Any] = {
        name: value_of(given[name]) for name in ("range", "slide", "gap") if given.get(name)
    }
    if over := given.get("wattr") or given.get("rattr"):
        both = isinstance(over, list)
        words["on"] = tuple(_column(o, scope) for o in over) if both else _attribute(over, scope)
    if given.get("sattr"):
        words["slide_on"] = _attribute(given["sattr"], scope)
    if given.get("pattr"):
        words["partition_by"] = [_column(node, scope) for node in given["pattr"]]
    if given.get("revise"):
        words["revise_for"] = value_of(given["revise"])
    if (origin := given.get("origin")) is not None:
        words["origin"] = origin.name if origin.is_string else number_of(origin.name)
    return words


def first_of(over: Any) -> exp.Expr:
    """Return the attribute of a window, the first where there are two."""
    found: exp.Expr = over[0] if isinstance(over, list) else over
    return found


def _attribute(node: exp.Expr, scope: Scope) -> Any:
    if isinstance(node, RankOf):
        return Rank(_column(node.this, scope))
    if isinstance(node, RowNumber):
        return ROW_NUM if ROW_NUM in scope.stream.schema.names else arrival
    return _column(node, scope)


def _column(node: exp.Expr, scope: Scope) -> str:
    found = scope.column(node) if isinstance(node, exp.Column) else None
    if found is None:
        raise mistake("a window lies over a column, not over a field", scope.text, node)
    return found


def window_of(plan: WindowPlan) -> StreamWindow:
    """Return the window of a plan."""
    if isinstance(plan.spec, Shared):
        raise SpecError("several windows at once have no text: print a query for each of them")
    if plan.smooth is not None:
        raise SpecError("smooth= has no text: a text says what results are, not when they leave")
    spec, axis = plan.spec, plan.axis
    window = StreamWindow()
    if isinstance(spec, Session):
        _set(window, gap=_span(axis, spec.gap), wattr=column(axis.column))
    elif plan.numbering is not None:
        assert isinstance(spec, Sliding)  # noqa: S101
        over = (
            _row_number(plan) if plan.numbering == "arrival" else RankOf(this=column(axis.column))
        )
        _set(window, range=_rows(spec.range), slide=_rows(spec.slide), wattr=over)
    elif isinstance(spec, SlideByRow):
        _set(window, range=_span(axis, spec.range), rattr=column(axis.column))
        _set(window, **_ends(plan, spec))
    elif isinstance(spec, Landmark):
        _set(window, range=endless(), slide=_span(axis, spec.slide), wattr=column(axis.column))
        _set(window, origin=None if spec.landmark is None else _point(axis, spec.landmark))
    else:
        _set(window, range=_span(axis, spec.range), slide=_span(axis, spec.slide))
        both = [column(time.column) for time in (axis, plan.second) if time is not None]
        _set(window, wattr=both if plan.second else both[0])
        _set(window, origin=_point(axis, spec.origin) if spec.origin else None)
        _set(window, revise=_span(axis, plan.revise) if plan.revise else None)
    _set(window, pattr=[column(name) for name in plan.partition])
    return window


def _ends(plan: WindowPlan, spec: SlideByRow) -> dict[str, Any]:
    """Return what rows end a window: the slide, and what it is counted on."""
    if spec.slide_on is None:
        by_rank = RankOf(this=column(plan.axis.column))
        one = spec.slide == 1
        return {"slide": _rows(spec.slide), "sattr": _row_number(plan) if one else by_rank}
    if spec.slide_on == ARRIVAL:
        return {"slide": _rows(spec.slide), "sattr": _row_number(plan)}
    other = Axis(spec.slide_on, plan.schema.field(spec.slide_on).type)
    return {"slide": _span(other, spec.slide), "sattr": column(spec.slide_on)}


def _row_number(plan: WindowPlan) -> RowNumber | None:
    """Return the word for the order of arrival; without it, that is what is meant."""
    return None if ROW_NUM in plan.schema.names else RowNumber()


def _set(window: StreamWindow, **given: Any) -> None:
    for name, value in given.items():
        if value:
            window.set(name, value)


def _rows(count: int) -> Length:
    return _length(str(count), "row")


def _span(axis: Axis, span: int) -> Length:
    number, *unit = axis.say(span).split()
    return _length(number, unit[0].removesuffix("s") if unit else None)


def _length(number: str, unit: str | None) -> Length:
    found = length([(number, unit)])
    assert found is not None  # noqa: S101
    return found


def _point(axis: Axis, at: int) -> exp.Literal:
    if axis.kind == "time":
        return exp.Literal.string(instant(at).isoformat(sep=" "))
    return exp.Literal(this=axis.say(at), is_string=False)
