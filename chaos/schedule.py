"""Schedules: which faults happen at which points of which runs, chosen by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from chaos.queries import FILE_QUERIES, QUERIES, AnyQuery, FileQuery
from lowwater.engine.fault_points import POINTS

_RUNNING = {
    "kill": "the process ends at the point",
    "kill later": "the process ends at a random operation of the disk after the point",
    "torn write": "the process ends while it writes a file",
    "failed write": "a write fails, once",
    "lost reply": "the next record is written, but its writer receives an error",
    "full disk": "every write fails until the restart",
    "read-only disk": "every write and every deletion fails until the restart",
    "slow disk": "every operation of the disk takes minutes of the clock, until the restart",
    "clock jump": "the clock jumps by hours",
    "second run": "another run takes over, runs some epochs, then the first run continues",
    "late attempt": "a task of an earlier epoch writes its segment again",
}
_DAMAGE = {
    "lost segment": "kill; the newest state segment is deleted",
    "lost state": "kill; all state segments are deleted",
    "lost records": "kill; the newest 1, 2 or 5 records of the log are deleted",
    "lost outputs": "kill; the pending outputs are deleted",
    "flipped bit": "kill; one bit of one file of the checkpoint is flipped",
    "changed digit": "kill; one digit of the newest record is changed",
    "swapped files": "kill; two segments or two records change their names",
    "old backup": "kill; the checkpoint is replaced by an older copy, the outputs stay",
    "new checkpoint": "kill; the checkpoint is deleted, the outputs stay",
}
_ARRIVALS = {
    "bad lines": "a file arrives with lines that cannot be read, or look odd",
    "corrupt file": "a file arrives that cannot be read",
    "older name": "a file arrives whose name sorts before those that were read",
    "future row": "a file arrives whose first row is too far in the future",
    "removed file": "kill; an input file is removed",
    "changed file": "kill; an input file gets other rows",
}
FAULTS = _RUNNING | _DAMAGE | _ARRIVALS
"""The kinds of faults, with their meanings."""

_WRITES = ("torn write", "failed write", "lost reply", "full disk")
SENSELESS = {
    **{("released", kind): "no file is written after the release" for kind in _WRITES},
    ("released", "clock jump"): "no clock is read after the release",
    ("released", "slow disk"): "no clock is read after the release",
    **{("released", kind): "all input files are read before the release" for kind in _ARRIVALS},
}
"""{(point, kind): the reason why the fault makes no sense at the point}."""
PAIRS = tuple((p, k) for p in POINTS for k in FAULTS if (p, k) not in SENSELESS)

_STARTING = ("claimed", "recovered")
_NEEDS_PAST = frozenset({*_DAMAGE, "late attempt", "removed file", "changed file"})
_EPOCHS = 6


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
    query: AnyQuery
    faults: tuple[Fault, ...]
    kept_epochs: int


def schedule(seed: int) -> Schedule:
    """Return the schedule of `seed`."""
    chosen = random.Random(seed)  # noqa: S311
    point, kind = chosen.choice(PAIRS)
    every: tuple[AnyQuery, ...] = (*QUERIES, *FILE_QUERIES)
    query = chosen.choice([q for q in every if _suits(q, kind)])
    faults = [_fault(chosen, point, kind)]
    if point in _STARTING and kind in _NEEDS_PAST:
        faults.insert(0, _fault(chosen, "cleaned", "kill"))
    more = [pair for pair in PAIRS if _suits(query, pair[1])]
    faults += [_fault(chosen, *chosen.choice(more)) for _ in range(chosen.choice((0, 0, 1, 2)))]
    return Schedule(seed, query, tuple(faults), chosen.choice((1, 2, 20)))


def _fault(chosen: random.Random, point: str, kind: str) -> Fault:
    once = point in (*_STARTING, "released")
    nth = 0 if once else chosen.randrange(_EPOCHS)
    return Fault(point, nth, kind, chosen.getrandbits(32))


def _suits(query: AnyQuery, kind: str) -> bool:
    """Return whether a kind of fault can happen to a query."""
    if kind == "corrupt file":
        return isinstance(query, FileQuery) and query.form != "json"
    return kind not in _ARRIVALS or isinstance(query, FileQuery)
