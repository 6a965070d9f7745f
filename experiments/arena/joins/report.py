"""The table of the arena of joins: each pair of streams, beside the best constant slack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from experiments.arena.joins.families import EPOCH, FAMILIES, Change
from experiments.arena.joins.simulate import Pairs, constant, play
from experiments.arena.report import empty_table
from experiments.arena.selection import Selection
from experiments.arena.verdict import ANY, CHANGING, KEPT, STEADY, TARGETS

WARM_UP = 60
"""The epochs that are not judged."""
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

    @property
    def kept(self) -> float:
        """Completeness by target."""
        return self.completeness / self.target

    @property
    def ratio(self) -> float:
        """Wait by the wait of the best constant; a wait below an epoch counts as one epoch."""
        return max(self.wait, EPOCH) / max(self.best_wait, EPOCH)

    @property
    def fails(self) -> tuple[str, ...]:
        """What the rule fails."""
        slow = self.ratio > ANY and self.wait > self.best_wait + EPOCH
        return (*(("short",) if self.kept < KEPT else ()), *(("slow",) if slow else ()))


def judge(family: str, seed: int, target: float) -> JoinVerdict:
    """Run the rule on the streams of a family and a seed."""
    return _judged(family, seed, target, Pairs.of(FAMILIES[family].streams(seed), REACH))


def _judged(family: str, seed: int, target: float, pairs: Pairs) -> JoinVerdict:
    course, since = play(pairs, target), int(pairs.begun[0]) + WARM_UP
    judged = pairs.epoch.max(axis=0) >= since
    share = float(course.made[judged].mean())
    best = 2 * constant(pairs, share, judged)
    wait = float(course.waits[since:].mean())
    return JoinVerdict(family, FAMILIES[family].change, seed, target, share, wait, best)


def join_arena(chosen: Selection, console: Console) -> list[JoinVerdict]:
    """Run the rule over the chosen families, print the tables, and return the verdicts."""
    verdicts = []
    for seed, name in chosen.drawn(FAMILIES):
        pairs = Pairs.of(FAMILIES[name].streams(seed), REACH)
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
