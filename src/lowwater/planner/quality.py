"""Plans adaptive slack: finds the operators whose result quality determines the slacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lowwater.dataflow.graph import Dataflow, Operator, Route
from lowwater.errors import SpecError
from lowwater.operators.window.needed_slack import OWN_SOURCES
from lowwater.operators.window.plan import WindowPlan
from lowwater.planner.compatibility import refuse
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.watermarks.adaptive.adapter import MonitoredInput, SlackAdapter
from lowwater.watermarks.adaptive.decision import SlackDecision
from lowwater.watermarks.adaptive.pair_slack import PairSlack
from lowwater.watermarks.adaptive.policies import (
    Adaptive,
    AdaptiveSlack,
    PdSlack,
    Quality,
    ValueBound,
)
from lowwater.watermarks.adaptive.rules import FeedbackRule, PdController, PdRule
from lowwater.watermarks.adaptive.window_slack import WindowSlack
from lowwater.watermarks.per_source import PerSource
from lowwater.watermarks.policy import WatermarkPolicy
from lowwater.windows.axis import Axis

UNTARGETED = 1 << 20
"""The granule of late degrees, in ticks, if no input has a quality target."""


def chosen(policy: WatermarkPolicy) -> AdaptiveSlack | None:
    """Return the adaptive slack policy that `policy` is or contains; None if there is none."""
    inner = policy.each if isinstance(policy, PerSource) else policy
    return inner if isinstance(inner, AdaptiveSlack) else None


def adapted(assembly: PhysicalPlan) -> PhysicalPlan:
    """Return `assembly`; if a policy has adaptive slack, add the adapter that chooses slacks."""
    policies = {n: c for n, p in enumerate(assembly.policies) if (c := chosen(p)) is not None}
    if not policies:
        return assembly
    flow = assembly.flow
    targets = {n: c for n, c in policies.items() if not isinstance(c, Adaptive)}
    parts = frozenset(n for n in policies if isinstance(assembly.policies[n], PerSource))
    places = list(_places(flow, targets))
    ruled = [p for p in places if _ruled(flow, p, targets)]
    over = [p for p in ruled if flow.operators[p.operator].plan.aggregates_rows]
    windows = [_window_slack(flow, p, targets, parts) for p in over]
    joins = [p for p in ruled if p not in over]
    pairs = [_pair_slack(flow, p, targets, _others(flow, p, joins)) for p in joins]
    modelled = [p for p in places if not _ruled(flow, p, targets)]
    monitored = {n for p in modelled for port in p.ports for n in port} | (
        policies.keys() - targets
    )
    spans = [c.spans(flow.inputs[n].axis) for n, c in targets.items()]
    granule = min((granule for _, granule in spans), default=UNTARGETED)
    inputs = tuple(
        replace(i, granule=granule if n in monitored else None) for n, i in enumerate(flow.inputs)
    )
    each = [
        MonitoredInput(n, granule, c.decay, n in parts, n not in targets)
        for n, c in policies.items()
        if n in monitored
    ]
    decisions = [_deciding(flow, p, targets, granule, parts) for p in modelled]
    operators = _booked(_tracked(flow, [*decisions, *pairs]), windows)
    tracked = replace(flow, inputs=inputs, operators=operators)
    return replace(
        assembly, flow=tracked, adapter=SlackAdapter(each, decisions, windows, pairs=pairs)
    )


def refuse_unfed(assembly: PhysicalPlan) -> None:
    """Raise SpecError if a stream with a quality target feeds neither windows nor a join."""
    if assembly.adapter is None:
        return
    fed = {n for d in assembly.adapter.decisions for port in d.ports for n in port}
    fed |= {n for one in assembly.adapter.windows for n in one.inputs}
    fed |= {n for one in assembly.adapter.pairs for n in one.inputs}
    for n, policy in enumerate(assembly.policies):
        one = chosen(policy)
        if one is not None and not isinstance(one, Adaptive) and n not in fed:
            column = assembly.flow.inputs[n].axis.column
            refuse("quality share", {"rows"}, f"lw.{_word(one)} over {column!r}")


def _word(one: AdaptiveSlack) -> str:
    if isinstance(one, PdSlack):
        return f"pd_controller({one.target!r})"
    assert isinstance(one, Quality)  # noqa: S101
    if one.error is not None:
        return f"quality(error={one.error!r})"
    return f"quality({one.target!r}{', by_window=True' if one.by_window else ''})"


# -- the operators that a stream feeds -------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """An operator whose result quality determines slacks, and the inputs that feed each port."""

    operator: int
    ports: tuple[tuple[int, ...], ...]
    orders: tuple[int, ...] = ()
    """The operators that sort rows by time before `operator` reads them."""


@dataclass(frozen=True)
class _Way:
    """A path to a port. `first` means without a join; `order` is the sort before the port."""

    input: int
    first: bool = True
    order: int | None = None


def _places(flow: Dataflow, targets: Mapping[int, AdaptiveSlack]) -> Iterator[_Place]:
    """Yield the first window or join after each input in `targets`, as a place.

    The place of a join lists all inputs in `targets` that feed the join, even through another join.
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
        ends = plan.ends_quality
        if ends and any(way.first for way in ways):
            inputs = tuple(tuple(dict.fromkeys(way.input for way in port)) for port in ports)
            orders = dict.fromkeys(way.order for way in ways if way.order is not None)
            yield _Place(number, inputs, tuple(orders))
        if not plan.aggregates_rows:
            order = number if plan.sorts else None
            send(operator.routes, [_Way(w.input, w.first and not ends, order) for w in ways])


def _deciding(
    flow: Dataflow,
    place: _Place,
    targets: Mapping[int, AdaptiveSlack],
    granule: int,
    parts: frozenset[int],
) -> SlackDecision:
    """Return the slack decision for `place`; raise SpecError if a target does not fit the place."""
    plan, name = flow.operators[place.operator].plan, flow.operators[place.operator].name
    mine = [targets[n] for port in place.ports for n in port]
    one = max(mine, key=_target)
    if any(type(other) is not type(one) for other in mine):
        raise SpecError(
            "lw.quality(...) and lw.pd_controller(...) on the streams of one join: each would "
            "choose the slacks of both; give both streams the same policy"
        )
    track = min(targets[n].spans(flow.inputs[n].axis)[0] for port in place.ports for n in port)
    ordered = bool(place.orders)
    bounded = any(isinstance(policy, Quality) and policy.bound for policy in mine)
    refuse("quality error" if bounded else "quality share", plan.labels, f"lw.{_word(one)}")
    return SlackDecision(
        place.operator,
        name,
        place.ports,
        plan.quality_model(granule, None, ordered=ordered),
        _rule(one, plan.axes[0], granule),
        _target(one),
        track,
        granule,
        plan.loss_count(None, ordered=ordered),
        orders=place.orders,
        unit=plan.pair_span(track),
        by_source=parts,
    )


def _ruled(flow: Dataflow, place: _Place, targets: Mapping[int, AdaptiveSlack]) -> bool:
    """Return whether the slack of a place follows from the slacks that its rows need."""
    mine = [targets[n] for port in place.ports for n in port]
    plan, every = flow.operators[place.operator].plan, all(isinstance(o, Quality) for o in mine)
    pairs = plan.loss_count(None, ordered=bool(place.orders)) == "pairs"
    return every and (plan.aggregates_rows or pairs)


def _pair_slack(
    flow: Dataflow, place: _Place, targets: Mapping[int, AdaptiveSlack], others: tuple[int, ...]
) -> PairSlack:
    """Return the choice of the slacks for the join of `place`, with `others` in a row."""
    operator, number = flow.operators[place.operator], place.operator
    every = [one for port in place.ports for n in port if isinstance(one := targets[n], Quality)]
    one = max(every, key=_target)
    bounded = any(policy.bound for policy in every)
    feature = "quality error" if bounded else "quality share"
    refuse(feature, operator.plan.labels, f"lw.{_word(one)}")
    track = min(targets[n].spans(flow.inputs[n].axis)[0] for port in place.ports for n in port)
    ports = tuple(flow.numbers[number, port] for port in range(operator.plan.ports))
    unit, ordered = operator.plan.pair_span(track), "ordered join" in operator.plan.labels
    return PairSlack(number, operator.name, ports, place.ports, _target(one), unit, ordered, others)


def _others(flow: Dataflow, place: _Place, joins: Sequence[_Place]) -> tuple[int, ...]:
    """Return the other joins that lead to that of `place`, or receive its results."""

    def after(number: int) -> set[int]:
        found = {number}
        for route in flow.operators[number].routes:
            found |= after(route.operator)
        return found

    mine, below = place.operator, after(place.operator)
    others = (one.operator for one in joins if one.operator != mine)
    return tuple(one for one in others if one in below or mine in after(one))


def _window_slack(
    flow: Dataflow, place: _Place, targets: Mapping[int, AdaptiveSlack], parts: frozenset[int]
) -> WindowSlack:
    """Return the choice of the slack for the windows of `place`; raise SpecError if none fits."""
    operator = flow.operators[place.operator]
    (inputs,) = place.ports
    every = [one for n in inputs if isinstance(one := targets[n], Quality)]
    one, bound = max(every, key=_target), _bound(every)
    feature = "quality share" if bound is None else "quality error"
    refuse(feature, operator.plan.labels, f"lw.{_word(one)}")
    windows = [window for _, window in operator.plan.fixed_windows]
    return WindowSlack(
        place.operator,
        flow.numbers[place.operator, 0],
        operator.name,
        inputs,
        _target(one),
        max(window.range for window in windows),
        min(window.slide for window in windows),
        OWN_SOURCES if bound is None and parts.intersection(inputs) else 0,
        bound,
    )


def _bound(policies: Sequence[Quality]) -> ValueBound | None:
    """Return the bound on results that all policies of some windows have; None if they have none.

    Raise SpecError if they differ.
    """
    bounds = {policy.bound for policy in policies}
    if len(bounds) > 1:
        raise SpecError(
            "lw.quality(...) with different error= or by_window= on the streams of the same "
            "windows: their results have one error; give all of these streams the same policy"
        )
    return bounds.pop()


def _booked(
    operators: tuple[Operator, ...], windows: Sequence[WindowSlack]
) -> tuple[Operator, ...]:
    """Return the operators, of which those of `windows` count rows by window if they can."""
    found = list(operators)
    for one in windows:
        plan = found[one.operator].plan
        assert isinstance(plan, WindowPlan)  # noqa: S101
        found[one.operator] = replace(found[one.operator], plan=plan.judged_by(one.bound))
    return tuple(found)


def _target(one: AdaptiveSlack) -> float:
    if isinstance(one, Quality) and one.bound is not None:
        return one.share
    assert isinstance(one, Quality | PdSlack)  # noqa: S101
    return one.target or 0.0


def _rule(one: AdaptiveSlack, axis: Axis, granule: int) -> FeedbackRule | PdRule:
    if isinstance(one, PdSlack):
        proportional, derivative = (gain / granule for gain in one.gains(axis))
        control = PdController(target=one.target, proportional=proportional, derivative=derivative)
        return PdRule(control, one.decay)
    return FeedbackRule(target=_target(one), decay=one.decay)


def _tracked(
    flow: Dataflow, decisions: Sequence[SlackDecision | PairSlack]
) -> tuple[Operator, ...]:
    """Return the operators of `flow`, changed to count the losses that `decisions` need."""
    operators = list(flow.operators)
    for one in decisions:
        if one.measured is not None:
            operator = operators[one.operator]
            plan = operator.plan.counting_losses(one.measured, one.unit)
            operators[one.operator] = replace(operator, plan=plan)
    return tuple(operators)
