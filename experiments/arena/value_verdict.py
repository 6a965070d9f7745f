"""Verdicts on early values: errors, coverage, pinball losses, widths of small counts, `settled`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from experiments.arena.stream import ArenaStream, Floats, Split
from experiments.arena.value_run import FEWEST, LEVEL, Said, completed, plain, said
from experiments.arena.values import KINDS, ValuePairs, changes, pairs
from lowwater.early.accuracy import accuracy

LEADS = (0.25, 0.0)
"""How long before the ends of windows early values are asked for, in windows."""
AFTER = 20
"""The windows after a change that are judged apart."""
SMALL = 10
FLOOR = 1e-3
"""Errors and losses below this are level: the ratio of two of them is 1."""
_TAILS = ((1 - LEVEL) / 2, 1 - (1 - LEVEL) / 2)


@dataclass(frozen=True, eq=False)
class ValueVerdict:
    """One aggregate on one stream at one lead.

    Attributes
    ----------
    error, raw, completed
        The mean of 1 - accuracy: of the estimates, of the early values, of the completed values.
    covered
        The share of finals inside their intervals.
    pinball
        The mean pinball loss at both ends, by that of the best plain interval in hindsight.
    width
        For counts of groups with fewer than 10 rows: the median width by that of a Poisson
        prediction interval that knows the share of missing rows; NaN without such groups.
    sizes
        (past mean size, covered) of each pair, for deciles.
    after
        (changes, pairs, covered) in the first windows after a change.
    settled
        For each fifth of the said probabilities: (pairs, sum said, number that were settled).
    judged
        Whether the stream is long enough for its slack.
    seconds
        The time that the calibrator took, for all aggregates together.
    """

    stream: str
    split: Split
    aggregate: str
    lead: float
    windows: int
    error: float
    raw: float
    completed: float
    covered: float
    pinball: float
    width: float
    after: tuple[int, int, int]
    settled: np.ndarray
    seconds: float
    judged: bool = True
    sizes: np.ndarray = field(default_factory=lambda: np.zeros((2, 0)))

    @property
    def ratio(self) -> float:
        """The error by the smaller of those of raw and of completed values."""
        return max(self.error, FLOOR) / max(min(self.raw, self.completed), FLOOR)


def judge_values(stream: ArenaStream, leads: Iterable[float] = LEADS) -> list[ValueVerdict]:
    """Return a verdict for each lead and aggregate of a stream."""
    verdicts: list[ValueVerdict] = []
    for lead in leads:
        found = pairs(stream, lead)
        if len(found):
            moved = changes(stream.tumbling(stream.range), int(found.window.max()) + 1)
            of = Judged(stream.name, stream.split, lead, found, moved)
            verdicts += of.verdicts()
    return verdicts


@dataclass(frozen=True, eq=False)
class Judged:
    """The pairs of a stream at a lead, with the windows at which the stream changes."""

    stream: str
    split: Split
    lead: float
    pairs: ValuePairs
    moved: np.ndarray

    def verdicts(self) -> list[ValueVerdict]:
        """Return the verdict on each aggregate; on counts alone where all values are equal."""
        every, seconds = said(self.pairs)
        varied = (self.pairs.final["max"] != self.pairs.final["max"][0]).any()
        names = [n for n in KINDS if n == "count" or varied]
        return [self._verdict(name, every[name], seconds) for name in names]

    def _verdict(self, name: str, one: Said, seconds: float) -> ValueVerdict:
        found = self.pairs
        early, final = found.early[name], found.final[name]
        at = self._judged & np.isfinite(one.low)
        whole = completed(found, name)
        error, of_raw, of_completed = (
            float(np.mean(1 - accuracy(v[at], final[at]))) for v in (one.estimate, early, whole)
        )
        around = early if of_raw <= of_completed else whole
        inside = (one.low <= final) & (final <= one.high)
        same = np.abs(final - early) <= 1e-12 * np.abs(early)
        return ValueVerdict(
            self.stream,
            self.split,
            name,
            self.lead,
            len(np.unique(found.window[at])),
            error,
            of_raw,
            of_completed,
            float(inside[at].mean()),
            _pinball_ratio(final, plain(found, name, around), one, at),
            self._width(one, at) if name == "count" else np.nan,
            self._after(at, inside),
            _fifths(one.settled[at], same[at]),
            seconds,
            found.long,
            np.stack([found.past_size[at], inside[at]]),
        )

    @cached_property
    def _judged(self) -> np.ndarray:
        """The pairs after the warm-up."""
        window = self.pairs.window
        return np.asarray(window >= min(FEWEST, int(window.max()) // 10))

    def _after(self, at: np.ndarray, inside: np.ndarray) -> tuple[int, int, int]:
        window = self.pairs.window
        since = np.searchsorted(self.moved, window, side="right") - 1
        fresh = at & (since >= 0)
        fresh[fresh] &= window[fresh] - self.moved[since[fresh]] < AFTER
        return len(np.unique(since[fresh])), int(fresh.sum()), int(inside[fresh].sum())

    def _width(self, one: Said, at: np.ndarray) -> float:
        found = self.pairs
        at = at & (found.past_size < SMALL)
        if at.sum() < FEWEST:
            return np.nan
        missing = 1 - found.arrived[at].sum() / found.rows[at].sum()
        expected = found.past_size[at] * missing
        draws = np.random.default_rng(0).poisson(expected[:, None], (len(expected), 400))
        low, high = np.quantile(draws, _TAILS, axis=1, method="inverted_cdf")
        return float(np.median((one.high - one.low)[at]) / max(np.median(high - low), 1.0))


def pinball(value: Floats, final: Floats, level: float) -> Floats:
    """Return the pinball losses of the quantiles `value`."""
    over = final - value
    return np.asarray(np.maximum(level * over, (level - 1) * over))


def _pinball_ratio(
    final: Floats, plain_ends: Iterable[tuple[Floats, Floats]], one: Said, at: np.ndarray
) -> float:
    """Return the pinball loss at both ends by that of the best plain interval in hindsight."""
    rivals = list(plain_ends)
    at = at & np.all([np.isfinite(low) for low, _ in rivals], axis=0)
    if not at.any():
        return 1.0
    losses = [
        sum(
            pinball(end[at], final[at], tail).mean() for end, tail in zip(ends, _TAILS, strict=True)
        )
        for ends in ((one.low, one.high), *rivals)
    ]
    tiny = FLOOR / 10 * float(np.abs(final[at]).mean())
    return float(max(losses[0], tiny) / max(min(losses[1:]), tiny))


def _fifths(told: Floats, same: np.ndarray) -> np.ndarray:
    fifth = np.minimum((told * 5).astype(int), 4)
    return np.stack([np.bincount(fifth, w, 5) for w in (np.ones(len(told)), told, same)])


def mean(values: Iterable[float]) -> float:
    """Return the geometric mean; NaN of nothing."""
    logs = np.log([v for v in values if np.isfinite(v)])
    return float(np.exp(logs.mean())) if len(logs) else np.nan


def deciles(verdicts: Iterable[ValueVerdict]) -> list[tuple[float, float, int]]:
    """Return (largest size, share covered, pairs) for each decile of the past sizes of groups."""
    both = np.concatenate([one.sizes for one in verdicts], axis=1)
    both = both[:, np.isfinite(both[0])]
    if not both.shape[1]:
        return []
    order = np.argsort(both[0], kind="stable")
    parts = np.array_split(both[:, order], 10, axis=1)
    return [(float(p[0].max()), float(p[1].mean()), p.shape[1]) for p in parts if p.shape[1]]


def fifths(verdicts: Iterable[ValueVerdict]) -> list[tuple[float, float, int]]:
    """Return (mean said, share seen, pairs) for each fifth of the said probabilities."""
    pairs_, told, seen = np.sum([one.settled for one in verdicts], axis=0)
    return [
        (float(t / n), float(s / n), int(n))
        for n, t, s in zip(pairs_, told, seen, strict=True)
        if n
    ]


def after_changes(verdicts: Iterable[ValueVerdict]) -> tuple[float, int]:
    """Return the share covered in the first windows after changes, and the number of changes."""
    both = [one.after for one in verdicts]
    n = sum(b[1] for b in both)
    return (sum(b[2] for b in both) / n if n else np.nan), sum(b[0] for b in both)
