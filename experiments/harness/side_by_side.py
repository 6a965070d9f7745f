"""The cost of one way to run a query over another: both run alternately, epoch by epoch.

On a shared machine whole runs differ by 15 % and more without a reason. So every epoch of one way
runs right after the same epoch of the other, in changing order, several times, and the least
processor time of each epoch counts: the run that nothing disturbed.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import lowwater as lw
from lowwater.local.host import LocalEpochs
from lowwater.planner.physical_plan import PhysicalPlan

Costs: TypeAlias = npt.NDArray[np.float64]
"""Seconds of processor time: by way, run and epoch."""


def in_step(
    ways: Sequence[PhysicalPlan],
    blocks: Sequence[Sequence[pa.Table]],
    repeats: int,
    shards: int = 2,
) -> tuple[list[int], Costs]:
    """Run queries over blocks, a list of them for each stream; return their results and costs."""
    took = np.zeros((len(ways), repeats, len(blocks[0])))
    given = [0 for _ in ways]
    for run in range(repeats):
        hosts = [LocalEpochs(way.with_shards(shards), lw.VirtualClock()) for way in ways]
        gc.collect()
        for n, epoch in enumerate(zip(*blocks, strict=True)):
            for at in range(len(ways)):
                turn = (at + n + run) % len(ways)
                began = time.process_time()
                hosts[turn].run([[block] for block in epoch], last=[False for _ in epoch])
                took[turn, run, n] = time.process_time() - began
        given = [sum(o["results"] for o in h.status().operators.values()) for h in hosts]
    return given, took


def least(took: Costs) -> Costs:
    """Return the time of each way when nothing disturbs it: the quickest run of every epoch."""
    return np.asarray(took.min(axis=1).sum(axis=1))


def excess(took: Costs) -> float:
    """Return by how many percent the first way takes longer than the second.

    >>> excess(np.array([[[1.1, 2.0], [1.0, 2.2]], [[1.0, 1.0], [1.2, 1.0]]]))
    50.0
    """
    first, second = least(took)
    return 100 * float(first / second - 1)
