"""Plans a window aggregate: checks that its arguments fit together, and builds its node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lowwater.aggregates.aggregate import Aggregate
from lowwater.errors import SpecError
from lowwater.logical.nodes import Apply, Node, source_column, sources_of
from lowwater.operators.window.explain import Numbering
from lowwater.operators.window.plan import SECOND, WindowPlan
from lowwater.planner.assemble import check, refuse_arrival
from lowwater.planner.compatibility import refuse
from lowwater.planner.flush import Flush, smooth_windows
from lowwater.windows.axis import Axis, WindowTime
from lowwater.windows.sliding import WindowSpec

MAX_FOLDED_WINDOWS = 10_000


@dataclass(frozen=True, kw_only=True)
class AskedWindows:
    """The windows and groups that a query requests, and the node `of`, whose rows they contain."""

    of: Node
    axis: Axis
    spec: WindowSpec
    keys: tuple[str, ...] = ()
    numbering: Numbering | None = None
    partition: tuple[str, ...] = ()
    second: Axis | None = None
    flush: Flush | None = None
    allowed_lateness: Any = None


def window_node(asked: AskedWindows, aggregates: dict[str, Aggregate]) -> Apply:
    """Return a window aggregate's node; raise SpecError if its arguments do not fit together."""
    of = asked.of
    plan = WindowPlan(
        of.schema,
        asked.axis,
        asked.spec,
        (SECOND, *asked.keys) if asked.second else asked.keys,
        aggregates,
        source=source_column(of),
        consistent=any(leaf.watermark.consistent for leaf in sources_of(of)),
        numbering=asked.numbering,
        partition=asked.partition,
        second=asked.second,
    )
    plan = replace(plan, flush=smooth_windows(asked.flush, plan))
    plan = replace(plan, ranged=_takes_ranges(plan, of))
    plan = replace(plan, revise=_lateness(asked.allowed_lateness, plan))
    _check(plan, of)
    node = Apply(schema=plan.result_schema, time="window", times=_times(plan), plan=plan, of=(of,))
    check({"results": node})
    return node


def _lateness(given: Any, plan: WindowPlan) -> int:
    """Return the allowed lateness `given` in ticks; raise SpecError if `plan` does not allow it."""
    if given is None:
        return 0
    refuse("allowed_lateness", plan.labels, f"allowed_lateness={given!r}")
    span = plan.axis.span(given, name="allowed_lateness")
    if span <= 0:
        raise SpecError(
            f"allowed_lateness={given!r} must be greater than zero; leave it out if finals must "
            f"not change"
        )
    return span


def _takes_ranges(plan: WindowPlan, of: Node) -> bool:
    """Return whether a source under `of` uses `since=`; raise SpecError if `plan` forbids this."""
    columns = (getattr(leaf.watermark, "since", None) for leaf in sources_of(of))
    since = next((column for column in columns if column is not None), None)
    if since is not None:
        refuse("since", plan.labels, f"lw.punctuated(..., since={since!r})")
    return since is not None


def _times(plan: WindowPlan) -> tuple[Axis, ...]:
    """Return the result columns that have a watermark; empty for windows of row numbers."""
    if plan.numbering is not None:
        return ()
    kind = plan.result_schema.field("window").type
    return (WindowTime("window", kind, inclusive=plan.spec.inclusive),)


def _check(plan: WindowPlan, of: Node) -> None:
    """Raise SpecError if windows, aggregates and the input `of` do not fit together."""
    _ = plan.parts, plan.result_schema
    if plan.counts_arrivals or plan.numbering == "arrival":
        refuse_arrival(of)
    labels = plan.labels
    if "landmark" in labels:
        below = {"second level"} if of.times is not None else set()
        refuse("landmark", labels | below, _landmark_text(plan))
        if plan.consistent:
            refuse("consistent", labels, "lw.slack(mode='consistent')")
    windows = plan.fixed_windows if plan.spec.kind == "fixed" and plan.keeping == "windows" else ()
    for _, window in windows:
        slides = window.range // window.slide
        if slides > MAX_FOLDED_WINDOWS:
            raise SpecError(
                f"an aggregate by init/incr/final is kept per window, and range is {slides:,} "
                f"slides: each row would cost as many steps. The limit is "
                f"{MAX_FOLDED_WINDOWS:,}; define it by lift/combine/lower, or take a larger slide"
            )


def _landmark_text(plan: WindowPlan) -> str:
    """Return the user's code for an error: landmark windows, perhaps with a holistic aggregate."""
    kinds = {name: a.kind(plan.schema) for name, a in plan.aggregates.items()}
    grows = next((name for name, kind in kinds.items() if kind == "holistic"), None)
    return "range=lw.unbounded" + (f" with {grows}=..." if grows else "")
