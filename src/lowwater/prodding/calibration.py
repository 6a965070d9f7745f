"""Estimates with intervals that cover the final value with a stated probability.

The estimate follows from theory: rows that are missing are like those that are there (see `Kind`).
How wrong it is, is learned from past pairs of early and final values.

*Yardsticks.* A residual r = final − estimate is measured by a yardstick k · s: the shape s says how
errors should grow with the value, the missing share and the number of rows, the level k is learned
(a decaying power mean of past |r| over that of s). No shape fits every stream: counts of rows that
come independently err by √missing, rates that drift by missing, levels of groups by 1/√rows. So
several compete.

*Quantiles.* Each has the interval [E + q₀·k·s, E + q₁·k·s]. After every window, q is moved by
η·(missed − α/2): the online gradient of the quantile loss, with steps that fall as 1/t to a floor,
so that coverage holds in the long run whatever the stream does (Gibbs & Candès 2021; Angelopoulos,
Candès & Tibshirani 2023).

*Choice.* The interval used is that of the yardstick with the best mean interval score of late,
(high − low) + 2/α · (distance of the final from the interval) (Winkler 1972).

While fewer than `TRUSTED` windows are known, the interval is at least a share of a prior one:
`CAUTION` times what independent rows would give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, TypeAlias

import numpy as np

from lowwater.control.arrived import Floats, Ticks
from lowwater.errors import SpecError
from lowwater.prodding.accuracy import ExpectedAccuracy, accuracy
from lowwater.prodding.positions import TRUSTED, by_position, nearest

Kind: TypeAlias = Literal["scaled", "counted", "level", "rising", "falling", "other"]
"""What is known of a final F, given that the share c of its rows is in and gives `raw`.

scaled (sum): F ≈ raw / c; counted (count): so, and F ≥ raw. level (avg, quantiles, stddev): raw is
as good as any other sample of the rows. rising (max, number of distinct values): F ≥ raw; falling
(min): F ≤ raw. other: nothing.
"""
SCALED = ("scaled", "counted")
KINDS = ("scaled", "counted", "level", "rising", "falling", "other")

CAUTION = 5.0
_FEWEST = 1e-3  # the least share that is believed: else raw / c would be no number
_SHORT, _LONG = 20.0, 2000.0  # half-lives of levels, in windows
_NOTHING = 1e-3  # a missing share that is none
_JUDGED = 0.5 ** (1 / 1000)
_STEP, _FLOOR = 3.0, 0.025
_ONE_TAIL = 0.9
"""Which part of α one tail gets where the other cannot be missed: α gives the stated coverage, α/2
the best interval score; in between both are good."""


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
    """Judges early values and learns from pairs, for each position in the window by itself.

    Its memory is JSON, about 1 kB per aggregate and position that is asked at.
    """

    def __init__(self, kinds: Mapping[str, Kind], coverage: float = 0.9) -> None:
        unknown = [k for k in kinds.values() if k not in KINDS]
        if unknown:
            raise SpecError(f"kind {unknown[0]!r} is unknown; kinds are {', '.join(KINDS)}")
        if not 0 < coverage < 1:
            raise SpecError(f"coverage={coverage!r} must lie between 0 and 1")
        self.learners = {name: _Learner(kind, 1 - coverage) for name, kind in kinds.items()}

    def begin(self) -> dict[str, Any]:
        """Return the memory before the first pair."""
        return {name: {} for name in self.learners}

    def judge(self, memory: Mapping[str, Any], early: Early) -> dict[str, Judged]:
        """Return estimate, interval and expected accuracy of each aggregate of early rows."""
        return {
            name: self._judged(memory[name], learner, _Rows.of(early, name, learner.kind))
            for name, learner in self.learners.items()
        }

    @staticmethod
    def _judged(memory: Mapping[str, Any], learner: _Learner, rows: _Rows) -> Judged:
        found = np.full((4, len(rows.raw)), np.nan)
        for position, places in by_position(rows.missing, np.arange(len(rows.raw))):
            said = learner.judge(nearest(memory, position) or learner.begin(), rows.take(places))
            found[:, places] = said.estimate, said.low, said.high, said.expected_accuracy
        return Judged(*found)

    def learn(self, memory: Mapping[str, Any], pairs: Pairs) -> dict[str, Any]:
        """Return the memory after finals have come; windows are learned from in their order."""
        new = {name: dict(positions) for name, positions in memory.items()}
        for name, learner in self.learners.items():
            rows = _Rows.of(pairs, name, learner.kind)
            final = np.asarray(pairs.final[name], np.float64)
            sound = np.isfinite(rows.estimate) & np.isfinite(final)
            for window in _one_by_one(np.asarray(pairs.window), sound):
                for position, places in by_position(rows.missing, window):
                    chosen = _teaching(places, rows.missing)
                    before = nearest(new[name], position) or learner.begin()
                    new[name][position] = learner.learn(before, rows.take(chosen), final[chosen])
        return new


def _one_by_one(windows: Ticks, sound: np.ndarray) -> Iterator[np.ndarray]:
    """Give the places of the sound rows of each window."""
    places = np.flatnonzero(sound)
    places = places[np.argsort(windows[places], kind="stable")]
    cuts = np.flatnonzero(np.diff(windows[places])) + 1
    yield from (part for part in np.split(places, cuts) if len(part))


def _teaching(places: np.ndarray, missing: Floats) -> np.ndarray:
    """Return the rows that teach: answers that lacked nothing say little about those that did."""
    lacking = places[missing[places] > _NOTHING]
    return lacking if len(lacking) else places


@dataclass(frozen=True, eq=False)
class _Rows:
    """Early values of one aggregate."""

    missing: Floats
    rows: Floats
    raw: Floats
    estimate: Floats

    @classmethod
    def of(cls, early: Early, name: str, kind: Kind) -> _Rows:
        share = np.clip(np.asarray(early.completeness, np.float64), _FEWEST, 1.0)
        raw = np.asarray(early.raw[name], np.float64)
        rows = np.maximum(np.asarray(early.rows, np.float64), 1.0)
        return cls(1 - share, rows, raw, raw / share if kind in SCALED else raw)

    def take(self, chosen: np.ndarray) -> _Rows:
        parts = (self.missing, self.rows, self.raw, self.estimate)
        return _Rows(*(part[chosen] for part in parts))


class _Learner:
    """What is learned of one aggregate. Falling values are rising ones upside down."""

    def __init__(self, kind: Kind, alpha: float) -> None:
        self.kind, self.alpha = kind, alpha
        self.one_sided = kind in {"rising", "falling"}
        self.sign = -1.0 if kind == "falling" else 1.0
        powers = [(0.0, 1.0, None), (0.0,)] if self.one_sided else [(0.0, 0.5, 1.0), (0.0, 0.5)]
        shapes = list(product((0.0, 1.0), *powers))
        self.shapes, self.count = shapes, 2 * len(shapes)
        self.keep = 0.5 ** (1 / np.repeat([_SHORT, _LONG], len(shapes)))
        self.power = 1.0 if self.one_sided else 0.5

    def begin(self) -> dict[str, Any]:
        """Return the memory before the first pair."""
        none = [0.0] * self.count
        low, high = (0.0, 1.25) if self.one_sided else (-2.5, 2.5)
        quantiles = {"low": [low] * self.count, "high": [high] * self.count}
        return {
            "seen": 0,
            "exact": 0.0,
            "fell": 0,
            "errors": none,
            "shapes": none,
            "score": none,
            **quantiles,
            "accuracy": ExpectedAccuracy().begin(),
        }

    def judge(self, memory: Mapping[str, Any], rows: _Rows) -> Judged:
        """Return what is known of rows."""
        lows, highs, _ = self._intervals(memory, rows)
        best = int(np.argmin(memory["score"]))
        low, high = lows[best], highs[best]
        if memory["seen"] < TRUSTED:
            least, most = self._prior(rows, memory["seen"])
            low, high = np.minimum(low, least), np.maximum(high, most)
        low, high = (low, high) if self.sign > 0 else (-high, -low)
        low, high = rows.estimate + low, rows.estimate + high
        whole = rows.missing <= _NOTHING  # then what has arrived is as likely as anything
        low = np.where(whole, np.minimum(low, rows.raw), low)
        high = np.where(whole, np.maximum(high, rows.raw), high)
        if self._adds_up(memory):
            low = np.where(rows.raw >= 0, np.maximum(low, rows.raw), low)
            high = np.maximum(low, high)
        return Judged(
            rows.estimate, low, high, ExpectedAccuracy().at(memory["accuracy"], rows.missing)
        )

    def _adds_up(self, memory: Mapping[str, Any]) -> bool:
        """Return whether finals are not below their part: counts, and sums that never were."""
        proven = memory["seen"] >= TRUSTED and not memory["fell"]
        return self.kind == "counted" or (self.kind == "scaled" and proven)

    def _prior(self, rows: _Rows, seen: int) -> tuple[Floats, Floats]:
        """Return the interval of independent rows, made wider, less so with every window."""
        doubt = CAUTION * max(1 - seen / TRUSTED, 0.0)
        size = np.abs(rows.estimate) + (rows.estimate == 0)
        width = doubt * size * np.sqrt(rows.missing / rows.rows)
        return (np.zeros_like(width) if self.one_sided else -width), width

    def _shape(self, rows: _Rows) -> tuple[Floats, Floats]:
        """Return the shapes of all yardsticks, and what their levels are measured by.

        Size · missing^d · rows^-b. For one-sided values also: a new extreme comes with probability
        `missing` and is then exponential, so its quantile 1 − τ is k · ln(missing / τ).
        """
        size = np.maximum(np.abs(rows.estimate), 1e-12)
        missing = np.maximum(rows.missing, 1e-4)
        tail = np.maximum(np.log(missing / (_ONE_TAIL * self.alpha)), 0.0)
        shapes, measures = [], []
        for of_size, of_missing, of_rows in self.shapes:
            rest = size**of_size * rows.rows**-of_rows
            shapes.append(rest * (tail if of_missing is None else missing**of_missing))
            measures.append(rest * missing ** (1.0 if of_missing is None else of_missing))
        return np.tile(shapes, (2, 1)), np.tile(measures, (2, 1))

    def _intervals(self, memory: Mapping[str, Any], rows: _Rows) -> tuple[Floats, Floats, Floats]:
        """Return the intervals of all yardsticks around the estimate, and the yardsticks."""
        errors, shapes = np.asarray(memory["errors"]), np.asarray(memory["shapes"])
        level = (errors / np.maximum(shapes, 1e-300)) ** (1 / self.power)
        yard = level[:, None] * self._shape(rows)[0]
        low, high = (np.asarray(memory[side])[:, None] for side in ("low", "high"))
        return yard * low, yard * high, yard

    def learn(self, memory: Mapping[str, Any], rows: _Rows, final: Floats) -> dict[str, Any]:
        """Return the memory after one window more, of one or many rows."""
        seen, residual = memory["seen"] + 1, self.sign * (final - rows.estimate)
        news: dict[str, Any] = {}
        if memory["seen"]:
            lows, highs, yard = self._intervals(memory, rows)
            outside = np.maximum(lows - residual, 0) + np.maximum(residual - highs, 0)
            score = np.mean(highs - lows + 2 / self.alpha * outside, axis=1)
            if seen <= TRUSTED:  # a first value of 0 makes no level: it must not decide for long
                score = np.minimum(score, 10 * np.quantile(score, 0.25))
            before = np.asarray(memory["score"])
            news["score"] = before + (score - before) / _counted(seen - 1, _JUDGED)
            live = yard > 0
            below, above = live & (residual < lows), live & (residual > highs)
            news |= self._moved(memory, below.mean(1), above.mean(1), live.mean(1))
        norms = np.mean(self._shape(rows)[1] ** self.power, axis=1)
        news["errors"] = self.keep * memory["errors"] + np.mean(np.abs(residual) ** self.power)
        news["shapes"] = self.keep * memory["shapes"] + norms
        exact = memory["exact"] + (np.mean(residual == 0) - memory["exact"]) / min(seen, 200)
        expected = ExpectedAccuracy().learn(
            memory["accuracy"], rows.missing, accuracy(rows.estimate, final)
        )
        kept = {name: [float(f"{v:.6g}") for v in values] for name, values in news.items()}
        fell = memory["fell"] + int(np.sum(final < rows.raw))
        counts = {"seen": seen, "fell": fell, "exact": float(exact)}
        return {**memory, **kept, **counts, "accuracy": expected}

    def _moved(
        self, memory: Mapping[str, Any], below: Floats, above: Floats, live: Floats
    ) -> dict[str, Floats]:
        """Return the quantiles after a step against what was missed on either side."""
        low, high = np.asarray(memory["low"]), np.asarray(memory["high"])
        step = max(_STEP / (memory["seen"] + 10), _FLOOR) * np.maximum(high - low, 0.25)
        half = self.alpha / 2
        # Where a raw value is often final itself, the lower end is the raw value.
        bounded = self.one_sided and memory["exact"] >= half
        tail = _ONE_TAIL * self.alpha if bounded else half
        high = high + step * (above - tail * live)
        low = low - step * (below - half * live)
        if self.one_sided:
            low = np.zeros_like(low) if bounded else np.maximum(low, 0.0)
        return {"low": low, "high": np.maximum(high, low)}


def _counted(times: int, fade: float) -> float:
    """Return how many lessons a fading mean is of after some."""
    return (1 - fade**times) / (1 - fade)
