"""A query: a window aggregate over a stream, which is a stream again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowwater.aggregates import Aggregate
from lowwater.errors import SpecError
from lowwater.kernels import WindowPlan
from lowwater.kernels.plan import SECOND
from lowwater.query.assembly import refuse_arrival
from lowwater.query.nodes import Leaf, Operated, Stepped, United
from lowwater.query.revising import revised_for
from lowwater.query.smoothing import smooth_windows
from lowwater.query.stream import Stream
from lowwater.query.windowed import Windowed
from lowwater.windows import Axis, Landmark, SlideByRow, Sliding, WindowTime

MAX_FOLDED_WINDOWS = 10_000


@dataclass(frozen=True, eq=False)
class Query(Stream):
    """A window aggregate over a stream, ready to run. Made by `stream.window(...).agg(...)`.

    Its results are a stream, too, whose time is `window`: the last tick of a result's window.
    """

    @classmethod
    def over(cls, windowed: Windowed, aggregates: dict[str, Aggregate]) -> Query:
        """Check all parts against each other and make the plan."""
        stream = windowed.stream
        plan = WindowPlan(
            stream.schema,
            windowed.axis,
            windowed.spec,
            (SECOND, *windowed.keys) if windowed.second else windowed.keys,
            aggregates,
            source=source_of(stream),
            consistent=any(leaf.progress.consistent for leaf in leaves(stream)),
            numbering=windowed.numbering,
            partition=windowed.partition,
            second=windowed.second,
            smooth=smooth_windows(
                windowed.smooth,
                windowed.axis,
                windowed.spec,
                windowed.keys,
                numbered=windowed.numbering is not None,
            ),
        )
        plan = replace(plan, ranged=_takes_ranges(plan, stream))
        plan = replace(plan, revise=revised_for(windowed.revise_for, plan))
        _check(plan, stream)
        schema = plan.result_schema
        made = cls(Operated(plan, (stream,)), schema, "window", _times(plan))
        _ = made.assembly
        return made

    @property
    def plan(self) -> WindowPlan:
        """What is computed."""
        assert isinstance(self.node, Operated)  # noqa: S101
        assert isinstance(self.node.plan, WindowPlan)  # noqa: S101
        return self.node.plan

    @property
    def stream(self) -> Stream:
        """What it is computed over."""
        assert isinstance(self.node, Operated)  # noqa: S101
        return self.node.of[0]


def _takes_ranges(plan: WindowPlan, stream: Stream) -> bool:
    """Say whether windows can close before earlier ones: others are given the mark alone."""
    said = any(getattr(leaf.progress, "since", None) for leaf in leaves(stream))
    plain = plan.laid_out and isinstance(plan.spec, Sliding) and plan.keeping == "panes"
    return said and plain and plan.smooth is None and plan.source is None


def _times(plan: WindowPlan) -> tuple[Axis, ...]:
    """Return the columns of results that progress: none where windows lie over row numbers."""
    if plan.numbering is not None:
        return ()
    kind = plan.result_schema.field("window").type
    return (WindowTime("window", kind, inclusive=isinstance(plan.spec, SlideByRow)),)


def leaves(stream: Stream) -> list[Leaf]:
    """Return the sources that flow into a stream before any operator."""
    node = stream.node
    if isinstance(node, Leaf):
        return [node]
    if isinstance(node, Stepped):
        return leaves(node.of)
    return [leaf for of in node.of for leaf in leaves(of)] if isinstance(node, United) else []


def source_of(stream: Stream) -> str | None:
    """Return the column whose values have marks of their own in a stream, if there is one."""
    node = stream.node
    if isinstance(node, Leaf):
        found = node.progress.source
    elif isinstance(node, Stepped):
        found = source_of(node.of)
    elif isinstance(node, United):
        several = {source_of(of) for of in node.of}
        found = several.pop() if len(several) == 1 else None
    else:
        plan = node.plan
        closes = isinstance(plan, WindowPlan) and plan.sources_close_groups
        found = plan.source if isinstance(plan, WindowPlan) and closes else None
    return found if found in stream.schema.names else None


def _check(plan: WindowPlan, stream: Stream) -> None:
    """Refuse what does not fit together, before anything runs."""
    _ = plan.parts, plan.result_schema
    if plan.counts_arrivals or plan.numbering == "arrival":
        refuse_arrival(stream)
    if isinstance(plan.spec, Landmark):
        _check_landmark(plan, stream)
    spec = plan.spec
    if (
        isinstance(spec, Sliding)
        and plan.keeping == "windows"
        and spec.range // spec.slide > MAX_FOLDED_WINDOWS
    ):
        raise SpecError(
            f"an aggregate by init/incr/final is kept per window, and range is "
            f"{spec.range // spec.slide:,} slides: each row would cost as many steps. The limit is "
            f"{MAX_FOLDED_WINDOWS:,}; define it by lift/combine/lower, or take a larger slide"
        )


def _check_landmark(plan: WindowPlan, stream: Stream) -> None:
    if stream.times is not None:
        raise SpecError(
            "landmark windows are given at the end of a stream up to its last row, and the last "
            "row of an operator's results is not known beforehand; take a range"
        )
    if plan.consistent:
        raise SpecError(
            "slack(mode='consistent') drops a late row from all its windows, and on landmark "
            "windows no row is late for all; take mode='generous'"
        )
    unbounded = [n for n, a in plan.aggregates.items() if _grows(a, plan)]
    if unbounded:
        raise SpecError(
            f"{unbounded[0]}=... keeps all values of a window, and a landmark window has all "
            f"there ever were; take a sketch, for example lw.quantile(..., sketch=True)"
        )


def _grows(aggregate: Aggregate, plan: WindowPlan) -> bool:
    return not all(part.bounded for part in aggregate.parts(plan.schema))
