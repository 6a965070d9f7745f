"""Schedules: which faults happen at which points of which runs, chosen by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from chaos.queries import QUERIES, ChaosQuery
from lowwater.engine.fault_points import POINTS

FAULTS = {
    "kill": "the process ends at the point",
    "torn write": "the process ends while it writes the next file",
    "failed write": "the next write fails, once",
    "lost reply": "the next record is written, but its writer receives an error",
    "full disk": "every write fails until the restart",
    "read-only disk": "every write and every deletion fails until the restart",
    "second run": "another run takes over, runs some epochs, then the first run continues",
    "late attempt": "a task of an earlier epoch writes its segment again",
    "clock jump": "the clock jumps by hours",
    "lost segment": "kill; the newest state segment is deleted",
    "lost state": "kill; all state segments are deleted",
    "lost records": "kill; the newest records of the log are deleted",
    "lost outputs": "kill; the pending outputs are deleted",
    "flipped bit": "kill; one bit of one file of the checkpoint is flipped",
    "changed digit": "kill; one digit of the newest record is changed",
    "swapped files": "kill; two segments or two records change their names",
    "old backup": "kill; the checkpoint is replaced by an older copy, the outputs stay",
    "new checkpoint": "kill; the checkpoint is deleted, the outputs stay",
}
"""The kinds of faults, with their meanings."""


@dataclass(frozen=True)
class Fault:
    """A fault at the nth time that a run reaches a point; `seed` chooses its details."""

    point: str
    nth: int
    kind: str
    seed: int


@dataclass(frozen=True)
class Schedule:
    """A query and the faults of its runs, one run after the other; the last run has no fault."""

    seed: int
    query: ChaosQuery
    faults: tuple[Fault, ...]
    kept_epochs: int


def schedule(seed: int) -> Schedule:
    """Return the schedule of `seed`."""
    chosen = random.Random(seed)  # noqa: S311
    faults = []
    for _ in range(chosen.choice((1, 1, 2, 3))):
        point = chosen.choice(POINTS)
        most = 1 if point in ("claimed", "recovered", "released") else 8
        faults.append(
            Fault(
                point,
                chosen.randrange(most),
                chosen.choice(list(FAULTS)),
                chosen.getrandbits(32),
            )
        )
    return Schedule(seed, chosen.choice(QUERIES), tuple(faults), chosen.choice((1, 2, 20)))
