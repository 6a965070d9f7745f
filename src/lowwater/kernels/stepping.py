"""One epoch of one shard, whatever the operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lowwater.kernels.aggregate import Step, WindowEpoch
from lowwater.kernels.by_row import ByRowEpoch
from lowwater.kernels.distinct import DistinctEpoch, DistinctPlan
from lowwater.kernels.holding import HoldEpoch, HoldPlan
from lowwater.kernels.joining import JoinEpoch
from lowwater.kernels.joins import JoinPlan
from lowwater.kernels.numbered import NumberedEpoch
from lowwater.kernels.operators import OperatorPlan
from lowwater.kernels.ordering import OrderEpoch, OrderPlan
from lowwater.kernels.packets import Packet
from lowwater.kernels.passing import PassEpoch, PassPlan
from lowwater.kernels.plan import WindowPlan
from lowwater.kernels.ranged import RangedEpoch
from lowwater.kernels.revising import RevisingEpoch, RevisingSharedEpoch
from lowwater.kernels.sessions import SessionEpoch
from lowwater.kernels.sharing import SharedEpoch
from lowwater.kernels.sidelining import SidelinedEpoch
from lowwater.kernels.smoothing import SmoothEpoch
from lowwater.kernels.timed_joining import TimedJoinEpoch, TrackedTimedJoinEpoch
from lowwater.kernels.timed_joins import TimedJoinPlan
from lowwater.kernels.tracking import TrackedJoinEpoch, TrackedWindowEpoch
from lowwater.kernels.unmatched import SmoothJoinEpoch
from lowwater.windows import Session, Shared, SlideByRow


@np.errstate(over="ignore", invalid="ignore")
def step(
    plan: OperatorPlan, shard: int, state: Mapping[str, bytes], packets: Sequence[Packet]
) -> Step:
    """Run one epoch of one shard: (state, data, control) -> (state, emissions)."""
    done: Step = _epoch(plan)(plan, shard, state).run(sorted(packets, key=lambda p: p.seq))
    return done


def _epoch(plan: OperatorPlan) -> Any:
    """Return what runs an epoch of an operator."""
    if isinstance(plan, JoinPlan):
        return SmoothJoinEpoch if plan.smooth is not None else _JOINS[type(plan)][plan.remember > 0]
    if not isinstance(plan, WindowPlan):
        return _OTHERS[type(plan)]
    if plan.smooth is not None:
        return SmoothEpoch
    return _windows_epoch(plan)


def _windows_epoch(plan: WindowPlan) -> Any:
    """Return what runs an epoch of windows that close at once."""
    if plan.revise:
        return RevisingSharedEpoch if isinstance(plan.spec, Shared) else RevisingEpoch
    if plan.ranged:
        return SidelinedEpoch if plan.sidelined else RangedEpoch
    if plan.numbering is not None:
        return NumberedEpoch
    return TrackedWindowEpoch if plan.tracked else _WINDOWS.get(type(plan.spec), WindowEpoch)


_WINDOWS: dict[type, type[WindowEpoch]] = {
    SlideByRow: ByRowEpoch,
    Session: SessionEpoch,
    Shared: SharedEpoch,
}
_OTHERS: dict[type, Any] = {
    PassPlan: PassEpoch,
    DistinctPlan: DistinctEpoch,
    OrderPlan: OrderEpoch,
    HoldPlan: HoldEpoch,
}
_JOINS: dict[type, tuple[Any, Any]] = {
    JoinPlan: (JoinEpoch, TrackedJoinEpoch),
    TimedJoinPlan: (TimedJoinEpoch, TrackedTimedJoinEpoch),
}
"""Each without and with a count of the pairs that are lost."""
