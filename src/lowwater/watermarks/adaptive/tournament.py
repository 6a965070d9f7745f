"""A slack rule: several candidates choose slacks as if each were alone, and the best one is obeyed.

The slack that a row needs for its window is known when the row arrives (`learners.slack_bins`). A
candidate remembers the needed slacks of the last windows, each with a memory of its own length. It
also has a *virtual watermark*: that of the stream if this candidate had chosen all slacks. So the
rows that it would have lost, and its waits, are known, whether or not it was obeyed.

A candidate of quantiles takes the smallest slack with which the share of lost rows stays within its
budget. A candidate of prices takes the slack for which the wait of a window plus the price of its
lost rows is smallest; it waits less for windows with few rows, and not at all for a wait that buys
next to nothing. Both close their own loop: debts and surpluses of the last `HORIZON` windows move
the budget or the price, debts soon, surpluses slowly. The feedback of a slack comes late by about
that slack, so the gain is bounded by it.

Of the candidates that keep the target over the horizon, the one with the shortest wait is obeyed.

The rule is a pure function of its memory, which the control log holds, and the news of an epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lowwater.control.completeness import Floats
from lowwater.control.measures import BinCounts
from lowwater.learners.slack_bins import SlackBins
from lowwater.watermarks.adaptive.tournament_memory import (
    BY_PRICE,
    MEMORY,
    UNKNOWN,
    TournamentMemory,
)

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
LONGEST_STEP = 50.0
"""More windows than this in one epoch count as this many."""


@dataclass(frozen=True)
class SlackNews:
    """The measurements of an epoch that a slack rule reads.

    - `newest`: The newest time after the epoch.
    - `reference`: The newest time from which the needed slacks count: that of the decision whose
      watermark was in force during the epoch.
    - `needed`: The histogram of the slacks that the rows of the epoch need for their windows.
    - `late`: The number of these rows that missed their window.
    """

    newest: int
    reference: int
    needed: BinCounts = ()
    late: float = 0.0


@dataclass(frozen=True)
class Tournament:
    """The rule for a target over windows of `range` ticks, one of which ends every `slide` ticks.

    >>> rule = Tournament(target=0.9, range=1_000, slide=1_000)
    >>> memory, slack = rule.step(rule.begin(), SlackNews(newest=500, reference=500))
    >>> slack
    1000
    """

    target: float
    range: int
    slide: int

    @cached_property
    def bins(self) -> SlackBins:
        """The bins of needed slacks."""
        return SlackBins.of(self.range)

    @property
    def allowed(self) -> float:
        """The share of rows that may be lost."""
        return 1.0 - self.target

    def begin(self) -> TournamentMemory:
        """Return the memory before the first epoch."""
        return TournamentMemory.of(self.range, self.range / max(self.allowed, 1e-6))

    def step(self, memory: TournamentMemory, news: SlackNews) -> tuple[TournamentMemory, int]:
        """Return the memory and the slack in ticks after an epoch; called once after each."""
        before = news.newest if memory.newest is None else memory.newest
        passed = min(max(news.newest - before, 0) / self.slide, LONGEST_STEP)
        known = self._counted(memory, news, passed)
        if known.windows < WARM_UP or known.given <= 0:
            return known.advanced(news.newest).rounded(), self.range
        care = 1 - CAUTION * np.exp(-known.windows / YOUNG)
        allowed = max(self.allowed * care, 1e-6)
        known, budget, price = self._aims(known, allowed, passed)
        slack = self._slacks(known, budget, price)
        careless = self._slacks(known, budget / care, price)
        # Care may double a wait; it must not buy a wait of another order of magnitude.
        slack = np.minimum(slack, np.maximum(2 * careless, self.range))
        known = replace(known, slack=slack).advanced(news.newest)
        known = replace(known, obeyed=self._best(known, allowed))
        return known.rounded(), self._obeyed(known, allowed, budget, price)

    def _counted(
        self, memory: TournamentMemory, news: SlackNews, passed: float
    ) -> TournamentMemory:
        """Return the memory after an epoch in which the newest time advanced by `passed` windows.

        A candidate loses a row if its virtual watermark passed the row's window: if the row needs
        more slack than the distance of that watermark from the reference.
        """
        memory = memory.faded(passed, horizon=HORIZON, scored=SCORED)
        behind = np.maximum(news.reference - memory.virtual[1], 0)
        rows = np.array([count for _, count in news.needed], np.float64)
        needs = self.bins.edges[[bin for bin, _ in news.needed]]
        beyond = needs[None, :] > behind[:, None]
        wait = np.where(memory.virtual[2] > UNKNOWN, news.newest - memory.virtual[2], self.range)
        return replace(
            memory.plus(news.needed),
            newest=news.newest,
            windows=memory.windows + passed,
            given=memory.given + rows.sum(),
            lost=memory.lost + news.late,
            lost_by=memory.lost_by + beyond @ rows,
            wait=memory.wait + wait * passed,
            waited=memory.waited + passed,
        )

    def _aims(
        self, known: TournamentMemory, allowed: float, passed: float
    ) -> tuple[TournamentMemory, Floats, Floats]:
        """Return the memory, and the budget and the price of each candidate after feedback."""
        horizon = min(known.windows, HORIZON)
        delay = 2 + 2 * known.slack / self.slide
        surplus = allowed * known.given - known.lost_by
        error = np.clip(surplus / (allowed * known.given), -2.0, 1.0)
        gain = passed * np.where(error > 0, SPENDING, 1.0)
        offset = known.offset + gain / np.maximum(SLOW * horizon, delay) * error
        offset = np.clip(offset, -3.0, 0.5)
        price = known.price * np.exp(-1.5 * gain / np.maximum(0.2 * horizon, delay) * error)
        price = np.clip(price, self.range * 1e-3, self.range * 1e7)
        rate = known.rate
        over = np.where(surplus > 0, 2 * HORIZON, np.maximum(REPAID, 2 * delay))
        base = allowed * np.exp(offset)
        paid = np.clip(surplus / (rate * over), -0.7 * base, 4 * base)
        usual = known.given / max(horizon, 1.0)
        after = replace(known, offset=offset, price=price)
        now = price * np.exp(-np.clip(error, -2.0, 0.1)) * rate / usual
        return after, np.clip(base + paid, allowed / 25, 0.5), now

    def _slacks(self, known: TournamentMemory, budget: Floats, price: Floats) -> Floats:
        """Return the slack that each candidate chooses."""
        edges = self.bins.edges[known.bins].astype(np.float64)
        beyond = known.beyond
        enough = (beyond[MEMORY] <= budget[:, None] + 1e-12).argmax(axis=1)
        cost = edges + price[:, None] * beyond[MEMORY]
        return np.asarray(edges[np.where(BY_PRICE, cost.argmin(axis=1), enough)])

    def _best(self, known: TournamentMemory, allowed: float) -> int:
        """Return the candidate that keeps the target with the shortest wait."""
        lost, wait = known.lost_by / known.given, known.wait / max(known.waited, 1e-9)
        keeps = lost <= allowed + TOLERATED
        best = int(np.where(keeps, wait, np.inf).argmin()) if keeps.any() else int(lost.argmin())
        better = 1 - BETTER - BETTER_YOUNG / max(known.windows, BETTER_YOUNG)
        if not keeps[known.obeyed] or wait[best] < wait[known.obeyed] * better:
            return best
        return known.obeyed

    def _obeyed(
        self, known: TournamentMemory, allowed: float, budget: Floats, price: Floats
    ) -> int:
        """Return the slack of the obeyed candidate, which also repays what was lost beyond its own.

        The stream has lost other rows than this candidate, because it obeyed others before.
        """
        one = known.obeyed
        owed = float(known.lost_by[one] - known.lost)
        over = max(REPAID, 2 * (2 + 2 * known.slack[one] / self.slide))
        paid = np.clip(owed / (known.rate[one] * over), -0.7 * budget[one], 2 * budget[one])
        more = np.exp(-np.clip(2 * owed / (allowed * known.given), -2.0, 1.0))
        budgets = np.clip(budget + paid, allowed / 25, 0.5)
        return int(self._slacks(known, budgets, price * more)[one])
