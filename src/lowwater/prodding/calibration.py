"""Estimates with intervals that cover the final value with a stated probability.

The estimate follows from theory: rows that are missing are like those that are there (see `Kind`).
How wrong it is, is learned from past pairs of early and final values (`intervals`), of answers that
lacked something and of those that lacked next to nothing apart.

The stated probability is that of all answers together. Where nearly all that lacked nothing are
right, as they must be, the others may be wrong a little more often: `LEAVE` times, at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowwater.control.arrived import Floats, Ticks
from lowwater.errors import SpecError
from lowwater.prodding.intervals import KINDS, NOTHING, SCALED, Kind, Learner, Rows
from lowwater.prodding.positions import by_regime, nearest

__all__ = ["KINDS", "SCALED", "Calibrator", "Early", "Judged", "Kind", "Pairs"]
LEAVE = 1.25


@dataclass(frozen=True, eq=False)
class Early:
    """Early rows: the share that has arrived, the rows in it, the value per aggregate.

    `window` tells windows apart (say, their ends): all groups of a window are one lesson. Values
    that are missing are NaN.
    """

    window: Ticks
    completeness: Floats
    rows: Floats
    raw: Mapping[str, Floats]


@dataclass(frozen=True, eq=False)
class Pairs(Early):
    """Early rows whose finals are known. Only what `Early` has must be kept until then."""

    final: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Judged:
    """What is said of one aggregate in early rows; NaN only where the raw value is."""

    estimate: Floats
    low: Floats
    high: Floats
    expected_accuracy: Floats


class Calibrator:
    """Judges early values and learns from pairs.

    Its memory is JSON, 1 to 2 kB per aggregate, or twice that.
    """

    def __init__(self, kinds: Mapping[str, Kind], coverage: float = 0.9) -> None:
        unknown = [k for k in kinds.values() if k not in KINDS]
        if unknown:
            raise SpecError(f"kind {unknown[0]!r} is unknown; kinds are {', '.join(KINDS)}")
        if not 0 < coverage < 1:
            raise SpecError(f"coverage={coverage!r} must lie between 0 and 1")
        self.learners = {name: Learner(kind, 1 - coverage) for name, kind in kinds.items()}

    def begin(self) -> dict[str, Any]:
        """Return the memory before the first pair."""
        return {name: {} for name in self.learners}

    def judge(self, memory: Mapping[str, Any], early: Early) -> dict[str, Judged]:
        """Return estimate, interval and expected accuracy of each aggregate of early rows."""
        return {
            name: self._judged(memory[name], learner, _rows(early, name, learner.kind))
            for name, learner in self.learners.items()
        }

    @staticmethod
    def _judged(memory: Mapping[str, Any], learner: Learner, rows: Rows) -> Judged:
        found = np.full((4, len(rows.raw)), np.nan)
        for regime, places in by_regime(rows.missing, np.arange(len(rows.raw))):
            known = nearest(memory, regime) or learner.begin()
            found[1:, places] = learner.judge(known, rows.take(places))
        found[0] = rows.estimate
        return Judged(*found)

    def learn(self, memory: Mapping[str, Any], pairs: Pairs) -> dict[str, Any]:
        """Return the memory after finals have come; windows are learned from in their order."""
        new = {name: dict(regimes) for name, regimes in memory.items()}
        for name, learner in self.learners.items():
            rows = _rows(pairs, name, learner.kind)
            final = np.asarray(pairs.final[name], np.float64)
            sound = np.isfinite(rows.estimate) & np.isfinite(final)
            for window in _one_by_one(np.asarray(pairs.window), sound):
                for regime, places in by_regime(rows.missing, window):
                    chosen = _teaching(places, rows.missing)
                    before = nearest(new[name], regime) or learner.begin()
                    leave = _leave(new[name], learner.alpha)
                    new[name][regime] = last = learner.learn(
                        before, rows.take(chosen), final[chosen], leave
                    )
                # The most that was missing comes last, and was in the window's first answer.
                last["first"] += 1
        return new


def _one_by_one(windows: Ticks, sound: np.ndarray) -> Iterator[np.ndarray]:
    """Give the places of the sound rows of each window."""
    places = np.flatnonzero(sound)
    places = places[np.argsort(windows[places], kind="stable")]
    cuts = np.flatnonzero(np.diff(windows[places])) + 1
    yield from (part for part in np.split(places, cuts) if len(part))


def _teaching(places: np.ndarray, missing: Floats) -> np.ndarray:
    """Return the rows that teach: of a window, not those that lacked far less than others."""
    most = missing[places].max()
    return places[missing[places] >= most / 2] if most > NOTHING else places


def _leave(regimes: Mapping[str, Any], alpha: float) -> float:
    """Return how many times the stated share may be missed where anything is missed at all.

    Windows count, by their first answers: of later ones there may be any number.
    """
    every = sum(known["first"] for known in regimes.values())
    right = [known for known in regimes.values() if known["exact"] > 1 - alpha]
    sure = sum(known["first"] for known in right)
    if sure == every:
        return 1.0
    missed = sum(known["first"] * (1 - known["exact"]) for known in right)
    return float(np.clip((every - missed / alpha) / (every - sure), 1.0, LEAVE))


def _rows(early: Early, name: str, kind: Kind) -> Rows:
    """Return the early values of one aggregate."""
    share, rows, raw = (
        np.asarray(v, np.float64) for v in (early.completeness, early.rows, early.raw[name])
    )
    return Rows.of(share, rows, raw, kind)
