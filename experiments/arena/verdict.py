"""Verdicts: a rule beside the best constant in hindsight, stream by stream and in the mean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from experiments.arena.clairvoyant import least_wait
from experiments.arena.constants import Constants
from experiments.arena.incidence import Incidences
from experiments.arena.simulate import Course, MakeRule, Simulation
from experiments.arena.stream import ArenaStream, Change, Split

TARGETS = (0.9, 0.95, 0.99)
WARM_UP = 20
"""The windows that are not judged, at most a tenth of the stream."""
LONG = 20
"""A stream is judged if it is this many times as long as the slack that its target needs."""
KEPT, STEADY, CHANGING, ANY = 0.995, 1.15, 0.8, 1.5
"""The least completeness by target, and the longest waits by that of the best constant."""


@dataclass(frozen=True)
class Verdict:
    """One rule under one target on one stream.

    Attributes
    ----------
    completeness
        The share of rows that were in time for their windows, after the warm-up.
    warm_up
        The same in the windows of the warm-up.
    wait, best_wait
        The mean wait of the windows, and that of the smallest constant slack that loses no more,
        in ticks.
    judged
        Whether the stream is long enough for the target.
    """

    stream: str
    split: Split
    change: Change
    rule: str
    target: float
    completeness: float
    warm_up: float
    wait: float
    best_wait: float
    epoch: int
    judged: bool

    @property
    def kept(self) -> float:
        """Completeness by target."""
        return self.completeness / self.target

    @property
    def ratio(self) -> float:
        """Wait by the wait of the best constant."""
        return self.wait / self.best_wait if self.best_wait > 0 else 1.0

    @property
    def fails(self) -> list[str]:
        """What does not hold, in a word each."""
        short = self.judged and self.kept < KEPT
        long = self.ratio > ANY and self.wait - self.best_wait > self.epoch
        return ["short"] * short + ["slow"] * long


def judge(sim: Simulation, rule: str, target: float, course: Course) -> Verdict:
    """Return the verdict on the course of a rule."""
    stream, found = sim.stream, sim.incidences
    first = min(WARM_UP, len(found.ends) // 10)
    judged = np.arange(len(found.ends)) >= first
    mine = judged[found.window]
    constants = Constants.of(stream, found, judged)
    kept = _share_in_time(found, course, mine)
    needs = constants.least(target)
    return Verdict(
        stream.name,
        stream.split,
        stream.change,
        rule,
        target,
        kept,
        _share_in_time(found, course, ~mine),
        float(course.wait[judged].mean()),
        constants.wait(constants.least(kept)),
        stream.epoch,
        bool(found.ends[-1] - found.ends[0] >= LONG * needs),
    )


def bound(sim: Simulation, target: float) -> Verdict:
    """Return the verdict on a rule that knows all arrivals and loses as many rows as allowed."""
    stream, found = sim.stream, sim.incidences
    judged = np.arange(len(found.ends)) >= min(WARM_UP, len(found.ends) // 10)
    constants = Constants.of(stream, found, judged)
    reached = max(target, float(constants.completeness[0]))
    best = constants.wait(constants.least(reached))
    wait = least_wait(sim, judged, reached)
    names = (stream.name, stream.split, stream.change, "clairvoyant")
    return Verdict(*names, target, reached, 1.0, wait, best, stream.epoch, judged=True)


def _share_in_time(found: Incidences, course: Course, some: np.ndarray) -> float:
    """Return the share of the rows of some incidences that were in time; 1 if there are none."""
    rows = found.count[some].sum()
    return float(1 - found.count[some & course.late].sum() / rows) if rows else 1.0


def judge_all(streams: Iterable[ArenaStream], rules: dict[str, MakeRule]) -> list[Verdict]:
    """Run all rules under all targets over all streams; add the bound of any rule."""
    verdicts = []
    for stream in streams:
        sim = Simulation(stream)
        for name, make in rules.items():
            for target in TARGETS:
                course = sim.run(make(target, stream))
                verdicts.append(judge(sim, name, target, course))
        verdicts.extend(bound(sim, target) for target in TARGETS)
    return verdicts


def mean_ratio(verdicts: Iterable[Verdict]) -> float:
    """Return the geometric mean of the ratios of waits; NaN of nothing."""
    ratios = [max(v.ratio, 1e-3) for v in verdicts]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")
