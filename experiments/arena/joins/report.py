"""The table of the arena of joins: each pair of streams, beside the best constant slack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.arena.joins.families import FAMILIES, Change
from experiments.arena.joins.hindsight import (
    after_changes,
    changes,
    constant,
    two_constants,
    worst_regime,
)
from experiments.arena.joins.simulate import Pairs, play
from experiments.arena.report import empty_table
from experiments.arena.selection import Selection
from experiments.arena.verdict import ANY, CHANGING, KEPT, LONG, STEADY, TARGETS

WARM_UP, LEARNT = 60, 80
"""The epochs that are not judged, and the pairs; of these, at most a tenth of the stream."""
FEWEST = 200
"""A stream is judged if it has this many pairs: of fewer, one pair is more than the tolerance."""
REACH = 500_000
"""Rows join if their times are at most so far apart, in ticks."""


@dataclass(frozen=True)
class JoinVerdict:
    """The rule of joins under one target, on one pair of streams.

    - `wait`: The mean sum of the slacks of both sides, in ticks.
    - `best_wait`: That of the smallest constant slack of both sides that makes no fewer pairs.
    - `best_two`: That of the best two constant slacks, one for each side.
    - `epoch`: The length of an epoch, in ticks.
    - `pairs`, `judged`: The number of pairs, and whether these and the stream are long enough.
    - `changes`, `after`, `after_pairs`: The number of changes, and the share of pairs that was made
      in the first epochs after them, with their number.
    - `worst`: The least share of pairs that was made between two changes.
    """

    family: str
    change: Change
    seed: int
    target: float
    completeness: float
    wait: float
    best_wait: float
    best_two: float
    epoch: int
    pairs: int
    judged: bool
    changes: int
    after: float
    after_pairs: int
    worst: float

    @property
    def kept(self) -> float:
        """Completeness by target."""
        return self.completeness / self.target

    @property
    def ratio(self) -> float:
        """Wait by the wait of the best constant; a wait below an epoch counts as one epoch."""
        return max(self.wait, self.epoch) / max(self.best_wait, self.epoch)

    @property
    def ratio_of_two(self) -> float:
        """Wait by the wait of the best two constants."""
        return max(self.wait, self.epoch) / max(self.best_two, self.epoch)

    @property
    def fails(self) -> tuple[str, ...]:
        """What the rule fails."""
        slow = self.pairs >= FEWEST and self.ratio > ANY and self.wait > self.best_wait + self.epoch
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
    course, since, moments = play(pairs, target), first_judged(pairs), changes(pairs)
    epoch = pairs.epoch.max(axis=0)
    judged = epoch >= since
    made, epoch = course.made[judged], epoch[judged]
    share, after = float(made.mean()), after_changes(moments, epoch)
    least = constant(pairs, target, judged)
    long = (len(pairs.newest[0]) - since) * pairs.length >= LONG * least
    return JoinVerdict(
        family,
        FAMILIES[family].change,
        seed,
        target,
        share,
        float(course.waits[since:].mean()),
        2 * constant(pairs, share, judged),
        sum(two_constants(pairs, share, judged)),
        pairs.length,
        len(made),
        bool(long and len(made) >= FEWEST),
        sum(one >= since for one in moments),
        float(made[after].mean()) if after.any() else 1.0,
        int(after.sum()),
        worst_regime(moments, epoch, made),
    )


def first_judged(pairs: Pairs) -> int:
    """Return the first epoch that is judged."""
    begun, last = int(pairs.begun[0]), len(pairs.newest[0])
    found = np.sort(pairs.epoch.max(axis=0))
    learnt = int(found[min(LEARNT, len(found) - 1)])
    return max(begun + WARM_UP, min(learnt, last // 10))


def join_arena(chosen: Selection, console: Console) -> list[JoinVerdict]:
    """Run the rule over the chosen families, print the tables, and return the verdicts."""
    verdicts = []
    for seed, name in chosen.drawn(FAMILIES):
        pairs = pairs_of(name, seed)
        verdicts += [_judged(name, seed, target, pairs) for target in TARGETS]
    console.print(_table(verdicts))
    for change, most in (("steady", STEADY), ("changing", CHANGING)):
        mine = [v for v in verdicts if v.change == change]
        if not mine:
            continue
        ratio, two = mean_ratio(mine), _mean([v.ratio_of_two for v in mine])
        text = f"joins, {change}: wait ÷ best {ratio:.3f} in the mean, at most {most:g}"
        console.print(f"{text}; by two slacks in hindsight {two:.3f}, not judged")
        for target in TARGETS:
            same = [v for v in mine if v.target == target]
            number = max(sum(v.after_pairs for v in same), 1)
            after = sum(v.after * v.after_pairs for v in same) / number / target
            moments = sum(v.changes for v in same)
            console.print(f"  {target:g}: kept {after:.3f} just after {moments} changes")
    return verdicts


def _table(verdicts: Sequence[JoinVerdict]) -> Table:
    names = "kept", "wait, s", "wait ÷ best", "÷ best two", "after changes", "worst regime"
    table = empty_table("joins", "", "seed", "target", "pairs", *names, "fails")
    for v in verdicts:
        kept = f"{v.kept:.3f}" if v.judged else f"({v.kept:.3f})"
        after = f"{v.after / v.target:.3f} of {v.changes}" if v.changes else ""
        waits = f"{v.wait / 1e6:.2f}", f"{v.ratio:.2f}", f"{v.ratio_of_two:.2f}"
        worst = f"{v.worst / v.target:.3f}" if v.changes else ""
        figures = str(v.pairs), kept, *waits, after, worst, ", ".join(v.fails)
        table.add_row(v.family, v.change, str(v.seed), f"{v.target:g}", *figures)
    return table


def mean_ratio(verdicts: Sequence[JoinVerdict]) -> float:
    """Return the geometric mean of the ratios of waits."""
    return _mean([v.ratio for v in verdicts])


def _mean(ratios: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios))))
