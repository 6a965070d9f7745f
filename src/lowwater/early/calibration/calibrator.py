"""One predictive distribution for each early value, learned from pairs of early and final values.

For each early value the distribution of its final has two parts: the probability that nothing
changes any more (`settled`), and the distribution of the final given that it changes
(`distribution`). `low` and `high` are quantiles of the whole. The estimate is its median, or the
raw or completed value where that has the better record (`competition`), moved into the interval. So
low ≤ estimate ≤ high. Classes of groups share their errors (`groups`): small groups
borrow from all others, large ones stand alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from lowwater.control.completeness import Floats, Ticks
from lowwater.early.accuracy import ExpectedAccuracy, accuracy
from lowwater.early.calibration import competition, finality
from lowwater.early.calibration.competition import Cell
from lowwater.early.calibration.distribution import DistributionMemory
from lowwater.early.calibration.early_rows import KINDS, SCALED, WHOLE, Kind
from lowwater.early.calibration.finality import Guess
from lowwater.early.calibration.groups import GroupMemory, GroupView, Slots
from lowwater.early.calibration.interval_ends import EndsMemory
from lowwater.early.calibration.ways import Basis
from lowwater.errors import SpecError
from lowwater.learners.whole_numbers import Counts, WholeNumbers, counts_of

CAUTION = 0.1
"""The share by which the tails of intervals are shorter than stated: they promise a least level."""
_NEVER_FELL = 20
"""The number of windows after which a sum that never fell is trusted to grow."""


@dataclass(frozen=True)
class ValueMemory:
    """The memory of one aggregate.

    `windows` counts the windows learned, `fell` the finals below their early values.
    """

    VERSION: ClassVar[int] = 1

    distribution: DistributionMemory = field(default_factory=DistributionMemory)
    settled: WholeNumbers | None = None
    estimates: WholeNumbers | None = None
    ends: EndsMemory = field(default_factory=EndsMemory)
    windows: int = 0
    fell: int = 0
    accuracy: ExpectedAccuracy = field(default_factory=ExpectedAccuracy)


@dataclass(frozen=True)
class Calibration:
    """The memory of a calibrator: of the groups, and of each aggregate."""

    VERSION: ClassVar[int] = 1

    groups: GroupMemory = field(default_factory=GroupMemory)
    values: Mapping[str, ValueMemory] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class EarlyValues:
    """Early results: the share and the number of arrived rows, and the value of each aggregate.

    `slot` is the group's slot (`groups`), or -1 for a group of which nothing is kept. Missing
    values are NaN.
    """

    window: Ticks
    slot: Ticks
    completeness: Floats
    rows: Floats
    raw: Mapping[str, Floats]


@dataclass(frozen=True, eq=False)
class EarlyFinalPairs(EarlyValues):
    """Early results with their final values, and the estimates that were emitted."""

    final: Mapping[str, Floats] = field(default_factory=dict)
    said: Mapping[str, Floats] = field(default_factory=dict)

    def twice(self) -> EarlyValues:
        """Return the early results, followed by themselves."""
        window, slot = (np.tile(part, 2) for part in (self.window, self.slot))
        share, rows = (np.tile(part, 2) for part in (self.completeness, self.rows))
        raw = {name: np.tile(values, 2) for name, values in self.raw.items()}
        return EarlyValues(window, slot, share, rows, raw)


@dataclass(frozen=True, eq=False)
class Estimate:
    """For each early result: estimate, interval, probability of no change, expected accuracy."""

    estimate: Floats
    low: Floats
    high: Floats
    settled: Floats
    expected_accuracy: Floats

    def around(self, emitted: Floats) -> Estimate:
        """Return the estimates with the values `emitted`, and intervals that hold them.

        An emitted value may be rounded to the type of its column, or be the raw value.
        """
        low, high = np.fmin(self.low, emitted), np.fmax(self.high, emitted)
        return replace(self, estimate=emitted, low=low, high=high)


class Calibrator:
    """A component that estimates final values, and learns from pairs of early and final values."""

    def __init__(self, kinds: Mapping[str, Kind], coverage: float = 0.9) -> None:
        unknown = [k for k in kinds.values() if k not in KINDS]
        if unknown:
            raise SpecError(f"kind {unknown[0]!r} is unknown; write one of {', '.join(KINDS)}")
        if not 0 < coverage < 1:
            raise SpecError(f"coverage={coverage!r} must be between 0 and 1, for example 0.9")
        self.kinds = dict(kinds)
        self.tail = (1 - coverage) / 2
        tail = self.tail * (1 - CAUTION)
        self.levels = np.array([tail, 0.5, 1 - tail])
        sums = [n for k in ("counted", "scaled") for n in kinds if kinds[n] == k]
        self.counter = sums[0] if sums else None

    def begin(self) -> Calibration:
        """Return the initial memory, before any pair of early and final values is learned."""
        return Calibration(values={name: ValueMemory() for name in self.kinds})

    def judge(self, memory: Calibration, early: EarlyValues) -> dict[str, Estimate]:
        """Return {aggregate: estimates of the finals of `early`}."""
        slots = Slots.of(memory.groups)
        view = slots.view(early.slot, early.rows, early.completeness)
        return {
            name: self._judged(memory.values[name], kind, self._basis(name, early, view, slots))
            for name, kind in self.kinds.items()
        }

    def _judged(self, known: ValueMemory, kind: Kind, basis: _Signed) -> Estimate:
        record = counts_of(known.settled, finality.SHAPE)
        sure = finality.probability(record, basis.guess)
        shape = known.distribution.of(kind)
        grows = _grows(kind, known)
        quantiles = shape.quantiles(basis.basis, sure, self.levels, grows=grows)
        middle, cell = quantiles.pop(1), Cell.of(basis.basis.view, basis.missing)
        ends = known.ends.of(kind, self.tail)
        low, high = ends.chosen(basis.basis, cell, quantiles, known.windows)
        best = competition.winner(counts_of(known.estimates, competition.SHAPE), cell)
        middle = np.choose(best, [middle, basis.basis.x, basis.basis.completed])
        if not known.windows:
            middle = basis.basis.completed
            low, high = np.minimum(low, middle), np.maximum(high, middle)
        if kind in WHOLE:
            low, middle, high = (np.round(end) for end in (low, middle, high))
        middle = np.clip(middle, low, high)
        expected = known.accuracy.at(basis.missing)
        if basis.sign < 0:
            low, high = -high, -low
        parts = (basis.sign * middle, low, high, sure, expected)
        return Estimate(*(np.where(basis.lost, np.nan, part) for part in parts))

    def _basis(self, name: str, early: EarlyValues, view: GroupView, slots: Slots) -> _Signed:
        kind = self.kinds[name]
        sign = -1.0 if kind == "falling" else 1.0
        given = sign * np.asarray(early.raw[name], np.float64)
        lost = ~np.isfinite(given)
        x = np.where(lost, 0.0, given)
        whole = (early.rows + view.missing) / np.maximum(early.rows, 1)
        instead = np.abs(x) * (whole if kind in {"counted", "scaled"} else 1.0)
        level = np.maximum(slots.level(name, early.slot, view, instead), 1e-300)
        share = np.maximum(early.completeness, 1e-3)
        completed = x / share if kind in SCALED else x
        common = slots.common(name, level)
        basis = Basis(x, np.maximum(early.rows, 1.0), view, level, completed, common)
        guess = Guess.of(kind, view, basis.n, x, level)
        return _Signed(sign, basis, guess, 1 - early.completeness, lost)

    def learn(self, memory: Calibration, pairs: EarlyFinalPairs) -> Calibration:
        """Return the memory after learning from `pairs`, all of which came in one epoch."""
        slots = Slots.of(memory.groups)
        view = slots.view(pairs.slot, pairs.rows, pairs.completeness)
        both, views = pairs.twice(), view.with_strangers(pairs.rows)
        values = {
            name: self._learned(name, known, self._basis(name, both, views, slots), pairs)
            for name, known in memory.values.items()
        }
        finals = {n: np.asarray(f, np.float64) for n, f in pairs.final.items()}
        whole = self._whole(pairs, view)
        groups = slots.taught(pairs.slot, pairs.rows, pairs.completeness, whole, finals)
        return Calibration(groups, values)

    def _whole(self, pairs: EarlyFinalPairs, view: GroupView) -> Floats:
        """Return the number of rows of each final, as far as the aggregates tell it."""
        if self.counter is None:
            return np.asarray(np.round(pairs.rows + view.missing))
        raw, final = (np.asarray(d[self.counter], float) for d in (pairs.raw, pairs.final))
        if self.kinds[self.counter] == "counted":
            return final
        grown = np.divide(final, raw, out=np.ones_like(raw), where=raw != 0)
        return np.asarray(np.round(pairs.rows * np.clip(grown, 1.0, 1e3)))

    def _learned(
        self, name: str, known: ValueMemory, both: _Signed, pairs: EarlyFinalPairs
    ) -> ValueMemory:
        """Return the memory of an aggregate after `pairs`.

        `both` has the pairs as they are, followed by the same pairs as if they were of strangers.
        """
        final = np.asarray(pairs.final[name], np.float64)
        early = both.take(np.arange(len(final)))
        sound = np.isfinite(final) & ~early.lost
        if not sound.any():
            return known
        value = early.sign * final
        same = _same(value, early.basis.x)
        moved = sound & ~same
        windows = known.windows, known.windows + len(np.unique(pairs.window[sound]))
        chosen, changed = (np.tile(which, 2) for which in (sound, moved))
        record = counts_of(known.settled, finality.SHAPE)
        record = finality.taught(record, both.guess.take(chosen), np.tile(same[sound], 2), windows)
        shape = known.distribution
        if moved.any():
            finals = np.tile(value[moved], 2)
            shape = shape.of(self.kinds[name]).taught(both.basis.take(changed), finals, windows)
        said = np.asarray(pairs.said.get(name, final), np.float64)
        right = accuracy(said[sound], final[sound])
        now = early.take(sound)
        estimates, ends = self._competed(known, name, now, value[sound], windows)
        return ValueMemory(
            shape,
            WholeNumbers(record),
            WholeNumbers(estimates),
            ends,
            windows[1],
            known.fell + int((value < early.basis.x)[moved].sum()),
            known.accuracy.learn(early.missing[sound], right),
        )

    def _competed(
        self, known: ValueMemory, name: str, early: _Signed, final: Floats, windows: tuple[int, int]
    ) -> tuple[Counts, EndsMemory]:
        """Return the records of estimates and of ends after the finals of the results `early`."""
        kind, basis = self.kinds[name], early.basis
        sure = finality.probability(counts_of(known.settled, finality.SHAPE), early.guess)
        shape, cell = known.distribution.of(kind), Cell.of(basis.view, early.missing)
        quantiles = shape.quantiles(basis, sure, self.levels, grows=_grows(kind, known))
        estimates = (quantiles.pop(1), basis.x, basis.completed)
        ends = known.ends.of(kind, self.tail).taught(basis, cell, quantiles, final, windows)
        record = counts_of(known.estimates, competition.SHAPE)
        return competition.taught(record, cell, estimates, final, windows), ends


@dataclass(frozen=True, eq=False)
class _Signed:
    """The basis of predictions, with negated values for an aggregate that falls.

    `lost` marks values that are missing.
    """

    sign: float
    basis: Basis
    guess: Guess
    missing: Floats
    lost: np.ndarray

    def take(self, chosen: np.ndarray) -> _Signed:
        """Return the results `chosen`."""
        parts = (part[chosen] for part in (self.missing, self.lost))
        return _Signed(self.sign, self.basis.take(chosen), self.guess.take(chosen), *parts)


def _grows(kind: Kind, known: ValueMemory) -> bool:
    """Return whether finals are never below early values."""
    proven = known.windows >= _NEVER_FELL and not known.fell
    return kind in {"counted", "distinct", "rising", "falling"} or (kind == "scaled" and proven)


def _same(final: Floats, early: Floats) -> np.ndarray:
    """Return which finals equal their early values, but for rounding errors of sums."""
    return np.asarray(np.abs(final - early) <= 1e-12 * np.abs(early))
