"""Schedules on Spark: each seed is one pair of point and fault, and chooses the rest."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import islice

from chaos.schedule import Fault
from chaos.spark_queries import OF_FRAMES, QUERIES
from lowwater.engine.fault_points import POINTS

FAULTS = {
    "kill driver": "the Python process of the driver ends",
    "kill JVM": "the JVM of the driver ends",
    "kill worker": "Python workers end; the query must not",
    "kill executor": "an executor of the cluster ends; the query must not",
    "torn write": "the process that writes the next file ends while it writes",
    "failed write": "the next write fails, once",
    "full disk": "every write fails until the restart",
    "second driver": "the driver sleeps while another one runs, then continues",
    "zombie attempt": "an attempt of a task loses against a speculative copy, and writes now",
    "lost offsets": "halt; Spark's part of the checkpoint is deleted",
    "lost batch": "halt; the newest file of Spark's offsets, commits or source logs is deleted",
    "lost segment": "halt; the newest state segment is deleted",
    "lost records": "halt; the newest records of the log are deleted",
    "flipped bit": "halt; one bit of one file of the checkpoint is flipped",
    "old backup": "halt; the checkpoint is replaced by an older copy, the outputs stay",
}
"""The kinds of faults on Spark, with their meanings."""
HARMLESS = ("kill worker", "kill executor", "zombie attempt")
"""Faults after which the query continues by itself."""
KILLS = ("kill driver", "kill JVM")
"""Faults after which the driver is dead, also if they come after the end of its run."""
DEADLY = (*KILLS, "torn write")
"""Faults that may end the driver."""
DAMAGE = tuple(kind for kind, text in FAULTS.items() if text.startswith("halt"))
ANY_MOMENT = "any moment"
"""The point of faults that the runner injects at a random time."""
_ON_CLUSTER = ("kill executor", "zombie attempt")
_AT_START = ("claimed", "recovered")
_ONCE = (*_AT_START, "released")
PAIRS = [(point, kind) for point in POINTS for kind in FAULTS] + [
    (ANY_MOMENT, kind) for kind in FAULTS if kind.startswith("kill")
]
"""All pairs of point and fault."""


@dataclass(frozen=True)
class SparkSchedule:
    """A query, the session of its driver, and the faults of its runs; the last has none."""

    seed: int
    query: str
    session: str
    faults: tuple[Fault, ...]


def spark_schedule(seed: int) -> SparkSchedule:
    """Return the schedule of `seed`, whose last fault is the pair number `seed`."""
    chosen = random.Random(seed)  # noqa: S311
    point, kind = PAIRS[seed % len(PAIRS)]
    halts = point in _AT_START or kind == "old backup" or chosen.random() < 0.2  # noqa: PLR2004
    nth = chosen.randrange(2) if halts else chosen.randrange(1, 5)
    faults = [Fault(point, 0 if point in _ONCE else nth, kind, chosen.getrandbits(32))]
    if halts:
        before = chosen.choice(("opened", "tasks", "staged", "appended", "published"))
        before = "tasks" if kind == "zombie attempt" else before
        faults.insert(0, Fault(before, chosen.randrange(1, 3), "halt", chosen.getrandbits(32)))
    session = "cluster" if kind in _ON_CLUSTER else chosen.choice(("ours", "plain"))
    query = chosen.choice(OF_FRAMES if kind in ("lost offsets", "lost batch") else list(QUERIES))
    return SparkSchedule(seed, query, session, tuple(faults))


def chosen_seeds(first: int, number: int, points: list[str], kinds: list[str]) -> list[int]:
    """Return the seeds from `first` on whose pairs are of `points` and `kinds`; empty means all."""
    wanted = [
        n
        for n, (point, kind) in enumerate(PAIRS)
        if (not points or point in points) and (not kinds or kind in kinds)
    ]
    rounds = range(first // len(PAIRS), first // len(PAIRS) + number + 2)
    seeds = (len(PAIRS) * r + n for r in rounds for n in wanted)
    return list(islice((seed for seed in seeds if seed >= first), number))
