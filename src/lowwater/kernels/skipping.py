"""What operators and ingest skip when windows are left out: it follows from the plan (DROP 3.2).

It flows against the rows: from the windows whose results leave, to what those read, to the streams.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from lowwater.control import Dropped, Stretches
from lowwater.control.intervals import common
from lowwater.kernels.bands import Band
from lowwater.kernels.dataflow import Dataflow, Route
from lowwater.kernels.joins import JoinPlan
from lowwater.kernels.operators import OperatorPlan
from lowwater.kernels.plan import WindowPlan
from lowwater.shedding.reaching import shrunk, unread_rows, within
from lowwater.windows import Shared, Sliding


@dataclass(frozen=True)
class Skipped:
    """Where nothing is needed: `results` of each operator, `rows` at each port by its number."""

    results: tuple[Stretches, ...]
    rows: tuple[Stretches, ...]


def skipped(flow: Dataflow, dropped: Dropped) -> Skipped:
    """Return what is not needed when some windows are left out."""
    results: list[Stretches] = [() for _ in flow.operators]
    rows: list[Stretches] = [() for _ in flow.ports]
    for number in reversed(range(len(flow.operators))):
        operator = flow.operators[number]
        readers = [rows[flow.numbers[r.operator, r.port]] for r in operator.routes]
        if any(o.operator == number for o in flow.outputs):
            readers.append(dropped.of(number))
        results[number] = reduce(common, readers) if readers else ()
        for port in range(operator.plan.ports):
            unread = unread_at(operator.plan, results[number])
            rows[flow.numbers[number, port]] = unread
    return Skipped(tuple(results), tuple(rows))


def unread_at(plan: OperatorPlan, results: Stretches) -> Stretches:
    """Return the times whose rows make only results that nobody needs, at any port."""
    if isinstance(plan, WindowPlan):
        specs = [w for _, w in plan.spec.named] if isinstance(plan.spec, Shared) else [plan.spec]
        found = [unread_rows(s, results) if isinstance(s, Sliding) else () for s in specs]
        return reduce(common, found)
    back, ahead = reach(plan)
    return shrunk(results, back, ahead)


def reach(plan: OperatorPlan) -> tuple[int, int]:
    """Return how far before and after its time the results lie that a row makes."""
    if not isinstance(plan, JoinPlan):
        return 0, 0
    if isinstance(plan.band, Band):
        far = max(abs(plan.band.lo), abs(plan.band.hi))
        return far, far
    return plan.band.size - 1, plan.band.size - 1


def unread(
    flow: Dataflow, known: Skipped, route: Route, ticks: np.ndarray, sound: np.ndarray
) -> np.ndarray | None:
    """Return which rows on a route need not go on, None if all must."""
    stretches = known.rows[flow.numbers[route.operator, route.port]]
    if not stretches:
        return None
    found = within(stretches, ticks) & sound
    plan = flow.operators[route.operator].plan
    if isinstance(plan, WindowPlan) and plan.spec.has_gaps:
        found &= _inside(plan, ticks)
    return found if found.any() else None


def _inside(plan: WindowPlan, ticks: np.ndarray) -> np.ndarray:
    """Which rows belong to a window at all: the others are outside, not left out."""
    if isinstance(plan.spec, Shared):
        return ~plan.spec.outside(ticks)
    return np.asarray(plan.window.last(ticks) >= plan.window.first(ticks))


def without_windows(plan: OperatorPlan, results: Stretches) -> OperatorPlan:
    """Return the plan of an operator that leaves out the windows with results in some stretches."""
    if not results or not isinstance(plan, WindowPlan):
        return plan
    return replace(plan, dropped=results)
