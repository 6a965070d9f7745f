"""Learned intervals around the early values of one aggregate, which contain the final values.

*Ways.* A *way* computes intervals from a centre c (the estimate E, the raw value, or 0) and a shape
s = |E|^a · missing^b · rows^-d. Past finals F give z = (F − c) / s; the learner tracks the mean m
and the mean deviation v of z. Each interval end is c + s · (m + v·q) with a learned quantile q.
No way fits every stream. The error is proportional to √missing for counts of independent rows, to
`missing` for drifting rates, and to 1/√rows for averages of groups. If missing rows do not depend
on arrived rows, the raw value is the better centre. For extremes the centre 0 is useful, because
the extreme may come from the missing rows. Each way exists twice: with a short and a long memory.

*Quantiles.* The *tail* of an end is the share of finals that may be beyond this end. After every
window, q changes by step · (missed share − tail), the online gradient of the quantile loss. Steps
fall as 1/t to a floor. In the long run, intervals then have the stated coverage 1 − α for any
stream (Gibbs & Candès 2021; Angelopoulos, Candès & Tibshirani 2023).

*Mixture.* Each emitted end is the mean of the ends of all ways, weighted by exp(−loss). Quantile
losses are convex, so the mean has a smaller loss than the average way and, with time, hardly
more loss than the best way. Finally, both ends move by a share of the width. The share is learned
for each position (class of missing shares), so that every position has the stated coverage.

*Extremes* change in one direction only: one end is the raw value, and finals miss only the other.
The tail of the other end is `_ONE_TAIL` · α, between α/2 (best score) and α (stated coverage).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from lowwater.control.completeness import Floats
from lowwater.early.accuracy import ExpectedAccuracy, accuracy
from lowwater.early.calibration.early_rows import POSITIONS, TRUSTED, EarlyRows, Kind, positions_of

CAUTION = 5.0
"""The smallest half-width of an interval at the beginning, divided by |E| · √(missing / rows)."""
NOTHING = 1e-3
"""Missing shares up to this value are treated as zero."""
_ONE_TAIL = 0.88
_ESTIMATE, _RAW, _ZERO = 0, 1, 2
_BOTH_WAYS = (
    (_ESTIMATE, 0.0, 0.0, 0.0),
    (_ESTIMATE, 1.0, 0.0, 0.0),
    (_ESTIMATE, 0.0, 0.5, 0.0),
    (_ESTIMATE, 1.0, 0.5, 0.0),
    (_ESTIMATE, 1.0, 0.5, 0.5),
    (_ESTIMATE, 1.0, 1.0, 0.0),
    (_RAW, 0.0, 0.0, 0.0),
    (_RAW, 0.0, 1.0, 0.0),
    (_ZERO, 0.0, 0.0, 0.0),
)
_ONE_WAY = (
    (_ESTIMATE, 0.0, 0.0, 0.0),
    (_ESTIMATE, 1.0, 0.0, 0.0),
    (_ESTIMATE, 0.0, 1.0, 0.0),
    (_ESTIMATE, 1.0, 1.0, 0.0),
    (_ZERO, 0.0, 0.0, 0.0),
)
"""Each way is (centre, a, b, d); its shape is |E|^a · missing^b · rows^-d."""
_SIDES = np.array([-1.0, 1.0])
_MEANS, _DEVIATIONS = (60.0, 2000.0), (30.0, 2000.0)  # memory lengths, in windows
_JUDGED = 0.5 ** (1 / 300)
_LIKELY = 0.5  # if the raw value is the final this often, intervals contain it
_FURTHEST = 20.0  # the largest loss of a way in one window, in median losses of all ways


@dataclass(frozen=True)
class _Pace:
    """Settings of learning: the rate is `step` / (windows + `doubt`), but not below `floors`."""

    step: float
    doubt: float
    floors: tuple[float, float]
    start: float
    """The initial quantile, in mean deviations."""
    sharpness: float
    patience: float
    """`sharpness` weights differences in loss; it is reduced in the first `patience` windows."""
    long: float
    """The prior weight of ways with a long memory."""


# Most early extremes equal their finals and teach nothing, and their quantiles are large.
_TWO_SIDED = _Pace(5.0, 60.0, (0.02, 0.0015), 2.2, 0.5, 50.0, 5.0)
_ONE_SIDED = _Pace(12.0, 60.0, (0.05, 0.01), 2.5, 3.0, 5.0, 1.0)

_Ways: TypeAlias = tuple[Floats, Floats]


def _at_positions() -> list[float]:
    return [0.0] * (len(POSITIONS) + 1)


@dataclass(frozen=True)
class IntervalMemory:
    """The memory of a learner for one aggregate in one regime.

    - `mean`, `deviation`: The mean and the mean deviation of z, for each way.
    - `quantile`, `loss`: The quantile q and the weighted sum of losses, for each side and way.
    - `judged`: The weighted number of windows in `loss`.
    - `seen`, `first`: The number of windows, and the number of windows whose first answer was in
      this regime.
    - `exact`: The share of answers that were equal to their finals.
    - `fell`: The number of finals below their early values.
    - `moved`: The correction of interval ends for each side and position.
    - `asked`: The weighted number of answers at each position.
    - `accuracy`: The expected accuracy of estimates.
    """

    VERSION: ClassVar[int] = 1

    mean: list[float]
    deviation: list[float]
    quantile: list[list[float]]
    loss: list[list[float]]
    judged: float = 0.0
    seen: int = 0
    first: int = 0
    exact: float = 0.0
    fell: int = 0
    moved: list[list[float]] = field(default_factory=lambda: [_at_positions(), _at_positions()])
    asked: list[float] = field(default_factory=_at_positions)
    accuracy: ExpectedAccuracy = field(default_factory=ExpectedAccuracy)

    def borrowed(self) -> IntervalMemory:
        """Return a copy of this memory as the initial memory of the other regime."""
        return replace(self, seen=min(self.seen, TRUSTED), first=0)


class Learner:
    """A learner of the intervals of one aggregate; it negates values of the kind "falling"."""

    def __init__(self, kind: Kind, alpha: float) -> None:
        self.kind, self.alpha = kind, alpha
        self.one_sided = kind in {"rising", "falling"}
        self.sign = -1.0 if kind == "falling" else 1.0
        self.pace = _ONE_SIDED if self.one_sided else _TWO_SIDED
        ways = np.array(_ONE_WAY if self.one_sided else _BOTH_WAYS)
        self.centres, self.powers = np.tile(ways[:, 0].astype(int), 2), ways[:, 1:] * [1, 1, -1]
        self.long = np.repeat([False, True], len(ways))
        self.tails = np.array([alpha / 2, alpha * (_ONE_TAIL if self.one_sided else 0.5)])
        self.prior = np.where(self.long, self.pace.long, 1.0)

    def _by_memory(self, both: tuple[float, float]) -> Floats:
        return np.where(self.long, both[1], both[0])

    def begin(self) -> IntervalMemory:
        """Return the initial memory, before any pair of early and final values is learned."""
        none = [0.0] * len(self.centres)
        quantile = [[side * self.pace.start] * len(none) for side in (-1, 1)]
        return IntervalMemory(none, none, quantile, [none, none])

    def judge(self, memory: IntervalMemory, rows: EarlyRows) -> tuple[Floats, Floats, Floats]:
        """Return (low interval ends, high interval ends, expected accuracies) of `rows`."""
        signed = rows.signed(self.sign)
        ends = self._moved(memory, signed, self._ends(memory, signed, self._ways(signed)))
        if memory.seen < TRUSTED:
            ends = self._doubted(memory.seen, signed, ends)
        low, high = self._settled(memory, signed, ends) * self.sign
        expected = memory.accuracy.at(rows.missing)
        return (low, high, expected) if self.sign > 0 else (high, low, expected)

    def _ends(self, memory: IntervalMemory, rows: EarlyRows, ways: _Ways) -> Floats:
        """Return the interval ends of all ways, as an array of sides × ways × rows."""
        centres, shapes = ways
        quantile = np.asarray(memory.quantile)
        z = np.asarray(memory.mean) + np.asarray(memory.deviation) * quantile
        ends = centres + shapes * z[:, :, None]
        if self.one_sided or self.kind == "counted":
            np.maximum(ends, rows.raw, out=ends)
        return np.asarray(ends)

    def _ways(self, rows: EarlyRows) -> _Ways:
        """Return the centres and the shapes of all ways, as arrays of ways × rows."""
        size = np.maximum(np.abs(rows.estimate), 1e-12)
        logs = np.log([size, np.maximum(rows.missing, 1e-4), rows.rows])
        shapes = np.exp(self.powers @ logs)
        centres = np.stack([rows.estimate, rows.raw, np.zeros(len(size))])[self.centres]
        return centres, np.concatenate([shapes, shapes])

    def _mixed(self, memory: IntervalMemory, ends: Floats) -> Floats:
        """Return the interval ends, each as the mean over all ways, weighted by exp(−loss)."""
        loss, judged = np.asarray(memory.loss), memory.judged
        best = loss.min(axis=1, keepdims=True)
        sharp = self.pace.sharpness * judged * judged / (judged + self.pace.patience)
        least = np.maximum(best, 1e-9 * loss.max() + 1e-300)  # a way may never have lost
        weight = self.prior * np.exp(-sharp * (loss - best) / least)
        weight /= weight.sum(axis=1, keepdims=True)
        return np.asarray((weight[:, None, :] @ ends)[:, 0, :])

    def _moved(self, memory: IntervalMemory, rows: EarlyRows, ends: Floats) -> Floats:
        """Return the mixed ends, moved by the correction for the position of each row."""
        ends = self._mixed(memory, ends)
        moved = np.asarray(memory.moved)[:, positions_of(rows.missing)]
        width = np.maximum(ends[1] - ends[0], 0.0)
        return np.asarray(ends + _SIDES[:, None] * moved * width)

    def _doubted(self, seen: int, rows: EarlyRows, ends: Floats) -> Floats:
        """Return the ends of intervals, widened to a minimum width that shrinks as `seen` grows."""
        size = np.abs(rows.estimate) + (rows.estimate == 0)
        width = CAUTION * (1 - seen / TRUSTED) * size * np.sqrt(rows.missing / rows.rows)
        low = rows.estimate if self.one_sided else rows.estimate - width
        return np.stack([np.minimum(ends[0], low), np.maximum(ends[1], rows.estimate + width)])

    def _settled(self, memory: IntervalMemory, rows: EarlyRows, ends: Floats) -> Floats:
        """Return the ends, limited to the values that the kind of aggregate allows."""
        low, high = ends
        if self.one_sided:
            low = rows.raw if memory.exact >= self.tails[0] else np.maximum(low, rows.raw)
        elif self._adds_up(memory):
            low = np.where(rows.raw >= 0, np.maximum(low, rows.raw), low)
        likely = (rows.missing <= NOTHING) | (memory.exact >= _LIKELY)
        low = np.where(likely, np.minimum(low, rows.raw), low)
        high = np.where(likely, np.maximum(high, rows.raw), high)
        return np.stack([low, np.maximum(low, high)])

    def _adds_up(self, memory: IntervalMemory) -> bool:
        """Return whether finals are never below raw values, as for counts and growing sums."""
        proven = memory.seen >= TRUSTED and not memory.fell
        return self.kind == "counted" or (self.kind == "scaled" and proven)

    def learn(
        self, memory: IntervalMemory, rows: EarlyRows, final: Floats, leave: float = 1.0
    ) -> IntervalMemory:
        """Return the memory after learning from the rows and the finals of one more window.

        `leave` is the factor by which intervals may miss more finals than stated.
        """
        seen, signed, value = memory.seen, rows.signed(self.sign), self.sign * final
        ways = self._ways(signed)
        news = self._measured(memory, ways, value)
        if seen:
            ends = self._ends(memory, signed, ways)
            news |= self._judged(memory, signed, ends, value, self.tails * leave)
        same = float(np.mean(final == rows.raw))
        learned: dict[str, Any] = {name: _rounded(values) for name, values in news.items()}
        return replace(
            memory,
            seen=seen + 1,
            exact=_mean(memory.exact, same, min(seen + 1, 200)),
            fell=memory.fell + int(np.sum(final < rows.raw)),
            accuracy=memory.accuracy.learn(rows.missing, accuracy(rows.estimate, final)),
            **learned,
        )

    def _measured(
        self, memory: IntervalMemory, ways: _Ways, final: Floats
    ) -> dict[str, np.ndarray]:
        """Return the new values of the memory's fields `mean` and `deviation`, by field name."""
        centres, shapes = ways
        z = ((final - centres) / np.maximum(shapes, 1e-300)).sum(axis=1) / len(final)
        mean, deviation = (np.asarray(v) for v in (memory.mean, memory.deviation))
        seen = memory.seen
        if seen:
            counted = np.minimum(seen, self._by_memory(_DEVIATIONS))
            deviation = _mean(deviation, np.abs(z - mean), counted)
        mean = _mean(mean, z, np.minimum(seen + 1, self._by_memory(_MEANS)))
        return {"mean": mean, "deviation": deviation}

    def _judged(
        self, memory: IntervalMemory, rows: EarlyRows, ends: Floats, final: Floats, tails: Floats
    ) -> dict[str, np.ndarray]:
        """Return the memory's losses, quantiles and corrections after a window, by field name."""
        outside = _SIDES[:, None, None] * (final - ends)
        wrong, count = outside > 0, len(final)
        missed = wrong.sum(axis=2) / count
        loss = np.where(wrong, (1 / self.tails[:, None, None] - 1) * outside, -outside)
        loss = loss.sum(axis=2) / count
        half = loss.shape[1] // 2  # the number of ways is even: each exists twice
        usual = np.sort(loss, axis=1)[:, half - 1 : half + 1].sum(axis=1, keepdims=True) / 2
        loss = np.minimum(loss, _FURTHEST * usual)
        given = self._settled(memory, rows, self._moved(memory, rows, ends))
        return {
            "loss": _JUDGED * np.asarray(memory.loss) + loss,
            "judged": np.asarray(_JUDGED * memory.judged + 1),
            "quantile": self._stepped(memory, missed - self._due(rows, ends, tails)),
            **self._covered(memory, rows, _SIDES[:, None] * (final - given) > 0, tails),
        }

    def _due(self, rows: EarlyRows, ends: Floats, tails: Floats) -> Floats:
        """Return the share of finals that may be beyond each end; an end at the raw value has 0."""
        if not self.one_sided:
            return tails[:, None]
        live = (ends[0] > rows.raw).mean(axis=1)
        return np.stack([tails[0] * live, np.full(len(live), tails[1])])

    def _stepped(self, memory: IntervalMemory, over: Floats) -> Floats:
        """Return the quantiles, changed to reduce `over`, the excess of missed finals."""
        low, high = quantile = np.asarray(memory.quantile)
        falling = self.pace.step / (memory.seen + self.pace.doubt)
        step = np.maximum(falling, self._by_memory(self.pace.floors))
        step = step * np.maximum(np.abs(high) if self.one_sided else (high - low) / 2, 1.0) * 2
        low, high = quantile + _SIDES[:, None] * step * over
        # Below −3 deviations the end is the raw value; the bound lets the quantile recover.
        high = np.maximum(high, -3.0) if self.one_sided else high
        return np.stack([np.minimum(low, high), high])

    def _covered(
        self, memory: IntervalMemory, rows: EarlyRows, missed: np.ndarray, tails: Floats
    ) -> dict[str, np.ndarray]:
        """Return the new fields `moved` and `asked`; `missed` marks the finals beyond each end."""
        position, asked = positions_of(rows.missing), np.asarray(memory.asked)
        share = np.bincount(position, minlength=len(asked)) / len(position)
        over = [np.bincount(position, m, minlength=len(asked)) / len(position) for m in missed]
        step = np.maximum(0.3 / (asked + 10), 0.005)
        moved = np.asarray(memory.moved) + step * (np.array(over) - tails[:, None] * share)
        if self.one_sided:
            moved[0] = 0.0
        return {"moved": moved, "asked": asked + share}


def _mean(before: Any, value: Any, count: Any) -> Any:
    """Return the mean of `count` values: the last is `value`, the others have mean `before`."""
    return before + (value - before) / count


def _rounded(values: np.ndarray) -> Any:
    """Return `values` as lists, rounded to nine digits for the control log."""
    flat = values.ravel().tolist()
    text = ("%.9g " * len(flat)) % tuple(flat)
    return np.array(text.split(), np.float64).reshape(values.shape).tolist()
