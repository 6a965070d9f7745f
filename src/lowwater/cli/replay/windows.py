"""The windows of a query over recordings, and what completeness costs them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.cli.replay.query import RecordedQuery
from lowwater.cli.replay.read import Recording
from lowwater.dataflow.graph import Route
from lowwater.learners.frontier import Frontier, NeededSlacks, RecordedProgress
from lowwater.operators.window.plan import WindowPlan
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.sources.arrival_clock import Ticks
from lowwater.ticks import spoken
from lowwater.watermarks.policy import WatermarkPolicy
from lowwater.windows.axis import Axis

SHORT, FINE = 2, 10
"""An epoch hides lateness if it is longer than a slide / `SHORT`; a slide / `FINE` is short."""


def window_plan(plan: PhysicalPlan) -> WindowPlan | None:
    """Return the windows of a query if they have fixed ranges and lie directly over streams.

    Return None for other queries: their windows depend on rows, or on results of operators.
    """
    flow = plan.flow
    number = flow.outputs[0].operator
    last = flow.operators[number].plan
    if not isinstance(last, WindowPlan) or len(flow.operators) != 1:
        return None
    plain = last.numbering is None and last.second is None and not last.spec.driven
    return last if plain and last.fixed_windows else None


def frontier_of(query: RecordedQuery) -> Frontier | None:
    """Return the frontier of all fixed slacks; None if the windows are not known in advance."""
    plan = query.query(lw.ordered()).assembly
    windows = window_plan(plan)
    if windows is None:
        return None
    names = {id(feed): name for name, feed in query.feeds.items()}
    inputs = [names[id(source)] for source in plan.sources]
    by_name = {name: query.progress(name) for name in inputs}
    progress = RecordedProgress.least([by_name[name] for name in dict.fromkeys(inputs)])
    pairs = [
        NeededSlacks.of(window, ticks, progress.epoch_of(arrived), progress)
        for name, start in zip(inputs, plan.flow.inputs, strict=True)
        for route in start.routes
        for ticks, arrived in [delivered(query.recordings[name], route)]
        for _, window in windows.fixed_windows
    ]
    return Frontier(NeededSlacks.together(pairs), progress)


def slide_of(query: RecordedQuery) -> int | None:
    """Return the shortest slide of the windows in ticks; None if it is not known in advance."""
    plan = window_plan(query.query(lw.ordered()).assembly)
    return None if plan is None else min(window.slide for _, window in plan.fixed_windows)


def epoch_note(query: RecordedQuery) -> str | None:
    """Return a sentence about epochs that are too long for the windows; None if they are not."""
    slide, axis = slide_of(query), query.axis
    timed = not query.counts_numbers
    if slide is None or (axis.kind == "time") != timed or query.epochs.length <= slide // SHORT:
        return None
    shorter = max(slide // FINE, 1)
    text = spoken(shorter) if timed else f"{shorter / axis.per_unit:g}"
    hidden = f"Epochs this long hide lateness, beside a slide of {axis.say(slide)}"
    return f"{hidden}: try --epoch '{text}'."


def delivered(recording: Recording, route: Route) -> tuple[Ticks, Ticks]:
    """Return (times, arrivals) of the rows that pass the steps of a route."""
    ticks, valid = recording.ticks
    rows = np.flatnonzero(valid)
    table = recording.table.take(pa.array(rows))
    for step in route.steps:
        kept = step.kept(table)
        if kept is None:
            table = step(table)
        else:
            table, rows = table.filter(pa.array(kept)), rows[kept]
    return ticks[rows], recording.arrived[rows]


def slack_policy(axis: Axis, slack: int) -> WatermarkPolicy:
    """Return the policy of a fixed slack in ticks."""
    return lw.slack(span_value(axis, slack))


def span_value(axis: Axis, ticks: int) -> Any:
    """Return a length as a policy takes it: a timedelta, or a number."""
    if axis.kind == "time":
        return timedelta(microseconds=ticks)
    return ticks if axis.per_unit == 1 else ticks / axis.per_unit
