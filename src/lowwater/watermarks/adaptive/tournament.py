"""A slack rule: several candidates choose slacks as if each were alone, and the best one is obeyed.

The slack that a row needs for its window is known when the row arrives (`learners.slack_bins`). A
candidate of a memory knows the needed slacks of the last 2, 10, 50 or 500 windows. It takes the
slack for which the wait of a window plus the price of its lost rows is smallest. The *price* is the
wait that the rows of a usual window are worth. So windows with few rows wait less, and a wait that
saves next to nothing is not taken.

All candidates have the same price. It closes the loop: it rises soon while the stream has lost
more rows than the target allows, and falls slowly while it has lost fewer. It does not fall while
the slack is 0, and it has an upper bound, because rows that are lost already cannot be bought back.
The feedback of a slack comes late by about that slack, so the gain is bounded by it.

Two candidates know more than needed slacks. If late rows come in regular batches, the first holds
the watermark at the last batch, for windows that are worth the wait for the next one. If fewer rows
arrive than usual, the second holds the watermark where the shortfall began, while the missing rows
are worth the wait.

A candidate has a *virtual watermark*: that of the stream if this candidate had chosen all slacks.
So the rows that it would have lost and its waits are known, whether or not it was obeyed. The
candidate with the smallest wait plus price of lost rows over the last `SCORED` windows is obeyed;
deep in debt, the longest slack of all memories is.

The rule is a pure function of its memory, which the control log holds, and the news of an epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from lowwater.control.measures import BinCounts
from lowwater.learners.slack_bins import SlackBins
from lowwater.watermarks.adaptive.tournament_memory import (
    CANDIDATES,
    MEMORIES,
    UNKNOWN,
    USUAL,
    Floats,
    TournamentMemory,
    Whole,
)

HORIZON = float(MEMORIES[-1])
"""The windows over which the target is kept."""
SCORED = 100.0
"""The windows over which candidates are compared."""
WARM_UP = 3.0
"""The windows in which the slack is one RANGE, because too little is known."""
AIM = 0.95
"""The share of the allowed losses at which the rule aims."""
CARE, YOUNG = 0.4, 60.0
"""At first the rule aims at fewer losses by `CARE`; that ends in about `YOUNG` windows."""
REPAID, SPENT = 1 / 75, 1.1
"""The parts of the horizon in which the price rises e-fold in full debt, and falls without loss."""
DEEP = 0.5
"""The debt above which the longest slack of all memories is chosen."""
URGENCY, EASE = 2.0, 0.3
"""The exponent by which a full debt raises the price at once, and by which a surplus lowers it."""
DEAREST = 4.5
"""The largest price, as a multiple of the slack that the target needs by the allowed losses."""
DOUBT = 4.0
"""After n windows, a candidate must be better by the share `DOUBT` / n to be obeyed."""
LONGEST_STEP = 50.0
"""More windows than this in one epoch count as this many."""
FURTHER = 1.25
"""Rows unlike all others are expected to need the longest needed slack, or a RANGE, times this."""


@dataclass(frozen=True)
class SlackNews:
    """The measurements of an epoch that a slack rule reads.

    - `newest`: The newest time after the epoch.
    - `reference`: The newest time from which the needed slacks count: that of the decision whose
      watermark was in force during the epoch.
    - `needed`: The histogram of the slacks that the rows of the epoch need for their windows; its
      bins are in order.
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

    few: ClassVar[float] = 0.0
    """The number of lost rows that count as allowed while few rows are known."""
    unseen: ClassVar[float] = 0.0
    """The number of rows that are expected to need more slack than any row has needed so far."""
    cap: ClassVar[float] = 1.0
    """The largest price follows from the slack with which this part of the allowed rows is lost."""

    @cached_property
    def bins(self) -> SlackBins:
        """The bins of needed slacks."""
        return SlackBins.of(self.range)

    @cached_property
    def very_late(self) -> int:
        """The first bin of rows that need more than one RANGE."""
        return int(np.searchsorted(self.bins.edges, self.range, side="right"))

    @property
    def allowed(self) -> float:
        """The share of rows that may be lost."""
        return max(1.0 - self.target, 1e-6)

    def begin(self) -> TournamentMemory:
        """Return the memory before the first epoch."""
        return TournamentMemory(price=self.range / self.allowed, slack=self.range)

    def step(self, memory: TournamentMemory, news: SlackNews) -> tuple[TournamentMemory, int]:
        """Return the memory and the slack in ticks after an epoch; called once after each."""
        passed = self.passed(memory, news)
        known = self.counted(memory, news, passed)
        if known.windows < WARM_UP or known.given <= 0:
            slacks = np.full(CANDIDATES, self.range)
            return known.decided(news.newest, slacks, slack=self.range).rounded(), self.range
        debt = self.debt(known.lost, known.given, known.windows)
        after = self.chosen(known, self.price(known, debt, passed), debt, news.newest)
        return after, after.slack

    def passed(self, memory: TournamentMemory, news: SlackNews) -> float:
        """Return by how many windows the newest time has advanced in an epoch."""
        before = news.newest if memory.newest is None else memory.newest
        return min(max(news.newest - before, 0) / self.slide, LONGEST_STEP)

    def chosen(
        self, known: TournamentMemory, price: float, debt: float, newest: int
    ) -> TournamentMemory:
        """Return the memory with the slack that is chosen for a price and a debt."""
        urgent = price * float(np.exp(np.clip(URGENCY * debt, -EASE, URGENCY)))
        slacks = self._slacks(known, urgent, newest)
        best = self._best(known, urgent)
        slack = int(slacks[: len(MEMORIES)].max() if debt > DEEP else slacks[best])
        return known.decided(newest, slacks, price=price, obeyed=best, slack=slack).rounded()

    def counted(self, memory: TournamentMemory, news: SlackNews, passed: float) -> TournamentMemory:
        """Return the memory after an epoch in which the newest time advanced by `passed` windows.

        A candidate loses a row if its virtual watermark passed the row's window: if the row needs
        more slack than the distance of that watermark from the reference.
        """
        known = memory.faded(passed, SCORED).plus(news.needed)
        late, total = 0.0, float(sum(count for _, count in news.needed))
        lost_by = known.lost_by
        if news.needed and news.needed[-1][0] > 0:
            rows = np.array([count for _, count in news.needed], np.float64)
            bins = np.array([bin for bin, _ in news.needed], np.int64)
            behind = np.maximum(news.reference - memory.virtual[0], 0)
            lost_by = lost_by + (self.bins.edges[bins] > behind[:, None]) @ rows
            late = float(rows[bins >= self.very_late].sum())
        latest = memory.virtual[1]
        wait = np.where(latest > UNKNOWN, news.newest - latest, self.range)
        return known.having(
            windows=memory.windows + passed,
            lost=known.lost + news.late,
            rows=known.rows + total,
            lost_by=lost_by,
            wait=known.wait + wait * passed,
            batches=known.batches.plus(news.newest, late, passed=passed, shortest=self.range),
            shortfall=known.shortfall.plus(news.newest, total, float(known.rate[USUAL]) * passed),
        )

    def debt(self, lost: float, given: float, windows: float) -> float:
        """Return the rows lost beyond the aim, by those allowed; below 0 if fewer are lost.

        Of `given` rows of the horizon, `lost` ones are lost; `windows` have passed so far.
        """
        care = AIM - CARE * float(np.exp(-windows / YOUNG))
        due = self.allowed * care * given
        return float(np.clip((lost - due) / (due + self.few), -1.0, 2.0))

    def price(self, known: TournamentMemory, debt: float, passed: float) -> float:
        """Return the price after an epoch."""
        if debt < 0 and known.slack <= 0:
            return known.price
        horizon, delay = min(known.windows, HORIZON), 2 + 2 * known.slack / self.slide
        over = max(REPAID * horizon, delay / 2) if debt > 0 else max(SPENT * horizon, delay)
        enough = int((known.beyond[-1] <= self.cap * self.allowed).argmax())
        needed = max(int(self.bins.edges[known.bins[enough]]), self.range)
        price = known.price * float(np.exp(passed * debt / over))
        return min(max(price, self.range * 1e-3), DEAREST * needed / self.allowed)

    def _slacks(self, known: TournamentMemory, price: float, newest: int) -> Whole:
        """Return the slack of each candidate."""
        usual = max(float(known.rate[-1]), 1e-9)
        missing = self._until_arrival(known, price / usual, newest)
        if len(known.bins) == 1:  # no row has needed slack, so none is worth a wait
            by_batch = self._until_batch(known, 0.0, newest)
            return np.array([0] * len(MEMORIES) + [max(0, by_batch), missing], np.int64)
        edges = self.bins.edges[known.bins]
        worth = price * known.rate / usual
        cost = edges + worth[:, None] * known.beyond
        by_memory = self._by_memory(known, edges, cost, worth)
        last = max(int(np.searchsorted(known.bins, self.very_late)) - 1, 0)
        prompt = int(edges[int(cost[USUAL, : last + 1].argmin())])
        by_batch = self._until_batch(known, float(worth[USUAL] * known.beyond[USUAL, last]), newest)
        return np.append(by_memory, [max(prompt, by_batch), max(int(by_memory[0]), missing)])

    def _by_memory(
        self, known: TournamentMemory, edges: Whole, cost: Floats, worth: Floats
    ) -> Whole:
        """Return the slack of each memory: the cheapest of `edges`, or a longer one."""
        best = cost.argmin(axis=1)
        if not self.unseen:
            return np.asarray(edges[best])
        further = int(FURTHER * max(int(edges[-1]), self.range))
        unseen = worth * self.unseen / max(known.given, 1e-9)
        least = cost[np.arange(len(best)), best]
        return np.where(further < least + unseen, further, edges[best])

    def _until_batch(self, known: TournamentMemory, worth: float, newest: int) -> int:
        """Return the slack that holds windows for the next batch, if that is worth the wait."""
        expected, last = known.batches.expected, known.batches.last
        if expected is None or last is None:
            return 0
        return newest - max(last, expected - int(worth))

    def _until_arrival(self, known: TournamentMemory, each: float, newest: int) -> int:
        """Return the slack that holds windows while missing rows, worth `each`, may arrive."""
        short = known.shortfall
        if short.since is None or not short.certain(float(known.rate[USUAL])):
            return 0
        held = newest - short.since
        return held if held < each * short.missing / max(held / self.slide, 1.0) else 0

    def _best(self, known: TournamentMemory, price: float) -> int:
        """Return the candidate whose waits and lost rows cost least."""
        lost = known.lost_by / max(known.rows, 1e-9)
        cost: Floats = known.wait / max(known.waited, 1e-9) + price * lost
        best, better = int(cost.argmin()), DOUBT / max(known.windows, DOUBT)
        return best if cost[best] < cost[known.obeyed] * (1 - better) else known.obeyed
