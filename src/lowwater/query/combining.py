"""Streams that combine: union, distinct, joins, order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from lowwater.errors import SpecError, unknown_name
from lowwater.kernels import OperatorPlan
from lowwater.kernels.bands import Band, SameWindow
from lowwater.kernels.distinct import DistinctPlan
from lowwater.kernels.joins import How, JoinPlan, Time
from lowwater.kernels.ordering import OrderPlan
from lowwater.kernels.timed_joins import TimedJoinPlan
from lowwater.query.nodes import Operated, United
from lowwater.query.smoothing import Flush, smooth_join
from lowwater.sources import Select
from lowwater.sources.expressions import column_text
from lowwater.windows import Axis, unbounded

if TYPE_CHECKING:
    from lowwater.query.stream import Stream

Order = Literal["free", "time"]
_LOW_AND_HIGH = 2


@dataclass(frozen=True)
class SameWindowSpec:
    """Rows of one tumbling window belong together: `lw.same_window("10 seconds")`."""

    size: Any
    origin: Any = None


def same_window(size: Any, *, origin: Any = None) -> SameWindowSpec:
    """Join rows that lie in the same tumbling window, instead of a band: `band=same_window(...)`.

    >>> same_window("10 seconds").size
    '10 seconds'
    """
    return SameWindowSpec(size, origin)


# -- union -----------------------------------------------------------------------------------------


def united(streams: Sequence[Stream]) -> Stream:
    """Return streams of the same columns as one."""
    from lowwater.query.stream import Stream

    first = streams[0]
    fitted = [first, *(_fitted(first, other) for other in streams[1:])]
    flat = [
        part
        for stream in fitted
        for part in (stream.node.of if isinstance(stream.node, United) else (stream,))
    ]
    times = [stream.times for stream in flat if stream.times is not None]
    common = None
    if times:
        common = tuple(a for a in times[0] if all(a in other for other in times))
        if first.time not in [a.column for a in common]:
            raise SpecError(
                f"union: {first.time!r} does not mean the same time in all streams; give all of "
                f"them the same kind of window, or none"
            )
    return Stream(United(tuple(flat)), first.schema, first.time, common)


def _fitted(first: Stream, other: Stream) -> Stream:
    """Return the other stream with its columns in the order of the first."""
    _is_stream("union", other)
    if other.time != first.time:
        raise SpecError(
            f"union: the streams' times are {first.time!r} and {other.time!r}; rename one with "
            f"select(..., {first.time}={other.time!r}) where the stream is made"
        )
    mine = {f.name: f.type for f in first.schema}
    theirs = {f.name: f.type for f in other.schema}
    if mine != theirs:
        raise SpecError(f"union: the columns differ: {_difference(mine, theirs)}")
    if first.schema.names == other.schema.names:
        return other
    return other.after(Select(tuple((n, column_text(n)) for n in first.schema.names)))


def _difference(mine: Mapping[str, pa.DataType], theirs: Mapping[str, pa.DataType]) -> str:
    told = [f"{n} is missing in the other" for n in mine if n not in theirs]
    told += [f"{n} is missing in the first" for n in theirs if n not in mine]
    told += [
        f"{n} is {t} here and {theirs[n]} there"
        for n, t in mine.items()
        if n in theirs and theirs[n] != t
    ]
    return "; ".join(told)


def _is_stream(word: str, other: Any) -> None:
    from lowwater.query.stream import Stream

    if not isinstance(other, Stream):
        raise SpecError(f"{word}({other!r}): give another stream")


# -- distinct and order ----------------------------------------------------------------------------


def distinct(stream: Stream, columns: Sequence[str], within: Any) -> Stream:
    """Return the first row of each kind."""
    chosen = tuple(dict.fromkeys(columns)) or tuple(stream.schema.names)
    for column in chosen:
        if column not in stream.schema.names:
            raise unknown_name("column", column, stream.schema.names)
        if pa.types.is_map(stream.schema.field(column).type):
            raise SpecError(f"distinct({column!r}): a map is not hashable; take one of its keys")
    axis = stream.axis(stream.time)
    near = 0 if within is None else axis.span(within, name="within")
    if near < 0:
        raise SpecError(f"within={within!r} must not be negative; leave it out for equal times")
    return _operated(DistinctPlan(stream.schema, axis, chosen, near), (stream,), (axis,))


def in_order(stream: Stream) -> Stream:
    """Return the rows of a stream by time."""
    axis = stream.axis(stream.time)
    return _operated(OrderPlan(stream.schema, axis), (stream,), (axis,))


def _operated(
    plan: OperatorPlan, of: tuple[Stream, ...], times: tuple[Axis, ...], time: str | None = None
) -> Stream:
    from lowwater.query.stream import Stream

    made = Stream(Operated(plan, of), plan.result_schema, time or times[0].column, times)
    _ = made.assembly
    return made


# -- join ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Joining:
    """The words of a join."""

    on: Any
    band: Any
    how: How
    time: Time | None
    order: Order
    suffix: str
    smooth: Flush | None


def join(stream: Stream, other: Stream, words: Joining) -> Stream:
    """Return the pairs of rows of two streams that belong together."""
    _is_stream("join", other)
    if words.order not in ("free", "time"):
        raise SpecError(f"order={words.order!r} is unknown; it is 'free' or 'time'")
    if words.order == "time" and words.smooth is not None:
        raise SpecError(
            "smooth= and order='time' contradict each other: results in order could not leave "
            "before the last of those that wait; leave one of them out"
        )
    axes = (stream.axis(stream.time), other.axis(other.time))
    how, band = words.how, _band(words.band, axes)
    made_by = TimedJoinPlan if words.order == "time" else JoinPlan
    plan = made_by(
        (stream.schema, other.schema),
        axes,
        _keys(stream, other, words.on),
        band,
        how,
        words.time or _usual_time(how, words.order),
        words.suffix,
        smooth=smooth_join(words.smooth, axes[0], band),
    )
    _check_time(plan)
    _check_names(plan)
    columns = plan.own_times.values()
    times = [_renamed(axis, plan.names[port][axis.column]) for port, axis in enumerate(axes)]
    found = [a for a in times if a.column in columns]
    if plan.time in ("min", "max"):
        found.append(Axis(plan.result_times[0], plan.time_type))
    return _operated(plan, (stream, other), tuple(found), plan.result_times[0])


def _usual_time(how: How, order: Order) -> Time:
    """Return the time of results if none is named; pairs in order have the later one (QDJ 4.2)."""
    if how == "full" or (how == "inner" and order == "time"):
        return "max"
    return "other" if how == "right" else "self"


def _renamed(axis: Axis, column: str) -> Axis:
    from dataclasses import replace

    return replace(axis, column=column)


def _check_time(plan: JoinPlan) -> None:
    wanted = ("self", "other") if plan.time == "both" else (plan.time,)
    absent = [side for side in wanted if side in ("self", "other") and side not in plan.own_times]
    if absent:
        raise SpecError(
            f"time={plan.time!r}: a row without a partner in a {plan.how} join has no time of "
            f"{absent[0]}; take time='max' or 'min'"
        )


def _check_names(plan: JoinPlan) -> None:
    hidden = [n for n in plan.result_schema.names if n.startswith("__")]
    if hidden:
        raise SpecError(f"column {hidden[0]!r}: names that begin with '__' are Lowwater's own")


def _keys(stream: Stream, other: Stream, on: Any) -> tuple[tuple[str, str], ...]:
    """Return pairs of key columns from a name, several names, or {name: name on the other side}."""
    if on is None:
        pairs: list[tuple[str, str]] = []
    elif isinstance(on, str):
        pairs = [(on, on)]
    elif isinstance(on, Mapping):
        pairs = list(on.items())
    elif isinstance(on, Sequence):
        pairs = [(name, name) for name in on]
    else:
        raise SpecError(f"on={on!r}: give the name of a column, several, or {{name: name there}}")
    for mine, theirs in pairs:
        for name, schema in ((mine, stream.schema), (theirs, other.schema)):
            if name not in schema.names:
                raise unknown_name("column", name, schema.names)
            if pa.types.is_nested(schema.field(name).type):
                raise SpecError(
                    f"on={name!r}: a {schema.field(name).type} cannot be compared; take a part of "
                    f"it, with_columns(key='...')"
                )
    return tuple(pairs)


def _band(band: Any, axes: tuple[Axis, Axis]) -> Band | SameWindow:
    """Return which times belong together."""
    axis = axes[0]
    if isinstance(band, SameWindowSpec):
        size = axis.span(band.size, name="same_window")
        if size <= 0:
            raise SpecError(f"same_window({band.size!r}) must be greater than zero")
        origin = 0 if band.origin is None else axis.point(band.origin, name="origin")
        return SameWindow(size, origin)
    why = (
        "rows could join however far apart they are, so none could ever be forgotten; give how far "
        "other - self may be, for example band=('-2 seconds', '3 seconds')"
    )
    if band is None or band is unbounded:
        raise SpecError(f"band={band!r} is unbounded: {why}")
    if not isinstance(band, tuple | list) or len(band) != _LOW_AND_HIGH:
        raise SpecError(f"band={band!r} is no pair: give (lowest, highest) other - self")
    if any(b is None or b is unbounded for b in band):
        raise SpecError(f"band={band!r} is unbounded on one side: {why}")
    low, high = (axis.span(b, name="band") for b in band)
    if low > high:
        raise SpecError(
            f"band={band!r} is reversed, so no row could join; give the lower bound first: "
            f"({band[1]!r}, {band[0]!r})"
        )
    return Band(low, high)
