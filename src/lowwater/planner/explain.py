"""Describes a query as text: its operators, watermarks and policies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowwater.operators.operator import OperatorPlan, spec_text
from lowwater.planner.compatibility import features_of
from lowwater.planner.need import NeedSlack
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.planner.quality import refuse_unfed
from lowwater.planner.shedding import shed_lines
from lowwater.sidelining.policy import Sideline
from lowwater.sources.source import BlockSource
from lowwater.watermarks.adaptive.decision import SlackDecision
from lowwater.watermarks.adaptive.pair_slack import PairSlack
from lowwater.watermarks.adaptive.tournament import HORIZON
from lowwater.watermarks.adaptive.window_slack import WindowSlack
from lowwater.watermarks.policy import WatermarkPolicy
from lowwater.windows.axis import Axis


def explain(assembly: PhysicalPlan, aside: Sideline | None = None) -> str:
    """Return the text of `query.explain()`: the operators, their inputs and watermarks.

    `aside` is the policy that holds rows of a burst; None if no rows are held.
    """
    refuse_unfed(assembly)
    flow = assembly.flow
    several = len(flow.operators) > 1 or len(flow.inputs) > 1
    sections = []
    for number, operator in enumerate(flow.operators):
        starts = [
            (i.before + route.steps, f"input {n + 1}" if several else "", policy)
            for n, (i, policy) in enumerate(zip(flow.inputs, assembly.policies, strict=True))
            for route in i.routes
            if route.operator == number
        ]
        rows = [line for steps, name, _ in starts for line in _rows(steps, name)]
        rows += [
            line
            for other in flow.operators
            for route in other.routes
            if route.operator == number
            for line in _rows(route.steps, f"results of {other.name}")
        ]
        plan = operator.plan
        lines = rows + plan.explain()
        lines += [f"files       {text}" for text in _sources(assembly, number)]
        lines += [f"watermark   {_watermark(policy)}" for _, _, policy in starts]
        for one in () if assembly.adapter is None else assembly.adapter.decisions:
            lines += _quality(one, plan.axes[0]) if one.operator == number else []
        for pair in () if assembly.adapter is None else assembly.adapter.pairs:
            if pair.operator == number:
                lines += _pair_quality(pair, plan.axes[0])
        for window in () if assembly.adapter is None else assembly.adapter.windows:
            lines += _window_quality(window, plan) if window.operator == number else []
        if plan.source_out is not None:
            lines.append(f"{'':12}the watermark of each {plan.source_out} closes its own groups")
        if aside is not None and starts and plan.fixed_windows:
            lines.append(
                f"held        rows of a burst behind an early result; one is released for every "
                f"{aside.every} new ones, each within {plan.axes[0].say(aside.max_delay)}"
            )
        head = [f"-- {operator.name}"] if several else []
        sections.append("\n".join([*head, *lines]))
    if assembly.shedder is not None:
        sections += shed_lines(assembly.shedder, flow)
    return "\n".join(sections)


def _watermark(policy: WatermarkPolicy) -> str:
    return "as need= allows" if isinstance(policy, NeedSlack) else spec_text(policy)


def _sources(assembly: PhysicalPlan, operator: int) -> list[str]:
    """Return the texts of the block sources whose rows reach an operator first."""
    each = zip(assembly.flow.inputs, assembly.sources, strict=True)
    mine = (s for i, s in each if any(route.operator == operator for route in i.routes))
    texts = (source.describe() for source in mine if isinstance(source, BlockSource))
    return [text for text in texts if text is not None]


def feature_lines(assembly: PhysicalPlan) -> list[str]:
    """Return a line for each feature: whether the query allows the feature, or why not."""
    labels = {label for operator in assembly.flow.operators for label in operator.plan.labels}
    return [
        f"feature     {feature}: {'yes' if rule is None else f'no: {rule.reason}'}"
        for feature, rule in features_of(labels)
    ]


def _rows(steps: Sequence[Any], origin: str) -> list[str]:
    """Return the lines that name the `origin` of rows, and the `steps` applied to these rows."""
    texts = ([origin] if origin else []) + [str(step) for step in steps]
    return [f"{'rows' if i == 0 else '':<12}{text}" for i, text in enumerate(texts)]


def _window_quality(one: WindowSlack, plan: OperatorPlan) -> list[str]:
    """Return the lines on the quality target of windows."""
    what = "rows in their windows' finals" if plan.revise else "rows in time for their windows"
    if one.bound is not None:
        of = "of their rows missing" if one.bound.rows else f"error, by {plan.compared}"
        what = f"results with at most {one.bound.error:.4g} {of}"
    counted = "on settled windows" if plan.books_quality else "by the slack rule"
    share = f", for each {plan.source_out or 'source'}" if one.sources else ""
    return [
        f"quality     at least {one.target:g} of {what}, over {HORIZON:.0f} windows{share}",
        "            slack is chosen after every epoch, by the slacks that rows needed",
        f"            measured {counted}",
    ]


def _pair_quality(one: PairSlack, axis: Axis) -> list[str]:
    """Return the lines on the quality target of a join."""
    lost = "its second row comes when its time is passed"
    if not one.ordered:
        lost = "its second row finds the other evicted"
    joins = len(one.others) + 1
    of = f", with those of the {joins} joins in a row" if joins > 1 else ""
    return [
        f"quality     at least {one.target:g} of pairs{of}; a pair is lost if {lost}",
        f"            over {HORIZON:.0f} times {axis.say(one.unit)}",
        "            slack is chosen after every epoch, by the slacks that pairs needed",
        "            measured on pairs, also those that late rows have missed",
    ]


def _quality(one: SlackDecision, axis: Axis) -> list[str]:
    """Return the lines on a quality target: its meaning, the choice of slack, the measurement."""
    how = {
        None: "by the model alone: what late rows have lost is not known here",
        "late": "on the rows of both sides that came late; the pairs they lost are estimated",
        "rows": "on the rows that late rows' windows had and missed",
        "windows": "on the rows that windows had and missed, over all their groups",
        "pairs": "on pairs, also those that late rows have missed",
    }[one.measured]
    track, step = axis.say(one.track), axis.say(one.granule)
    return [
        f"quality     at least {one.target:g}: {one.below.ratio}",
        f"            slack in steps of {step}, chosen every {track} or, if longer, epoch",
        f"            measured {how}",
    ]
