"""How far finals are from early values of one aggregate: intervals that are learned.

*Ways.* A way to make an interval is a centre c (the estimate E, the raw value, or 0) and a shape
s = |E|^a · missing^b · rows^-d. Past finals F give z = (F − c) / s, of which mean m and mean
deviation v are learned; the ends are c + s · (m + v·q). No way fits every stream: counts of rows
that come independently err by √missing, rates that drift by missing, levels of groups by 1/√rows;
where what is to come does not depend on what has come, the raw value is the better centre, and for
extremes 0: what is to come has an extreme of its own, and the final is the greater of both. Each
way is there twice, with a short memory and with a long one.

*Quantiles.* After every window, q is moved by a step times (missed − tail), the online gradient of
the quantile loss, with steps that fall as 1/t to a floor: coverage holds in the long run whatever
the stream does (Gibbs & Candès 2021; Angelopoulos, Candès & Tibshirani 2023).

*Mixture.* Each end is a mean of those of all ways, weighted by exp(−loss): quantile losses are
convex, so a mean loses less than its parts do in the mean, and as more is known, hardly more than
the best. Last, both ends are moved by a share of the width that is learned for each position in the
window, so that what is given out covers as often as it should there.

*Extremes* can only move one way: one end is the raw value, and the other alone is missed. α/2 for
it gives the best interval score, α the stated coverage; `_ONE_TAIL` of α is in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from lowwater.control.arrived import Floats
from lowwater.prodding.accuracy import ExpectedAccuracy, accuracy
from lowwater.prodding.positions import POSITIONS, TRUSTED, positions_of

Kind: TypeAlias = Literal["scaled", "counted", "level", "rising", "falling", "other"]
"""What is known of a final F, given that the share c of its rows is in and gives `raw`.

scaled (sum): F ≈ raw / c; counted (count): so, and F ≥ raw. level (avg, quantiles, stddev): raw is
as good as any other sample of the rows. rising (max, number of distinct values): F ≥ raw; falling
(min): F ≤ raw. other: nothing.
"""
SCALED = ("scaled", "counted")
KINDS = ("scaled", "counted", "level", "rising", "falling", "other")

CAUTION = 5.0
"""How many times as wide as for independent rows intervals are at least, before the first pair."""
NOTHING = 1e-3
"""A missing share that is none."""
_FEWEST = 1e-3  # the least share that is believed: else raw / c would be no number
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
"""Centre, and the powers of size, missing share and rows."""
_SIDES = np.array([-1.0, 1.0])
_MEANS, _DEVIATIONS = (60.0, 2000.0), (30.0, 2000.0)  # how many windows are remembered
_JUDGED = 0.5 ** (1 / 300)
_LIKELY = 0.5  # a raw value that is final that often is part of every interval
_FURTHEST = 20.0  # how many times the usual loss a way can lose by one window


@dataclass(frozen=True)
class _Pace:
    """How fast is learned: steps `step` / (seen + `doubt`) that fall to floors, short and long."""

    step: float
    doubt: float
    floors: tuple[float, float]
    start: float
    """The first quantile, in mean deviations."""
    sharpness: float
    patience: float
    """How much a difference in loss weighs, and how many windows it takes until it does."""
    long: float
    """How much more a long memory is believed before anything is known."""


# Of extremes most pairs say nothing, since they are equal, and quantiles lie far out.
_TWO_SIDED = _Pace(5.0, 60.0, (0.02, 0.0015), 2.2, 0.5, 50.0, 5.0)
_ONE_SIDED = _Pace(12.0, 60.0, (0.05, 0.01), 2.5, 3.0, 5.0, 1.0)


@dataclass(frozen=True, eq=False)
class Rows:
    """Early values of one aggregate."""

    missing: Floats
    rows: Floats
    raw: Floats
    estimate: Floats

    @classmethod
    def of(cls, share: Floats, rows: Floats, raw: Floats, kind: Kind) -> Rows:
        """Return early values that rest on a share of their rows, with estimates of finals."""
        share = np.clip(share, _FEWEST, 1.0)
        return cls(1 - share, np.maximum(rows, 1.0), raw, raw / share if kind in SCALED else raw)

    def take(self, chosen: np.ndarray) -> Rows:
        """Return some of them."""
        parts = (self.missing, self.rows, self.raw, self.estimate)
        return Rows(*(part[chosen] for part in parts))

    def signed(self, sign: float) -> Rows:
        """Return them upside down, if the sign is −1."""
        if sign > 0:
            return self
        return Rows(self.missing, self.rows, -self.raw, -self.estimate)


_Ways: TypeAlias = tuple[Floats, Floats]


class Learner:
    """What is learned of one aggregate. Falling values are rising ones upside down.

    Its memory is JSON, about 1 kB.
    """

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

    def begin(self) -> dict[str, Any]:
        """Return the memory before the first pair."""
        none, positions = [0.0] * len(self.centres), [0.0] * (len(POSITIONS) + 1)
        return {
            "seen": 0,
            "first": 0,
            "exact": 0.0,
            "fell": 0,
            "mean": none,
            "deviation": none,
            "quantile": [[side * self.pace.start] * len(none) for side in (-1, 1)],
            "loss": [none, none],
            "judged": 0.0,
            "moved": [positions, positions],
            "asked": positions,
            "accuracy": ExpectedAccuracy().begin(),
        }

    # -- intervals -------------------------------------------------------------------------------

    def judge(self, memory: Mapping[str, Any], rows: Rows) -> tuple[Floats, Floats, Floats]:
        """Return the ends of intervals, and the accuracy to be expected of estimates."""
        signed = rows.signed(self.sign)
        ends = self._ends(memory, signed, self._ways(signed))
        ends = self._moved(memory, signed, self._mixed(memory, ends))
        if memory["seen"] < TRUSTED:
            ends = self._doubted(memory["seen"], signed, ends)
        low, high = self._settled(memory, signed, ends) * self.sign
        expected = ExpectedAccuracy().at(memory["accuracy"], rows.missing)
        return (low, high, expected) if self.sign > 0 else (high, low, expected)

    def _ends(self, memory: Mapping[str, Any], rows: Rows, ways: _Ways) -> Floats:
        """Return the ends of all ways: sides × ways × rows."""
        centres, shapes = ways
        quantile = np.asarray(memory["quantile"])
        z = np.asarray(memory["mean"]) + np.asarray(memory["deviation"]) * quantile
        ends = centres + shapes * z[:, :, None]
        if self.one_sided or self.kind == "counted":
            np.maximum(ends, rows.raw, out=ends)
        return np.asarray(ends)

    def _ways(self, rows: Rows) -> _Ways:
        """Return centres and shapes of all ways: ways × rows."""
        size = np.maximum(np.abs(rows.estimate), 1e-12)
        logs = np.log([size, np.maximum(rows.missing, 1e-4), rows.rows])
        shapes = np.exp(self.powers @ logs)
        centres = np.stack([rows.estimate, rows.raw, np.zeros(len(size))])[self.centres]
        return centres, np.concatenate([shapes, shapes])

    def _mixed(self, memory: Mapping[str, Any], ends: Floats) -> Floats:
        """Return the means of the ends of all ways, weighted by how little they have lost."""
        loss, judged = np.asarray(memory["loss"]), memory["judged"]
        best = loss.min(axis=1, keepdims=True)
        sharp = self.pace.sharpness * judged * judged / (judged + self.pace.patience)
        least = np.maximum(best, 1e-9 * loss.max() + 1e-300)  # a way that never lost is no measure
        weight = self.prior * np.exp(-sharp * (loss - best) / least)
        weight /= weight.sum(axis=1, keepdims=True)
        return np.asarray((weight[:, None, :] @ ends)[:, 0, :])

    def _moved(self, memory: Mapping[str, Any], rows: Rows, ends: Floats) -> Floats:
        """Return ends after what was learned of the position in the window."""
        moved = np.asarray(memory["moved"])[:, positions_of(rows.missing)]
        width = np.maximum(ends[1] - ends[0], 0.0)
        return np.asarray(ends + _SIDES[:, None] * moved * width)

    def _doubted(self, seen: int, rows: Rows, ends: Floats) -> Floats:
        """Return ends at least as far out as a prior says, less so with every window."""
        size = np.abs(rows.estimate) + (rows.estimate == 0)
        width = CAUTION * (1 - seen / TRUSTED) * size * np.sqrt(rows.missing / rows.rows)
        low = rows.estimate if self.one_sided else rows.estimate - width
        return np.stack([np.minimum(ends[0], low), np.maximum(ends[1], rows.estimate + width)])

    def _settled(self, memory: Mapping[str, Any], rows: Rows, ends: Floats) -> Floats:
        """Return ends that do not contradict what is certain, or nearly so."""
        low, high = ends
        if self.one_sided:
            low = rows.raw if memory["exact"] >= self.tails[0] else np.maximum(low, rows.raw)
        elif self._adds_up(memory):
            low = np.where(rows.raw >= 0, np.maximum(low, rows.raw), low)
        likely = (rows.missing <= NOTHING) | (memory["exact"] >= _LIKELY)
        low = np.where(likely, np.minimum(low, rows.raw), low)
        high = np.where(likely, np.maximum(high, rows.raw), high)
        return np.stack([low, np.maximum(low, high)])

    def _adds_up(self, memory: Mapping[str, Any]) -> bool:
        """Return whether finals are not below their part: counts, and sums that never were."""
        proven = memory["seen"] >= TRUSTED and not memory["fell"]
        return self.kind == "counted" or (self.kind == "scaled" and proven)

    # -- learning --------------------------------------------------------------------------------

    def learn(
        self, memory: Mapping[str, Any], rows: Rows, final: Floats, leave: float = 1.0
    ) -> dict[str, Any]:
        """Return the memory after one window more, of one or many rows.

        `leave` is how many times the stated share may be missed here.
        """
        seen, signed, value = memory["seen"], rows.signed(self.sign), self.sign * final
        ways = self._ways(signed)
        news = self._measured(memory, ways, value)
        if seen:
            ends = self._ends(memory, signed, ways)
            news |= self._judged(memory, signed, ends, value, self.tails * leave)
        same = float(np.mean(final == rows.raw))
        counts = {"seen": seen + 1, "exact": _mean(memory["exact"], same, min(seen + 1, 200))}
        counts["fell"] = memory["fell"] + int(np.sum(final < rows.raw))
        found = accuracy(rows.estimate, final)
        expected = ExpectedAccuracy().learn(memory["accuracy"], rows.missing, found)
        kept = {name: _short(values) for name, values in news.items()}
        return {**memory, **kept, **counts, "accuracy": expected}

    def _measured(
        self, memory: Mapping[str, Any], ways: _Ways, final: Floats
    ) -> dict[str, np.ndarray]:
        """Return mean and mean deviation of what finals are for each way."""
        centres, shapes = ways
        z = ((final - centres) / np.maximum(shapes, 1e-300)).sum(axis=1) / len(final)
        mean, deviation = (np.asarray(memory[name]) for name in ("mean", "deviation"))
        seen = memory["seen"]
        if seen:
            counted = np.minimum(seen, self._by_memory(_DEVIATIONS))
            deviation = _mean(deviation, np.abs(z - mean), counted)
        mean = _mean(mean, z, np.minimum(seen + 1, self._by_memory(_MEANS)))
        return {"mean": mean, "deviation": deviation}

    def _judged(
        self, memory: Mapping[str, Any], rows: Rows, ends: Floats, final: Floats, tails: Floats
    ) -> dict[str, np.ndarray]:
        """Return losses, quantiles and moves after a final."""
        outside = _SIDES[:, None, None] * (final - ends)
        wrong, count = outside > 0, len(final)
        missed = wrong.sum(axis=2) / count
        loss = np.where(wrong, (1 / self.tails[:, None, None] - 1) * outside, -outside)
        loss = loss.sum(axis=2) / count
        half = loss.shape[1] // 2  # ways are even in number: each is there twice
        usual = np.sort(loss, axis=1)[:, half - 1 : half + 1].sum(axis=1, keepdims=True) / 2
        loss = np.minimum(loss, _FURTHEST * usual)
        given = self._moved(memory, rows, self._mixed(memory, ends))
        given = self._settled(memory, rows, given)
        return {
            "loss": _JUDGED * np.asarray(memory["loss"]) + loss,
            "judged": np.asarray(_JUDGED * memory["judged"] + 1),
            "quantile": self._stepped(memory, missed - self._due(rows, ends, tails)),
            **self._covered(memory, rows, _SIDES[:, None] * (final - given) > 0, tails),
        }

    def _due(self, rows: Rows, ends: Floats, tails: Floats) -> Floats:
        """Return how often ends are to be missed; those that are the raw value cannot be."""
        if not self.one_sided:
            return tails[:, None]
        live = (ends[0] > rows.raw).mean(axis=1)
        return np.stack([tails[0] * live, np.full(len(live), tails[1])])

    def _stepped(self, memory: Mapping[str, Any], over: Floats) -> Floats:
        """Return the quantiles after a step against what was missed more than is due."""
        low, high = quantile = np.asarray(memory["quantile"])
        falling = self.pace.step / (memory["seen"] + self.pace.doubt)
        step = np.maximum(falling, self._by_memory(self.pace.floors))
        step = step * np.maximum(np.abs(high) if self.one_sided else (high - low) / 2, 1.0) * 2
        low, high = quantile + _SIDES[:, None] * step * over
        # Below −3 deviations an extreme is the raw value; it is to come back in time.
        high = np.maximum(high, -3.0) if self.one_sided else high
        return np.stack([np.minimum(low, high), high])

    def _covered(
        self, memory: Mapping[str, Any], rows: Rows, missed: np.ndarray, tails: Floats
    ) -> dict[str, np.ndarray]:
        """Return how far ends are moved at each position, after what was given out."""
        position, count = positions_of(rows.missing), len(POSITIONS) + 1
        share = np.bincount(position, minlength=count) / len(position)
        found = [np.bincount(position, m, minlength=count) / len(position) for m in missed]
        asked = np.asarray(memory["asked"])
        step = np.maximum(0.3 / (asked + 10), 0.005)
        moved = np.asarray(memory["moved"]) + step * (np.array(found) - tails[:, None] * share)
        if self.one_sided:
            moved[0] = 0.0
        return {"moved": moved, "asked": asked + share}


def _mean(before: Any, value: Any, count: Any) -> Any:
    """Return a running mean with one value more, of as many as `count` in all."""
    return before + (value - before) / count


def _short(values: np.ndarray) -> Any:
    """Return numbers with nine digits, which is what is worth keeping in the log."""
    flat = values.ravel().tolist()
    text = ("%.9g " * len(flat)) % tuple(flat)
    rounded = np.array(text.split(), np.float64).reshape(values.shape)
    return rounded.tolist()
