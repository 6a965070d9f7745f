"""One epoch of one shard, whatever kind of window the plan has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lowwater.kernels.aggregate import Step, WindowEpoch
from lowwater.kernels.by_row import ByRowEpoch
from lowwater.kernels.numbered import NumberedEpoch
from lowwater.kernels.packets import Packet
from lowwater.kernels.plan import WindowPlan
from lowwater.kernels.sessions import SessionEpoch
from lowwater.kernels.sharing import SharedEpoch
from lowwater.windows import Session, Shared, SlideByRow


@np.errstate(over="ignore", invalid="ignore")
def step(
    plan: WindowPlan, shard: int, state: Mapping[str, bytes], packets: Sequence[Packet]
) -> Step:
    """Run one epoch of one shard: (state, data, control) -> (state, emissions)."""
    return _epoch(plan)(plan, shard, state).run(sorted(packets, key=lambda p: p.seq))


def _epoch(plan: WindowPlan) -> type[WindowEpoch]:
    if plan.numbering is not None:
        return NumberedEpoch
    kinds: dict[type, type[WindowEpoch]] = {
        SlideByRow: ByRowEpoch,
        Session: SessionEpoch,
        Shared: SharedEpoch,
    }
    return kinds.get(type(plan.spec), WindowEpoch)
