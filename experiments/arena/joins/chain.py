"""Several streams joined in a row: the share of all combinations that leave the last join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa
from rich.console import Console

import lowwater as lw
from experiments.arena.families.family import Random, log_uniform
from experiments.arena.joins.families import EPOCH, JoinStream
from experiments.arena.joins.simulate import matches
from experiments.arena.report import empty_table
from experiments.arena.selection import Selection
from experiments.arena.verdict import KEPT
from lowwater.engine.quality_status import QualityStatus
from lowwater.local.host import LocalEpochs
from lowwater.watermarks.policy import WatermarkPolicy

SPAN = 600.0
"""The length of the streams in seconds."""
RATE, KEYS = 4.0, 4
"""The rows of a stream in a second, and the number of keys."""
REACH = 500_000
"""Rows join if their times are at most so far from that of the first stream, in ticks."""
CHAINS = {"three-streams": 3, "four-streams": 4, "five-streams": 5}
"""How many streams are joined, by name."""
TARGET = 0.9
"""The target of all of them together."""
WARM_UP = 60
"""The epochs whose combinations are not judged."""


def streams(number: int, seed: int) -> tuple[JoinStream, ...]:
    """Return streams that are late in different ways; every third one is in order."""
    random = np.random.default_rng([seed, number])
    return tuple(_drawn(random, late=n % 3 != 1) for n in range(number))


def _drawn(random: Random, *, late: bool) -> JoinStream:
    n = random.poisson(SPAN * RATE)
    at, key = np.sort(random.uniform(0, SPAN, n)), random.integers(0, KEYS, n)
    mean = log_uniform(random, 0.5, 4) if late else 0.0
    return JoinStream.of(at, random.exponential(1.0, n) * mean, key)


@dataclass(frozen=True)
class ChainVerdict:
    """The rule of joins on several streams that are joined in a row.

    - `completeness`: The share of all combinations that left the last join.
    - `each`: The shares of the pairs that the joins made, by the status.
    - `wait`: The mean sum of the slacks of all streams, in ticks.
    - `constant`: The completeness with the same constant slack for all streams, and as much wait.
    """

    number: int
    seed: int
    target: float
    completeness: float
    each: tuple[float, ...]
    wait: float
    constant: float

    @property
    def kept(self) -> float:
        """Completeness by target."""
        return self.completeness / self.target

    @property
    def fails(self) -> bool:
        """Whether too few combinations left the last join."""
        return self.kept < KEPT


def judge(number: int, seed: int, target: float) -> ChainVerdict:
    """Run the rule over streams of a seed, and a constant slack with the same wait."""
    every = streams(number, seed)
    made, waits, each = _run(every, lw.quality(target))
    wait = float(np.mean(waits[WARM_UP:]))
    same = lw.slack(f"{round(wait / number)} microseconds")
    constant, _, _ = _run(every, same)
    due = combinations(every)
    shares = (sum(counts[WARM_UP:]) / due[WARM_UP:].sum() for counts in (made, constant))
    return ChainVerdict(number, seed, target, next(shares), each, wait, next(shares))


def _run(
    every: Sequence[JoinStream], policy: WatermarkPolicy
) -> tuple[list[int], list[int], tuple[float, ...]]:
    """Return the results of the last join and the sum of all slacks by epoch, and the qualities."""
    feeds = [lw.feed("ts timestamp, key bigint") for _ in every]
    first, *others = (lw.stream(feed, time="ts", watermark=policy) for feed in feeds)
    query = first
    for other in others:
        query = query.join(other, on="key", band=("-500 milliseconds", "500 milliseconds"))
    local = LocalEpochs(query.assembly.with_shards(1), lw.VirtualClock())
    last = f"join {len(every) - 1}"
    results, made, waits = 0, list[int](), list[int]()
    for epoch in range(max(int(one.arrived.max()) for one in every) // EPOCH + 1):
        local.run([[_block(one, epoch)] for one in every], last=[False] * len(every))
        status = local.status()
        total = int(status.operators[last].get("results", 0))
        made, results = [*made, total - results], total
        waits.append(_slacks(status.quality))
    return made, waits, tuple(one.overall or 0.0 for one in local.status().quality.values())


def _block(stream: JoinStream, epoch: int) -> pa.Table:
    now = stream.arrived // EPOCH == epoch
    return pa.table(
        {"ts": pa.array(stream.ts[now], pa.timestamp("us", "UTC")), "key": stream.key[now]}
    )


def _slacks(quality: Mapping[str, QualityStatus]) -> int:
    """Return the sum of the slacks of all inputs, in ticks."""
    slacks: dict[str, timedelta] = {}
    for one in quality.values():
        for name, slack in one.slack.items():
            slacks[name] = max(slack, slacks.get(name, slack))
    return sum(slacks.values(), timedelta(0)) // timedelta(microseconds=1)


def combinations(every: Sequence[JoinStream]) -> np.ndarray:
    """Return by epoch how many combinations are complete in it."""
    found, *others = every
    for other in others:
        mine, theirs = matches((found, other), REACH)
        arrived = np.maximum(found.arrived[mine], other.arrived[theirs])
        found = JoinStream(found.ts[mine], arrived, found.key[mine])
    return np.bincount(found.arrived // EPOCH)


def chain_arena(chosen: Selection, console: Console) -> list[ChainVerdict]:
    """Run the rule on several streams, print the table, and return the verdicts."""
    verdicts = [judge(CHAINS[name], seed, TARGET) for seed, name in chosen.drawn(CHAINS)]
    table = empty_table("streams", "seed", "target", "kept", "each join", "wait, s", "constant")
    for v in verdicts:
        each = " ".join(f"{one:.3f}" for one in v.each)
        kept, same = f"{v.kept:.3f}", f"{v.constant / v.target:.3f}"
        table.add_row(
            str(v.number), str(v.seed), f"{v.target:g}", kept, each, f"{v.wait / 1e6:.2f}", same
        )
    console.print(table)
    return verdicts
