"""The learner of an operator's early results: predictive distributions and running accuracy.

Early results wait in a sample for their finals, because the control log cannot hold all of them. A
hash of the group keys selects groups, so that the sample has all windows of a selected group. If
the sample has too many groups, half of the groups are removed; if `FEWEST_GROUPS` groups or fewer
have too many windows, half of the windows are removed. If a window has several answers with missing
shares of one class (`POSITIONS`), the sample has only the first answer, which lacks the most rows.
Pairs of early and final values update the predictive distributions (`calibrator`) and the running
accuracy (`accuracy`). They are learned in the order of their windows and groups, so the memory does
not depend on the number or the order of tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from lowwater.control.measures import WaitingResult
from lowwater.early.accuracy import Judge, RunningAccuracy, judged
from lowwater.early.calibration.calibrator import (
    Calibration,
    Calibrator,
    EarlyFinalPairs,
    EarlyValues,
    Estimate,
)
from lowwater.early.calibration.early_rows import Kind, position_of
from lowwater.early.calibration.groups import SLOTS

SECOND = 1_000_000
MOST_GROUPS = 64
MOST_WAITING = 384
FEWEST_GROUPS = 32
HASHES = 1 << 30


@dataclass(frozen=True)
class SampleMemory:
    """Early results that wait for finals: 1 of 2^`level` groups and 1 of 2^`thin` windows."""

    VERSION: ClassVar[int] = 1

    level: int = 0
    thin: int = 0
    waiting: tuple[WaitingResult, ...] = ()

    @property
    def limit(self) -> int:
        """The upper limit of hashes; groups with smaller hashes are in the sample."""
        return HASHES >> self.level

    def slots(self, hashes: np.ndarray) -> np.ndarray:
        """Return the slot of each group by its hash; -1 for groups outside the sample.

        >>> SampleMemory(level=1).slots(np.array([5, SLOTS + 5, HASHES - 1])).tolist()
        [5, 5, -1]
        """
        return np.where(hashes < self.limit, hashes % SLOTS, -1)

    def paired(
        self, finals: Mapping[str, Sequence[float]]
    ) -> tuple[list[tuple[WaitingResult, Sequence[float]]], list[WaitingResult]]:
        """Return the pairs (waiting result, its finals), and the waiting results without finals."""
        pairs = [(w, finals[w.key]) for w in self.waiting if w.key in finals]
        return pairs, [w for w in self.waiting if w.key not in finals]

    def with_results(
        self, waiting: Sequence[WaitingResult], early: Sequence[WaitingResult]
    ) -> SampleMemory:
        """Return a sample of `waiting` (results that still wait) and `early` (new results)."""
        level, thin = self.level, self.thin
        first: dict[tuple[str, int], WaitingResult] = {}
        for one in [*waiting, *sorted(early, key=lambda w: (w.wid, w.key, w.share))]:
            first.setdefault((one.key, position_of(one.share)), one)
        sample = _sampled(first.values(), level, thin)
        while len(_groups(sample)) > MOST_GROUPS or len(sample) > MOST_WAITING:
            if len(_groups(sample)) > FEWEST_GROUPS:
                level += 1
            else:
                thin += 1
            sample = _sampled(sample, level, thin)
        return SampleMemory(level, thin, tuple(sample))


@dataclass(frozen=True)
class LearnerMemory:
    """The sample of waiting results, the calibration, and {aggregate: running accuracy}."""

    VERSION: ClassVar[int] = 2

    sample: SampleMemory = field(default_factory=SampleMemory)
    calibration: Calibration = field(default_factory=Calibration)
    accuracy: dict[str, RunningAccuracy] = field(default_factory=dict)


@dataclass(frozen=True)
class OperatorLearner:
    """A learner of one operator's early results; `kinds` has the kind of each numeric aggregate."""

    kinds: Mapping[str, Kind]
    coverage: float = 0.9
    accuracy: Judge | None = None

    @cached_property
    def calibrator(self) -> Calibrator:
        """The calibrator of the estimates."""
        return Calibrator(self.kinds, self.coverage)

    def begin(self) -> LearnerMemory:
        """Return the memory before the first early result."""
        accuracy = {name: RunningAccuracy() for name in self.kinds}
        return LearnerMemory(SampleMemory(), self.calibrator.begin(), accuracy)

    def judge(self, memory: LearnerMemory, early: EarlyValues) -> dict[str, Estimate]:
        """Return {aggregate: estimates of the finals of `early`}."""
        return self.calibrator.judge(memory.calibration, early)

    def advance(
        self,
        memory: LearnerMemory,
        finals: Mapping[str, Sequence[float]],
        early: Sequence[WaitingResult],
        now: int,
    ) -> tuple[LearnerMemory, list[tuple[float, float]]]:
        """Return the memory after an epoch, and (lead, accuracy) of each answer with finals.

        The lead is the time from the early result to the end of its window, in slides. The accuracy
        of an answer is the mean over its groups, for the aggregate with the smallest mean.
        """
        pairs, waiting = memory.sample.paired(finals)
        memory = replace(memory, sample=memory.sample.with_results(waiting, early))
        if not pairs:
            return memory, []
        results, values = [w for w, _ in pairs], np.array([f for _, f in pairs], np.float64)
        by_name = {name: values[:, i] for i, name in enumerate(self.kinds)}
        calibration = self.calibrator.learn(
            memory.calibration, _pairs(results, by_name, memory.sample)
        )
        between = [(now - w.at) / SECOND for w in results]
        groups = [w.group for w in results]
        running, accuracies = {}, []
        for name in self.kinds:
            emitted = [w.said[name] for w in results]
            accuracy = judged(emitted, by_name[name].tolist(), between, self.accuracy)
            running[name] = memory.accuracy[name].advance(accuracy, groups)
            accuracies.append(accuracy)
        after = replace(memory, calibration=calibration, accuracy=running)
        return after, _by_window(results, np.array(accuracies))


def _by_window(
    results: Sequence[WaitingResult], accuracies: np.ndarray
) -> list[tuple[float, float]]:
    """Return (lead, accuracy) of each answer to a window, in the order of windows."""
    places: dict[tuple[int, int], list[int]] = {}
    for place, one in enumerate(results):
        places.setdefault((one.window, one.at), []).append(place)
    return [
        (results[some[0]].lead, float(accuracies[:, some].mean(axis=1).min()))
        for _, some in sorted(places.items())
    ]


def _pairs(
    results: Sequence[WaitingResult], finals: Mapping[str, np.ndarray], sample: SampleMemory
) -> EarlyFinalPairs:
    return EarlyFinalPairs(
        np.array([w.window for w in results], np.int64),
        sample.slots(np.array([w.hash for w in results], np.int64)),
        np.array([w.share for w in results], np.float64),
        np.array([w.rows for w in results], np.float64),
        {name: np.array([w.raw[name] for w in results], np.float64) for name in finals},
        finals,
        {name: np.array([w.said[name] for w in results], np.float64) for name in finals},
    )


def _groups(waiting: Iterable[WaitingResult]) -> set[int]:
    return {w.hash for w in waiting}


def _sampled(waiting: Iterable[WaitingResult], level: int, thin: int) -> list[WaitingResult]:
    """Return the results whose groups and windows are in the sample."""
    groups, windows = HASHES >> level, 1 << thin
    return [w for w in waiting if w.hash < groups and w.wid % windows == 0]
