"""What share of the rows at a port is expected to have arrived, from what is known of the inputs.

It flows as progress does. Streams that flow together weigh by their rows; a pair of a join is there
when both its rows are; and of the results of windows, those of every window that has begun are
there when a prod sweeps the plan, provisional ones among them.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowwater.control import Arrived
from lowwater.kernels.joins import JoinPlan
from lowwater.kernels.operators import OperatorPlan
from lowwater.kernels.plan import WindowPlan
from lowwater.windows import Landmark, Shared, Sliding


def together(several: Sequence[Arrived | None]) -> Arrived | None:
    """Return what has arrived of streams that flow together, None if of one nothing is known."""
    known = [a for a in several if a is not None]
    return Arrived.together(known) if known and len(known) == len(several) else None


def results(plan: OperatorPlan, ports: Sequence[Arrived | None]) -> Arrived | None:
    """Return what has arrived of the results of an operator."""
    if isinstance(plan, JoinPlan):
        mine, theirs = ports
        return None if mine is None or theirs is None else mine.where_both(theirs)
    if not isinstance(plan, WindowPlan):
        return ports[0]
    arrived = ports[0]
    windows = _windows(plan)
    if arrived is None or not windows:
        return None
    newest = int(arrived.edges[-1]) - 1
    return Arrived.until(max(int(w.end(w.first(newest) + _ahead(w))) for w in windows))


def _windows(plan: WindowPlan) -> list[Sliding | Landmark]:
    """Return the windows whose ends are known beforehand."""
    if plan.numbering is not None:
        return []
    if isinstance(plan.spec, Shared):
        return [w for _, w in plan.spec.named]
    return [plan.spec] if isinstance(plan.spec, Sliding | Landmark) else []


def _ahead(window: Sliding | Landmark) -> int:
    """Return how many windows more than the first hold a row."""
    return window.range // window.slide - 1 if isinstance(window, Sliding) else 0
