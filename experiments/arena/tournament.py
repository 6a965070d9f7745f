"""A slack rule: several candidates choose slacks as if each were alone, and the best one is obeyed.

The slack that a row needs for its window is known when the row arrives (`incidence`). A candidate
remembers the needed slacks of the last windows, each with a memory of its own length. It also has a
*virtual watermark*: that of the stream if this candidate had chosen all slacks. So the rows that it
would have lost, and its waits, are known exactly, whether or not it was obeyed.

A candidate of quantiles takes the smallest slack with which the share of lost rows stays within its
budget. A candidate of prices takes the slack for which the wait of a window plus the price of its
lost rows is smallest; it waits less for windows with few rows, and not at all for a wait that buys
next to nothing. Both close their own loop: debts and surpluses of the last `HORIZON` windows move
the budget or the price, debts soon, surpluses slowly. The feedback of a slack comes late by about
that slack, so the gain is bounded by it.

Of the candidates that keep the target over the horizon, the one with the shortest wait is obeyed.
"""

from __future__ import annotations

import numpy as np

from experiments.arena.simulate import BEFORE_ALL, EpochNews
from experiments.arena.stream import ArenaStream, Floats, Ticks

MEMORIES = np.array([5.0, 20.0, 100.0, 500.0])
"""The lengths of the memories, in windows."""
HORIZON = 500.0
"""The windows over which the target is kept."""
SCORED = 150.0
"""The windows over which the waits of candidates are compared."""
WARM_UP = 3.0
"""The windows in which the slack is one RANGE, because too little is known."""
REPAID = 40.0
"""The windows over which a debt is repaid, at least; a surplus is spent over two horizons."""
TOLERATED = 0.002
"""The share of rows that a candidate may lose beyond the allowed ones and still keep the target."""
SLOW = 0.15
"""The share of the horizon over which the budget moves, at least."""
BETTER, BETTER_YOUNG = 0.03, 8.0
"""How much shorter a wait must be to change the candidate: this share, and more of few windows."""
YOUNG, CAUTION = 60.0, 0.4
"""The budget is smaller by `CAUTION` at first, and by less and less for about `YOUNG` windows."""
SPENDING = 0.25
"""The gain of a surplus, as a share of that of a debt."""
PER_OCTAVE, BINS = 12, 320
LONGEST_STEP = 50.0
"""More windows than this in one epoch count as this many."""


class Tournament:
    """The rule for a target, over windows of one stream."""

    def __init__(self, target: float, stream: ArenaStream) -> None:
        self.allowed, self.range, self.slide = 1.0 - target, stream.range, stream.slide
        grain = max(stream.range / 256, 1.0)
        octaves = np.arange(BINS - 1) / PER_OCTAVE
        self.edges: Floats = np.concatenate([[0.0], np.round(grain * np.exp2(octaves))])
        memories = len(MEMORIES)
        self.memory = np.tile(np.arange(memories), 2)
        self.by_price = np.repeat([False, True], memories)
        candidates = 2 * memories
        self.counts = np.zeros((memories, BINS))
        self.span = np.zeros(memories)
        self.virtual: Ticks = np.full((3, candidates), BEFORE_ALL, np.int64)
        self.slack = np.full(candidates, float(stream.range))
        self.offset, self.price = (
            np.zeros(candidates),
            np.full(candidates, self.range / self.allowed),
        )
        self.given, self.lost, self.lost_by = 0.0, 0.0, np.zeros(candidates)
        self.wait, self.waited = np.zeros(candidates), 0.0
        self.windows = 0.0
        self.newest: int | None = None
        self.obeyed = memories - 1

    def step(self, news: EpochNews) -> float:
        """Return the slack after an epoch."""
        passed = 0.0 if self.newest is None else (news.newest - self.newest) / self.slide
        self.newest = news.newest
        passed = min(passed, LONGEST_STEP)
        self._count(news, passed)
        if self.windows < WARM_UP or self.given <= 0:
            self._advance(news.newest)
            return float(self.range)
        care = 1 - CAUTION * np.exp(-self.windows / YOUNG)
        allowed = self.allowed * care
        budget, price = self._aims(allowed, passed)
        for one in range(len(self.slack)):
            slack = self._slack(one, budget[one], price[one])
            careless = self._slack(one, budget[one] / care, price[one])
            # Care may double a wait; it must not buy a wait of another order of magnitude.
            self.slack[one] = min(slack, max(2 * careless, self.range))
        self._advance(news.newest)
        self._choose(allowed)
        return self._obey(allowed, budget, price)

    def _count(self, news: EpochNews, passed: float) -> None:
        """Add the rows of an epoch, in which the newest time advanced by `passed` windows."""
        self.windows += passed
        faded = np.exp(-passed / MEMORIES)
        self.counts *= faded[:, None]
        self.span = self.span * faded + passed
        over_horizon, over_score = np.exp(-passed / HORIZON), np.exp(-passed / SCORED)
        self.given *= over_horizon
        self.lost *= over_horizon
        self.lost_by *= over_horizon
        self.wait *= over_score
        self.waited *= over_score
        if len(news.needed):
            bins = np.minimum(np.searchsorted(self.edges, news.needed), BINS - 1)
            self.counts += np.bincount(bins, minlength=BINS)
            self.given += len(news.needed)
            self.lost += float(news.late.sum())
            ends = np.sort(news.decided - news.needed[news.needed > 0] + 1)
            self.lost_by += np.searchsorted(ends, self.virtual[1], side="right")
        if passed > 0:
            known = self.virtual[2] > BEFORE_ALL
            self.wait += np.where(known, news.newest - self.virtual[2], self.range) * passed
            self.waited += passed

    def _advance(self, newest: int) -> None:
        """Advance the virtual watermarks; the last three are known."""
        marks = np.maximum(self.virtual[2], newest - self.slack.astype(np.int64))
        self.virtual = np.vstack([self.virtual[1:], marks])

    def _aims(self, allowed: float, passed: float) -> tuple[Floats, Floats]:
        """Return the budget and the price of each candidate, after the feedback of its losses."""
        horizon = min(self.windows, HORIZON)
        delay = 2 + 2 * self.slack / self.slide
        surplus = allowed * self.given - self.lost_by
        error = np.clip(surplus / (allowed * self.given), -2.0, 1.0)
        gain = passed * np.where(error > 0, SPENDING, 1.0)
        self.offset += gain / np.maximum(SLOW * horizon, delay) * error
        self.offset = np.clip(self.offset, -3.0, 0.5)
        self.price *= np.exp(-1.5 * gain / np.maximum(0.2 * horizon, delay) * error)
        self.price = np.clip(self.price, self.range * 1e-3, self.range * 1e7)
        rate = self._rate()
        over = np.where(surplus > 0, 2 * HORIZON, np.maximum(REPAID, 2 * delay))
        base = allowed * np.exp(self.offset)
        paid = np.clip(surplus / (rate * over), -0.7 * base, 4 * base)
        usual = self.given / max(horizon, 1.0)
        price = self.price * np.exp(-np.clip(error, -2.0, 0.1)) * rate / usual
        return np.clip(base + paid, allowed / 25, 0.5), price

    def _rate(self) -> Floats:
        """Return the rows in a window, as each candidate remembers them."""
        rates = self.counts.sum(axis=1) / np.maximum(self.span, 1e-9)
        return np.asarray(np.maximum(rates, 1e-9)[self.memory])

    def _slack(self, one: int, budget: float, price: float) -> float:
        """Return the slack that a candidate chooses."""
        counts = self.counts[self.memory[one]]
        total = max(float(counts.sum()), 1e-9)
        beyond = np.maximum(total - np.cumsum(counts), 0.0) / total
        if not self.by_price[one]:
            return float(self.edges[np.argmax(beyond <= budget + 1e-12)])
        filled = np.flatnonzero(counts)
        last = int(filled[-1]) + 1 if len(filled) else 1
        return float(self.edges[np.argmin(self.edges[:last] + price * beyond[:last])])

    def _choose(self, allowed: float) -> None:
        """Obey the candidate that keeps the target with the shortest wait."""
        lost, wait = self.lost_by / self.given, self.wait / max(self.waited, 1e-9)
        keeps = lost <= allowed + TOLERATED
        best = int(np.where(keeps, wait, np.inf).argmin()) if keeps.any() else int(lost.argmin())
        better = 1 - BETTER - BETTER_YOUNG / max(self.windows, BETTER_YOUNG)
        if not keeps[self.obeyed] or wait[best] < wait[self.obeyed] * better:
            self.obeyed = best

    def _obey(self, allowed: float, budget: Floats, price: Floats) -> float:
        """Return the slack of the obeyed candidate, which also repays what was lost beyond its own.

        The stream has lost other rows than this candidate, because it obeyed others before.
        """
        one = self.obeyed
        owed = float(self.lost_by[one] - self.lost)
        over = max(REPAID, 2 * (2 + 2 * self.slack[one] / self.slide))
        paid = np.clip(owed / (self._rate()[one] * over), -0.7 * budget[one], 2 * budget[one])
        more = np.exp(-np.clip(2 * owed / (allowed * self.given), -2.0, 1.0))
        return self._slack(
            one, float(np.clip(budget[one] + paid, allowed / 25, 0.5)), float(price[one] * more)
        )
