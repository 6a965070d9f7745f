"""The arguments of a join: keys, band, time of the results, and quality target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from lowwater.errors import SpecError, unknown_name
from lowwater.logical.nodes import Node, Project, Source, Union
from lowwater.operators.join.band import Band, SameWindow
from lowwater.operators.join.plan import How, JoinPlan, Time
from lowwater.planner.flush import Flush
from lowwater.watermarks.adaptive.policies import PdSlack, Quality
from lowwater.watermarks.per_source import PerSource
from lowwater.watermarks.policy import NoPolicy, WatermarkPolicy
from lowwater.windows.axis import Axis
from lowwater.windows.landmark import unbounded

Order = Literal["free", "time"]
_PAIR = 2


@dataclass(frozen=True)
class SameWindowSpec:
    """A band that joins rows of the same tumbling window: `lw.same_window("10 seconds")`."""

    size: Any
    origin: Any = None


def same_window(size: Any, *, origin: Any = None) -> SameWindowSpec:
    """Return a band that joins rows of the same tumbling window: `band=lw.same_window(...)`.

    >>> same_window("10 seconds").size
    '10 seconds'
    """
    return SameWindowSpec(size, origin)


@dataclass(frozen=True)
class JoinArgs:
    """The arguments of a join; `times` are the columns of the band, by default the event times."""

    on: Any
    band: Any
    how: How = "inner"
    time: Time | None = None
    order: Order = "free"
    suffix: str = "_other"
    flush: Flush | None = None
    times: tuple[str, str] | None = None


def usual_time(how: How, order: Order) -> Time:
    """Return the default of `time=`; an inner join with order="time" has "max" (QDJ 4.2)."""
    if how == "full" or (how == "inner" and order == "time"):
        return "max"
    return "other" if how == "right" else "self"


def check_time(plan: JoinPlan) -> None:
    """Raise SpecError if a result row could lack the time that `time=` names."""
    wanted = ("self", "other") if plan.time == "both" else (plan.time,)
    absent = [side for side in wanted if side in ("self", "other") and side not in plan.own_times]
    if absent:
        raise SpecError(
            f"time={plan.time!r}: a row without a partner in a {plan.how} join has no time of "
            f"{absent[0]}; take time='max' or 'min'"
        )


def key_pairs(
    mine_schema: pa.Schema, other_schema: pa.Schema, on: Any
) -> tuple[tuple[str, str], ...]:
    """Return ((mine, theirs), ...), the key columns that the argument `on` of a join names."""
    if on is None:
        pairs: list[tuple[str, str]] = []
    elif isinstance(on, str):
        pairs = [(on, on)]
    elif isinstance(on, Mapping):
        pairs = list(on.items())
    elif isinstance(on, Sequence):
        pairs = [(name, name) for name in on]
    else:
        raise SpecError(
            f"on={on!r}: give the name of a column, several names, or {{'mine': 'theirs'}}"
        )
    for mine, theirs in pairs:
        for name, schema in ((mine, mine_schema), (theirs, other_schema)):
            if name not in schema.names:
                raise unknown_name("column", name, schema.names)
            if pa.types.is_nested(schema.field(name).type):
                raise SpecError(
                    f"on={name!r}: type {schema.field(name).type} cannot be compared; take a part "
                    f"of it, with_columns(key='...')"
                )
    return tuple(pairs)


def resolve_band(band: Any, axes: tuple[Axis, Axis]) -> Band | SameWindow:
    """Return the band in ticks; raise SpecError if it is unbounded, reversed or not a pair."""
    axis = axes[0]
    if isinstance(band, SameWindowSpec):
        size = axis.span(band.size, name="same_window")
        if size <= 0:
            raise SpecError(f"same_window({band.size!r}) must be greater than zero")
        origin = 0 if band.origin is None else axis.point(band.origin, name="origin")
        return SameWindow(size, origin)
    why = (
        "rows could join at any distance, so none could ever be evicted; give the smallest and the "
        "largest other - self, for example band=('-2 seconds', '3 seconds')"
    )
    if band is None or band is unbounded:
        raise SpecError(f"band={band!r} is unbounded: {why}")
    if not isinstance(band, tuple | list) or len(band) != _PAIR:
        raise SpecError(f"band={band!r} is not a pair: give (lowest, highest) other - self")
    if any(b is None or b is unbounded for b in band):
        raise SpecError(f"band={band!r} is unbounded on one side: {why}")
    low, high = (axis.span(b, name="band") for b in band)
    if low > high:
        raise SpecError(
            f"band={band!r} is reversed, so no row could join; give the lower bound first: "
            f"({band[1]!r}, {band[0]!r})"
        )
    return Band(low, high)


def with_quality(
    mine: Node, theirs: Node, quality: float | WatermarkPolicy | None
) -> tuple[Node, Node]:
    """Return both sides of a join, each with the watermark policy that `quality` requests."""
    if quality is None:
        return mine, theirs
    policy = quality if isinstance(quality, WatermarkPolicy) else Quality(target=quality)
    inner = policy.each if isinstance(policy, PerSource) else policy
    if not isinstance(inner, Quality | PdSlack):
        raise SpecError(
            f"quality={quality!r} is not a target; give 0.95, lw.quality(...) or "
            f"lw.pd_controller(...)"
        )
    aimed_at = _aimed(mine, policy), _aimed(theirs, policy)
    if aimed_at[0] is mine and aimed_at[1] is theirs:
        raise SpecError(
            f"quality={quality!r}: both sides of the join are results of operators, whose "
            f"watermarks follow from their streams; give these watermark=lw.quality(...)"
        )
    return aimed_at


def _aimed(node: Node, policy: WatermarkPolicy) -> Node:
    if isinstance(node, Source):
        if not isinstance(node.watermark, NoPolicy):
            raise SpecError(
                f"quality= and watermark={node.watermark!r} both set the "
                f"watermark of the stream; leave watermark= out of lw.stream(...), or "
                f"quality= out of join(...)"
            )
        return replace(node, watermark=policy)
    if isinstance(node, Project):
        of = _aimed(node.of, policy)
        return node if of is node.of else replace(node, of=of)
    if isinstance(node, Union):
        all_of = tuple(_aimed(of, policy) for of in node.of)
        same = all(a is b for a, b in zip(all_of, node.of, strict=True))
        return node if same else replace(node, of=all_of)
    return node  # results of operators keep the watermarks of their streams
