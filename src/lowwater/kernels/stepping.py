"""One epoch of one shard, whatever the operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lowwater.kernels.aggregate import Step, WindowEpoch
from lowwater.kernels.by_row import ByRowEpoch
from lowwater.kernels.numbered import NumberedEpoch
from lowwater.kernels.operators import OperatorPlan
from lowwater.kernels.packets import Packet
from lowwater.kernels.passing import PassEpoch, PassPlan
from lowwater.kernels.plan import WindowPlan
from lowwater.kernels.sessions import SessionEpoch
from lowwater.kernels.sharing import SharedEpoch
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
    if isinstance(plan, PassPlan):
        return PassEpoch
    assert isinstance(plan, WindowPlan)  # noqa: S101
    if plan.numbering is not None:
        return NumberedEpoch
    kinds: dict[type, type[WindowEpoch]] = {
        SlideByRow: ByRowEpoch,
        Session: SessionEpoch,
        Shared: SharedEpoch,
    }
    return kinds.get(type(plan.spec), WindowEpoch)
