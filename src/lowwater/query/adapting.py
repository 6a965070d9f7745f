"""Streams whose slack is chosen: what they feed, and so what the slack is chosen by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lowwater.aggregates import Aggregate
from lowwater.aggregates.holistic import Quantile
from lowwater.aggregates.spec import Avg, Count, Extremum, Sum
from lowwater.errors import SpecError
from lowwater.kernels import Dataflow, Operator, OperatorPlan, Route, WindowPlan
from lowwater.kernels.bands import Band, SameWindow
from lowwater.kernels.joins import JoinPlan
from lowwater.kernels.ordering import OrderPlan
from lowwater.kernels.timed_joins import TimedJoinPlan
from lowwater.progress import Adaptive, Chosen, Pd, PerSource, Progress, Quality
from lowwater.progress.adapting import ByFeedback
from lowwater.progress.below import Below, Errors, FreePairs, OrderedPairs, TimedPairs, Windows
from lowwater.progress.controlling import ByControl
from lowwater.progress.deciding import Deciding, Measured
from lowwater.progress.slacks import Monitored, Slacks
from lowwater.progress.steered import Steered
from lowwater.progress.window_errors import Sensitivity
from lowwater.windows import Axis, Shared, Sliding

if TYPE_CHECKING:
    from lowwater.query.assembly import Assembly

UNTARGETED = 1 << 20
"""Granule where late degrees matter only for the largest of them."""


def chosen(policy: Progress) -> Chosen | None:
    """Return how the slack of a stream is chosen, None if it is given."""
    inner = policy.each if isinstance(policy, PerSource) else policy
    return inner if isinstance(inner, Chosen) else None


def adapted(assembly: Assembly) -> Assembly:
    """Return a query whose late degrees are measured where slack is chosen by them."""
    found = {n: c for n, p in enumerate(assembly.policies) if (c := chosen(p)) is not None}
    if not found:
        return assembly
    flow = assembly.flow
    spans = {n: c.spans(flow.inputs[n].axis) for n, c in found.items()}
    aimed = [spans[n][1] for n, c in found.items() if not isinstance(c, Adaptive)]
    granule = min(aimed, default=UNTARGETED)
    inputs = tuple(
        replace(i, granule=granule if n in found else None) for n, i in enumerate(flow.inputs)
    )
    parts = frozenset(n for n in found if isinstance(assembly.policies[n], PerSource))
    monitored = [
        Monitored(n, granule, c.decay, n in parts, isinstance(c, Adaptive))
        for n, c in found.items()
    ]
    targets = {n: c for n, c in found.items() if not isinstance(c, Adaptive)}
    decisions = [
        _deciding(flow, place, targets, granule, parts) for place in _places(flow, targets)
    ]
    tracked = replace(flow, inputs=inputs, operators=_tracked(flow, decisions))
    return replace(assembly, flow=tracked, adapter=Slacks(monitored, decisions))


def refuse_unfed(assembly: Assembly) -> None:
    """Refuse a quality target where nothing is produced that could have a quality."""
    if assembly.adapter is None:
        return
    fed = {n for d in assembly.adapter.decisions for port in d.ports for n in port}
    for n, policy in enumerate(assembly.policies):
        one = chosen(policy)
        if one is None or isinstance(one, Adaptive) or n in fed:
            continue
        raise SpecError(
            f"{_word(one)}: the stream over {assembly.flow.inputs[n].axis.column!r} feeds neither "
            f"windows nor a join, so there is nothing that could be complete or not; give it "
            f"lw.slack(...) or lw.adaptive()"
        )


def _word(one: Chosen) -> str:
    if isinstance(one, Pd):
        return f"pd({one.target!r})"
    assert isinstance(one, Quality)  # noqa: S101
    return f"quality({one.target!r})" if one.error is None else f"quality(error={one.error!r})"


# -- what a stream feeds ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """An operator that slacks are chosen for: which inputs lead to each port, and how."""

    operator: int
    ports: tuple[tuple[int, ...], ...]
    orders: tuple[int, ...] = ()

    @property
    def ordered(self) -> bool:
        """Whether rows come to it in the order of their time."""
        return bool(self.orders)


@dataclass(frozen=True)
class _Way:
    """How rows of an input come to a port: first, before any window or join; put in order."""

    input: int
    first: bool = True
    order: int | None = None


def _places(flow: Dataflow, targets: Mapping[int, Chosen]) -> Iterator[_Place]:
    """Yield the windows and joins that streams with a target come to first.

    For a join, all such streams behind it count, also those that come through another join.
    """
    coming: dict[tuple[int, int], list[_Way]] = {p: [] for p in flow.ports}

    def send(routes: Sequence[Route], rows: Sequence[_Way]) -> None:
        for route in routes:
            coming[route.operator, route.port] += rows

    for n, start in enumerate(flow.inputs):
        if n in targets:
            send(start.routes, [_Way(n)])
    for number, operator in enumerate(flow.operators):
        plan = operator.plan
        ports = [coming[number, p] for p in range(plan.ports)]
        ways = [way for port in ports for way in port]
        ends = isinstance(plan, WindowPlan | JoinPlan)
        if ends and any(way.first for way in ways):
            inputs = tuple(tuple(dict.fromkeys(way.input for way in port)) for port in ports)
            orders = dict.fromkeys(way.order for way in ways if way.order is not None)
            yield _Place(number, inputs, tuple(orders))
        if not isinstance(plan, WindowPlan):
            order = number if isinstance(plan, OrderPlan) else None
            send(operator.routes, [_Way(w.input, w.first and not ends, order) for w in ways])


def _deciding(
    flow: Dataflow,
    place: _Place,
    targets: Mapping[int, Chosen],
    granule: int,
    parts: frozenset[int],
) -> Deciding:
    """Return how slacks are chosen for an operator."""
    plan, name = flow.operators[place.operator].plan, flow.operators[place.operator].name
    mine = [targets[n] for port in place.ports for n in port]
    one = max(mine, key=_target)
    if any(type(other) is not type(one) for other in mine):
        raise SpecError(
            "lw.quality(...) and lw.pd(...) on the streams of one join: each would choose the "
            "slacks of both; give both streams the same"
        )
    track = min(targets[n].spans(flow.inputs[n].axis)[0] for port in place.ports for n in port)
    below = _below(plan, one, granule, ordered=place.ordered)
    return Deciding(
        place.operator,
        name,
        place.ports,
        below,
        _rule(one, plan.axes[0], granule),
        _target(one),
        track,
        granule,
        _measured(plan, one, ordered=place.ordered),
        error=(one.error or 0.0) if isinstance(one, Quality) else 0.0,
        orders=place.orders,
        remembered=_remembered(plan, track),
        by_source=parts,
    )


def _target(one: Chosen) -> float:
    if isinstance(one, Quality) and one.target is None:
        return one.share
    assert isinstance(one, Quality | Pd)  # noqa: S101
    return one.target or 0.0


def _rule(one: Chosen, axis: Axis, granule: int) -> ByFeedback | Steered:
    if isinstance(one, Pd):
        proportional, derivative = (gain / granule for gain in one.gains(axis))
        return Steered(
            ByControl(target=one.target, proportional=proportional, derivative=derivative),
            one.decay,
        )
    overall = isinstance(one, Quality) and one.overall
    return ByFeedback(target=_target(one), decay=one.decay, overall=overall)


# -- the models ------------------------------------------------------------------------------------


def _below(plan: OperatorPlan, one: Chosen, granule: int, *, ordered: bool) -> Below:
    """Return the model of what an operator produces."""
    error = one.error if isinstance(one, Quality) else None
    if isinstance(plan, JoinPlan):
        if error is not None:
            raise SpecError(
                f"quality(error={error!r}) is for windows, whose finals may be off; of a join it "
                f"can only be said which share of its pairs comes out: quality(0.95)"
            )
        if ordered:
            return OrderedPairs()
        band = plan.band
        reach = (band.lo, band.hi) if isinstance(band, Band) else (-band.size / 2, band.size / 2)
        in_granules = (reach[0] / granule, reach[1] / granule)
        if isinstance(plan, TimedJoinPlan):
            return TimedPairs(in_granules, plan.time, -(plan.mark_out(0, 0) or 0) / granule)
        return FreePairs(in_granules)
    assert isinstance(plan, WindowPlan)  # noqa: S101
    size = _range(plan, one) / granule
    if error is None:
        return Windows(size)
    kinds = tuple(_sensitivity(a) for a in plan.aggregates.values())
    return Errors(size, error, kinds)


def _range(plan: WindowPlan, one: Chosen) -> int:
    spec = plan.spec
    if plan.numbering is None and isinstance(spec, Sliding):
        return spec.range
    if plan.numbering is None and isinstance(spec, Shared):
        return min(w.range for _, w in spec.named)
    raise SpecError(
        f"{_word(one)} needs windows of a fixed range and slide over the stream's time: what rows "
        f"late for {type(spec).__name__} windows have missed cannot be told; give the stream "
        f"lw.slack(...) or lw.adaptive()"
    )


def _sensitivity(aggregate: Aggregate) -> Sensitivity:
    """Return how an aggregate answers to missing rows; where that is not known, like a count."""
    if isinstance(aggregate, Sum):
        return Sensitivity(kind="sum", rows=1)
    if isinstance(aggregate, Avg):
        return Sensitivity(kind="avg", rows=1)
    if isinstance(aggregate, Extremum):
        return Sensitivity(kind="max", rows=1)
    if isinstance(aggregate, Quantile):
        return Sensitivity(kind="quantile", rows=1)
    assert isinstance(aggregate, Count | Aggregate)  # noqa: S101
    return Sensitivity(kind="count", rows=1)


# -- the tracker -----------------------------------------------------------------------------------


def _measured(plan: OperatorPlan, one: Chosen, *, ordered: bool) -> Measured | None:
    """Return what of an operator's quality is counted; nothing where late rows tell too little."""
    if isinstance(plan, JoinPlan):
        if ordered:
            return "late"
        return "pairs" if plan.how == "inner" and plan.smooth is None else None
    assert isinstance(plan, WindowPlan)  # noqa: S101
    plain = isinstance(plan.spec, Sliding) and plan.smooth is None and not plan.revise
    if not plain or plan.ranged:
        return None
    return "windows" if isinstance(one, Quality) and one.error is not None else "rows"


REMEMBERED_TRACKS = 2
"""For how many tracks, at least, a join remembers what it has let go, to count what was lost."""


def _remembered(plan: OperatorPlan, track: int) -> int:
    """Return for how long a join remembers what it has let go."""
    if not isinstance(plan, JoinPlan):
        return 0
    band = plan.band
    width = band.size if isinstance(band, SameWindow) else band.hi - band.lo
    return max(width, REMEMBERED_TRACKS * track)


def _tracked(flow: Dataflow, decisions: Sequence[Deciding]) -> tuple[Operator, ...]:
    operators = list(flow.operators)
    for one in decisions:
        if one.measured is None:
            continue
        operator = operators[one.operator]
        plan = operator.plan
        if isinstance(plan, JoinPlan):
            plan = replace(plan, remember=one.remembered)
        elif isinstance(plan, WindowPlan):
            plan = replace(plan, tracked="windows" if one.measured == "windows" else "rows")
        operators[one.operator] = replace(operator, plan=plan)
    return tuple(operators)
