"""What is learned of the early results of an operator: how far off they are, and how often.

Early results are remembered until their finals come (`pairing`); pairs teach the intervals
(`calibration`) and the running accuracy (`accuracy`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lowwater.prodding.accuracy import Judge, RunningAccuracy, judged
from lowwater.prodding.calibration import Calibrator, Early, Judged, Kind, Pairs
from lowwater.prodding.pairing import Pairing, Waiting

Memory = Mapping[str, Any]
SECOND = 1_000_000


@dataclass(frozen=True)
class Learning:
    """What is learned of one operator: `kinds` names its aggregates that are numbers."""

    kinds: Mapping[str, Kind]
    coverage: float = 0.9
    accuracy: Judge | None = None

    @cached_property
    def calibrator(self) -> Calibrator:
        """What learns the intervals."""
        return Calibrator(self.kinds, self.coverage)

    def begin(self) -> dict[str, Any]:
        """Return what is known before the first early result."""
        return {
            "pairing": Pairing().begin(),
            "calibration": self.calibrator.begin(),
            "accuracy": {name: RunningAccuracy().begin() for name in self.kinds},
        }

    def judge(self, memory: Memory, early: Early) -> dict[str, Judged]:
        """Return estimates of finals, and how far they can be trusted."""
        return self.calibrator.judge(memory["calibration"], early)

    def advance(
        self,
        memory: Memory,
        finals: Mapping[str, Sequence[float]],
        early: Sequence[Waiting],
        now: int,
    ) -> tuple[dict[str, Any], list[tuple[float, float]]]:
        """Return what is known after an epoch, and of each window the lead and the accuracy.

        The lead is how far ahead of its window's end an early result was, in slides; the accuracy
        that of the aggregate that was furthest off, in the mean over groups.
        """
        pairing = Pairing()
        pairs, waiting = pairing.finals(memory["pairing"], finals)
        kept = {**memory, "pairing": pairing.remember(memory["pairing"], waiting, early)}
        if not pairs:
            return kept, []
        told, final = [w for w, _ in pairs], np.array([f for _, f in pairs], np.float64)
        by_name = {name: final[:, i] for i, name in enumerate(self.kinds)}
        kept["calibration"] = self.calibrator.learn(memory["calibration"], _pairs(told, by_name))
        between = [(now - w["at"]) / SECOND for w in told]
        running, found = {}, []
        for name in self.kinds:
            said = [w["said"][name] for w in told]
            right = judged(said, by_name[name].tolist(), between, self.accuracy)
            groups = [w["group"] for w in told]
            running[name] = RunningAccuracy().advance(memory["accuracy"][name], right, groups)
            found.append(right)
        kept["accuracy"] = running
        return kept, _by_window(told, np.array(found))


def _by_window(told: Sequence[Waiting], accuracies: np.ndarray) -> list[tuple[float, float]]:
    """Return the lead and the accuracy of each answer to a window, in the order of windows."""
    places: dict[tuple[int, int], list[int]] = {}
    for place, w in enumerate(told):
        places.setdefault((w["window"], w["at"]), []).append(place)
    return [
        (told[some[0]]["lead"], float(accuracies[:, some].mean(axis=1).min()))
        for _, some in sorted(places.items())
    ]


def _pairs(told: Sequence[Waiting], finals: Mapping[str, np.ndarray]) -> Pairs:
    return Pairs(
        np.array([w["window"] for w in told], np.int64),
        np.array([w["share"] for w in told], np.float64),
        np.array([w["rows"] for w in told], np.float64),
        {name: np.array([w["raw"][name] for w in told], np.float64) for name in finals},
        finals,
    )
