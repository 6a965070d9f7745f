"""Estimates of final values, and intervals that contain the finals with a stated probability.

An estimate assumes that missing rows are like arrived rows (see `Kind`). An interval is learned
from past pairs of early and final values (`intervals`). Answers (early results) that lack almost no
rows are one *regime*, and all other answers are another. Regimes are learned separately.

The stated probability holds for all answers together, not for each regime. If answers that lack
almost no rows nearly always equal their finals, the intervals of the other answers may miss more
finals than stated: a share of at most `LEAVE` · (1 − stated probability) of these answers' finals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from lowwater.control.completeness import Floats, Ticks
from lowwater.early.calibration.early_rows import KINDS, EarlyRows, Kind, by_regime
from lowwater.early.calibration.intervals import NOTHING, IntervalMemory, Learner
from lowwater.errors import SpecError

LEAVE = 1.25

Regimes: TypeAlias = dict[str, IntervalMemory]
"""The memory of one aggregate: {regime: memory}."""
Calibration: TypeAlias = dict[str, Regimes]
"""The memory of a calibrator: {aggregate: {regime: memory}}."""


@dataclass(frozen=True, eq=False)
class EarlyValues:
    """Early results: the share and the number of arrived rows, and the value of each aggregate.

    `window` identifies the window of each result, for example by its end; all groups of a window
    are learned together. Missing values are NaN.
    """

    window: Ticks
    completeness: Floats
    rows: Floats
    raw: Mapping[str, Floats]


@dataclass(frozen=True, eq=False)
class EarlyFinalPairs(EarlyValues):
    """Early results with their final values."""

    final: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Estimate:
    """For each early result, the estimate, interval and expected accuracy; NaN if unknown."""

    estimate: Floats
    low: Floats
    high: Floats
    expected_accuracy: Floats


class Calibrator:
    """A component that estimates final values, and learns from pairs of early and final values.

    The memory of a calibrator takes 1 to 4 kB of JSON per aggregate.
    """

    def __init__(self, kinds: Mapping[str, Kind], coverage: float = 0.9) -> None:
        unknown = [k for k in kinds.values() if k not in KINDS]
        if unknown:
            raise SpecError(f"kind {unknown[0]!r} is unknown; write one of {', '.join(KINDS)}")
        if not 0 < coverage < 1:
            raise SpecError(f"coverage={coverage!r} must be between 0 and 1, for example 0.9")
        self.learners = {name: Learner(kind, 1 - coverage) for name, kind in kinds.items()}

    def begin(self) -> Calibration:
        """Return the initial memory, before any pair of early and final values is learned."""
        return {name: {} for name in self.learners}

    def judge(self, memory: Calibration, early: EarlyValues) -> dict[str, Estimate]:
        """Return {aggregate: estimates of the finals of `early`}."""
        return {
            name: self._judged(memory[name], learner, _rows(early, name, learner.kind))
            for name, learner in self.learners.items()
        }

    @staticmethod
    def _judged(memory: Regimes, learner: Learner, rows: EarlyRows) -> Estimate:
        judged = np.full((4, len(rows.raw)), np.nan)
        for regime, places in by_regime(rows.missing, np.arange(len(rows.raw))):
            known = _known(memory, regime) or learner.begin()
            judged[1:, places] = learner.judge(known, rows.take(places))
        judged[0] = rows.estimate
        return Estimate(*judged)

    def learn(self, memory: Calibration, pairs: EarlyFinalPairs) -> Calibration:
        """Return the memory after learning from `pairs`, window by window."""
        new = {name: dict(regimes) for name, regimes in memory.items()}
        for name, learner in self.learners.items():
            rows = _rows(pairs, name, learner.kind)
            final = np.asarray(pairs.final[name], np.float64)
            sound = np.isfinite(rows.estimate) & np.isfinite(final)
            for window in _one_by_one(np.asarray(pairs.window), sound):
                for regime, places in by_regime(rows.missing, window):
                    chosen = _teaching(places, rows.missing)
                    before = _known(new[name], regime) or learner.begin()
                    leave, some = _leave(new[name], learner.alpha), rows.take(chosen)
                    new[name][regime] = last = learner.learn(before, some, final[chosen], leave)
                # The regime with the most missing rows is last, and had the window's first answer.
                new[name][regime] = replace(last, first=last.first + 1)
        return new


def _one_by_one(windows: Ticks, sound: np.ndarray) -> Iterator[np.ndarray]:
    """Yield, window by window, the indexes of the rows for which `sound` is true."""
    places = np.flatnonzero(sound)
    places = places[np.argsort(windows[places], kind="stable")]
    cuts = np.flatnonzero(np.diff(windows[places])) + 1
    yield from (part for part in np.split(places, cuts) if len(part))


def _teaching(places: np.ndarray, missing: Floats) -> np.ndarray:
    """Return the indexes in `places` whose missing share is at least half of the largest one."""
    most = missing[places].max()
    return places[missing[places] >= most / 2] if most > NOTHING else places


def _known(regimes: Mapping[str, IntervalMemory], regime: str) -> IntervalMemory | None:
    """Return the memory of `regime`, or else a copy of the other regime's memory, or else None."""
    if regime in regimes or not regimes:
        return regimes.get(regime)
    return next(iter(regimes.values())).borrowed()


def _leave(regimes: Mapping[str, IntervalMemory], alpha: float) -> float:
    """Return the factor (1 to `LEAVE`) by which intervals may miss more finals than stated.

    A window may have many answers. It is counted once, in the regime of its first answer.
    """
    every = sum(known.first for known in regimes.values())
    right = [known for known in regimes.values() if known.exact > 1 - alpha]
    sure = sum(known.first for known in right)
    if sure == every:
        return 1.0
    missed = sum(known.first * (1 - known.exact) for known in right)
    return float(np.clip((every - missed / alpha) / (every - sure), 1.0, LEAVE))


def _rows(early: EarlyValues, name: str, kind: Kind) -> EarlyRows:
    """Return the early values of aggregate `name`."""
    parts = (early.completeness, early.rows, early.raw[name])
    share, rows, raw = (np.asarray(part, np.float64) for part in parts)
    return EarlyRows.of(share, rows, raw, kind)
