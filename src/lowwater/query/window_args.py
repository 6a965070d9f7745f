"""The arguments of `stream.window(...)`, their checks, and the resulting window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lowwater.errors import SpecError, unknown_name
from lowwater.logical.nodes import Node, paired_times
from lowwater.operators.window.explain import Numbering
from lowwater.windows.axis import Axis
from lowwater.windows.common_panes import Shared
from lowwater.windows.landmark import Landmark, Unbounded
from lowwater.windows.row_windows import ARRIVAL, Arrival, Rank, Rows, RowWindow
from lowwater.windows.session import SessionWindow
from lowwater.windows.sliding import Sliding, WindowSpec

_RANGE_AND_SLIDE = 2


@dataclass(frozen=True)
class WindowArgs:
    """The arguments of `stream.window(...)` as the user wrote them."""

    range: Any
    slide: Any
    on: Any
    slide_on: Any
    origin: Any
    gap: Any


@dataclass(frozen=True)
class ResolvedWindow:
    """A checked window: its window attribute (axis), kind, row numbering and second attribute."""

    axis: Axis
    spec: WindowSpec
    numbering: Numbering | None = None
    second: Axis | None = None


@dataclass(frozen=True)
class NamedWindows:
    """Several windows for one query, by name: `lw.windows(hour=("1 hour", "1 minute"))`."""

    named: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name, sizes in self.named.items():
            if isinstance(sizes, tuple) and len(sizes) != _RANGE_AND_SLIDE:
                raise SpecError(
                    f"lw.windows({name}={sizes!r}): give (range, slide), or a range alone for "
                    f"windows side by side"
                )

    def make(self, args: WindowArgs, over: Node) -> ResolvedWindow:
        """Return the named windows, on one window attribute and with common panes."""
        for name in ("range", "slide", "slide_on", "gap"):
            if getattr(args, name) is not None:
                raise SpecError(
                    f"{name}={getattr(args, name)!r} does not go with lw.windows(...), which sets "
                    f"the range and slide of each window; leave it out"
                )
        if isinstance(args.on, Arrival | Rank | tuple | list):
            raise SpecError(f"on={args.on!r}: lw.windows(...) are over one column; name one")
        axis = over.axis(args.on or over.time)
        specs = []
        for name, sizes in self.named.items():
            size, slide = sizes if isinstance(sizes, tuple) else (sizes, None)
            spec = _laid_out(replace(args, range=size, slide=slide), axis)
            if not isinstance(spec, Sliding):
                raise SpecError(
                    f"lw.windows({name}={sizes!r}): landmark windows have no panes to share; take "
                    f"a bounded range, or write a query for them"
                )
            specs.append((name, spec))
        return ResolvedWindow(axis, Shared(tuple(specs)))


def make_window(args: WindowArgs, over: Node, *, partitioned: bool) -> ResolvedWindow:
    """Return the window that `args` describe, on the stream's time unless `on` is set."""
    if args.gap is not None:
        return _session(args, over)
    if args.range is None:
        raise SpecError("range=None: window() needs one, a duration like '5 minutes', or a gap=")
    if isinstance(args.on, tuple | list):
        return _on_both(args, over)
    if isinstance(args.range, Rows) or isinstance(args.on, Arrival | Rank):
        return _over_rows(args, over, partitioned=partitioned)
    axis = over.axis(args.on or over.time)
    if isinstance(args.slide, Rows) or args.slide_on is not None:
        return ResolvedWindow(axis, _sliding_by_rows(args, axis, over))
    return ResolvedWindow(axis, _laid_out(args, axis))


def _on_both(args: WindowArgs, over: Node) -> ResolvedWindow:
    """Return tumbling windows on both times of a join, one result per pair of windows (OOP 7)."""
    on = args.on
    if len(on) != _RANGE_AND_SLIDE or on[0] == on[1]:
        raise SpecError(
            f"on={on!r}: windows lie on one time, or on the two times of a join; name one or two"
        )
    first, second = over.axis(on[0]), over.axis(on[1])
    sides = paired_times(over)
    if {sides.get(column) for column in on} != {0, 1}:
        known = ", ".join(sides) or "(none)"
        raise SpecError(
            f"on={on!r}: only the two times of an inner join progress together; take one of them, "
            f"or join how='inner' and name the times of both streams. Those times are: {known}"
        )
    window = make_window(replace(args, on=on[0]), over, partitioned=False)
    spec = window.spec
    if not isinstance(spec, Sliding) or spec.slide != spec.range or window.numbering is not None:
        raise SpecError(
            f"on={on!r}: windows on two times are tumbling; give range= over time, without slide="
        )
    return ResolvedWindow(first, spec, second=second)


def _session(args: WindowArgs, over: Node) -> ResolvedWindow:
    for name in ("range", "slide", "slide_on", "origin"):
        if getattr(args, name) is not None:
            raise SpecError(
                f"{name}={getattr(args, name)!r} does not go with gap=: the rows of a session "
                f"determine its length; leave one of them out"
            )
    if isinstance(args.on, Arrival | Rank) or isinstance(args.gap, Rows):
        raise SpecError(
            f"gap={args.gap!r}, on={args.on!r}: row numbers have no gaps between them; give a "
            f"duration or a number, on a column"
        )
    if isinstance(args.on, tuple | list):
        raise SpecError(
            f"on={args.on!r}: sessions lie on one time; name one, or give range= instead of gap="
        )
    axis = over.axis(args.on or over.time)
    return ResolvedWindow(axis, SessionWindow(gap=_positive(axis, "gap", args.gap)))


def _over_rows(args: WindowArgs, over: Node, *, partitioned: bool) -> ResolvedWindow:
    """Return a window over row numbers: counted by arrival or by rank, or read from a column."""
    on = args.on
    if args.slide_on is not None:
        raise SpecError(
            f"slide_on={args.slide_on!r} does not go with a range in rows: both count the same "
            f"rows; leave slide_on= out"
        )
    if isinstance(args.range, Unbounded):
        raise SpecError(
            f"range=lw.unbounded does not go with on={on!r}, which counts rows; give "
            f"range=lw.rows(n)"
        )
    for name, value in (("range", args.range), ("slide", args.slide)):
        if value is not None and not isinstance(value, Rows):
            raise SpecError(f"{name}={value!r} must be lw.rows(n): the window is over rows")
    if args.origin is not None:
        raise SpecError(
            f"origin={args.origin!r} does not go with rows, which are counted from the first; "
            f"leave it out"
        )
    step = args.slide.rows if args.slide is not None else None
    spec = Sliding(range=args.range.rows, slide=step)
    if on is None or isinstance(on, Arrival):
        return ResolvedWindow(over.axis(over.time), spec, "arrival")
    axis = over.axis(on.column if isinstance(on, Rank) else on)
    if isinstance(on, Rank):
        return ResolvedWindow(axis, spec, "rank")
    if not pa.types.is_integer(axis.type):
        raise SpecError(
            f"on={on!r} has type {axis.type}: rows are numbered by whole numbers. Take "
            f"lw.rank({on!r}) to count rows in its order, or lw.arrival"
        )
    # A column numbers the rows of the whole stream, but a partition counts only its own rows.
    return ResolvedWindow(axis, spec, "rank" if partitioned else None)


def _sliding_by_rows(args: WindowArgs, axis: Axis, over: Node) -> RowWindow:
    """Return a window whose slide counts rows, or is measured on the column `slide_on`."""
    if args.origin is not None:
        raise SpecError(
            f"origin={args.origin!r} does not go with a slide in rows: windows end where rows are; "
            f"leave it out"
        )
    if isinstance(args.range, Unbounded):
        raise SpecError(
            "range=lw.unbounded does not go with a slide in rows: landmark windows end at fixed "
            "distances; give slide= on the column of the range"
        )
    size = _positive(axis, "range", args.range)
    by = args.slide_on
    if args.slide is None:
        raise SpecError(
            f"slide_on={by!r} needs slide=, how far the window moves on it, for example slide=10"
        )
    if by is None or isinstance(by, Arrival | Rank):
        if not isinstance(args.slide, Rows):
            raise SpecError(f"slide={args.slide!r} must be lw.rows(n): slide_on={by!r} counts rows")
        if isinstance(by, Rank) and by.column != axis.column:
            raise SpecError(
                f"slide_on={by!r} must rank by {axis.column!r}, the column of range=: rows may "
                f"have another order on another column; write slide_on=lw.rank({axis.column!r})"
            )
        n = args.slide.rows
        arrivals = not isinstance(by, Rank) and n > 1
        return RowWindow(range=size, slide=n, slide_on=ARRIVAL if arrivals else None)
    if by not in over.schema.names:
        raise unknown_name("column", by, over.schema.names)
    other = Axis(by, over.schema.field(by).type)
    step = args.slide.rows if isinstance(args.slide, Rows) else args.slide
    return RowWindow(range=size, slide=_positive(other, "slide", step), slide_on=by)


def _laid_out(args: WindowArgs, axis: Axis) -> WindowSpec:
    start = None if args.origin is None else axis.point(args.origin, name="origin")
    if isinstance(args.range, Unbounded):
        if args.slide is None:
            raise SpecError(
                "range=lw.unbounded needs slide=, the distance of results, like slide='1 hour'"
            )
        return Landmark(slide=_positive(axis, "slide", args.slide), landmark=start)
    step = None if args.slide is None else _positive(axis, "slide", args.slide)
    return Sliding(range=_positive(axis, "range", args.range), slide=step, origin=start or 0)


def _positive(axis: Axis, name: str, value: Any) -> int:
    span = axis.span(value, name=name)
    if span <= 0:
        raise SpecError(f"{name}={value!r} must be greater than zero")
    return span
