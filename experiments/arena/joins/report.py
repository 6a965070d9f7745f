"""The table of the arena of joins: each pair of streams, beside the best constant slack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from experiments.arena.joins.families import FAMILIES, Change
from experiments.arena.joins.simulate import Pairs, constant, play
from experiments.arena.report import empty_table
from experiments.arena.verdict import ANY, CHANGING, KEPT, LONG, STEADY, TARGETS

WARM_UP, LEARNT = 60, 80
"""The epochs that are not judged, and the pairs; of these, at most a tenth of the stream."""
FEWEST = 200
"""A stream is judged if it has this many pairs: with fewer, a single pair is above the tolerance."""
REACH = 500_000
"""Rows join if their times are at most so far apart, in ticks."""


@dataclass(frozen=True)
class JoinVerdict:
    """The rule of joins under one target, on one pair of streams.

    `wait` is the mean sum of the slacks of both sides; `best_wait` is that of the smallest constant
    slack of both sides that makes no fewer pairs, in ticks.
    """

    family: str
    change: Change
    seed: int
    target: float
    completeness: float
    wait: float
    best_wait: float
    epoch: int
    pairs: int
    judged: bool

    @property
    def kept(self) -> float:
        """Completeness by target."""
        return self.completeness / self.target

    @property
    def ratio(self) -> float:
        """Wait by the wait of the best constant; a wait below an epoch counts as one epoch."""
        return max(self.wait, self.epoch) / max(self.best_wait, self.epoch)

    @property
    def fails(self) -> tuple[str, ...]:
        """What the rule fails."""
        slow = self.ratio > ANY and self.wait > self.best_wait + self.epoch
        short = self.judged and self.kept < KEPT
        return (*(("short",) if short else ()), *(("slow",) if slow else ()))


def judge(family: str, seed: int, target: float) -> JoinVerdict:
    """Run the rule on the streams of a family and a seed."""
    return _judged(family, seed, target, pairs_of(family, seed))


def pairs_of(family: str, seed: int) -> Pairs:
    """Return the pairs of the streams of a family and a seed."""
    one = FAMILIES[family]
    return Pairs.of(one.streams(seed), REACH, one.epoch)


def _judged(family: str, seed: int, target: float, pairs: Pairs) -> JoinVerdict:
    course, since = play(pairs, target), first_judged(pairs)
    judged = pairs.epoch.max(axis=0) >= since
    share = float(course.made[judged].mean())
    best = 2 * constant(pairs, share, judged)
    wait = float(course.waits[since:].mean())
    number, needs = int(judged.sum()), constant(pairs, target, judged)
    long = (len(pairs.newest[0]) - since) * pairs.length >= LONG * needs and number >= FEWEST
    kind = family, FAMILIES[family].change, seed, target
    return JoinVerdict(*kind, share, wait, best, pairs.length, number, bool(long))


def first_judged(pairs: Pairs) -> int:
    """Return the first epoch that is judged."""
    begun, last = int(pairs.begun[0]), len(pairs.newest[0])
    found = np.sort(pairs.epoch.max(axis=0))
    learnt = int(found[min(LEARNT, len(found) - 1)])
    return max(begun + WARM_UP, min(learnt, last // 10))


def join_arena(seeds: Sequence[int], console: Console) -> list[JoinVerdict]:
    """Run the rule over all families, print the tables, and return the verdicts."""
    verdicts = []
    for seed in seeds:
        for name in FAMILIES:
            pairs = pairs_of(name, seed)
            verdicts += [_judged(name, seed, target, pairs) for target in TARGETS]
    table = empty_table("joins", "", "seed", "target", "kept", "wait, s", "wait ÷ best", "fails")
    for v in verdicts:
        figures = f"{v.kept:.3f}", f"{v.wait / 1e6:.2f}", f"{v.ratio:.2f}", ", ".join(v.fails)
        table.add_row(v.family, v.change, str(v.seed), f"{v.target:g}", *figures)
    console.print(table)
    for change, most in (("steady", STEADY), ("changing", CHANGING)):
        ratio = mean_ratio([v for v in verdicts if v.change == change])
        console.print(f"joins, {change}: wait ÷ best {ratio:.3f} in the mean, at most {most:g}")
    return verdicts


def mean_ratio(verdicts: Sequence[JoinVerdict]) -> float:
    """Return the geometric mean of the ratios of waits."""
    return float(np.exp(np.mean([np.log(v.ratio) for v in verdicts])))
