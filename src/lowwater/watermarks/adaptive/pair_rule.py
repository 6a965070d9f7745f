"""The slack rule of a join: a slack for each side, and one price for the pairs of both.

The slack that a pair needed is known when its second row arrives. A side loses the pairs that need
more than its slack; so, for a price of lost pairs, each side chooses its slack alone, as the rule
of windows does (`tournament`). The price follows from the pairs that both sides have lost: a stream
in order needs no slack and gets none, and its part of the allowed losses is left to the other side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lowwater.watermarks.adaptive.tournament import WARM_UP, SlackNews, Tournament
from lowwater.watermarks.adaptive.tournament_memory import CANDIDATES, TournamentMemory

Sides = tuple[TournamentMemory, ...]
"""The memory of each side; all have the same price."""


@dataclass(frozen=True)
class PairRule:
    """The rule for a target of pairs, which are counted in units of `unit` ticks.

    >>> rule = PairRule(target=0.9, unit=1_000)
    >>> news = [SlackNews(newest=500, reference=500)] * 2
    >>> sides = rule.step(rule.begin(2), news)
    >>> [side.slack for side in sides]
    [1000, 1000]
    """

    target: float
    unit: int

    @property
    def each(self) -> Tournament:
        """The rule of one side."""
        return Tournament(self.target, self.unit, self.unit)

    def begin(self, sides: int) -> Sides:
        """Return the memory before the first epoch."""
        return tuple(self.each.begin() for _ in range(sides))

    def step(self, memory: Sides, news: Sequence[SlackNews]) -> Sides:
        """Return the memory, with the chosen slacks, after an epoch."""
        rule = self.each
        passed = [rule.passed(side, one) for side, one in zip(memory, news, strict=True)]
        each = zip(memory, news, passed, strict=True)
        known = [rule.counted(side, one, windows) for side, one, windows in each]
        given = max(side.given for side in known)
        if max(side.windows for side in known) < WARM_UP or given <= 0:
            slacks = np.full(CANDIDATES, self.unit)
            both = zip(known, news, strict=True)
            return tuple(s.decided(n.newest, slacks, slack=self.unit).rounded() for s, n in both)
        oldest = max(known, key=lambda side: side.windows)
        debt = rule.debt(sum(side.lost for side in known), given, oldest.windows)
        moving = [side for side in known if debt >= 0 or side.slack > 0]
        prices = [rule.price(side, debt, max(passed)) for side in moving]
        price = max(prices, default=known[0].price)
        both = zip(known, news, strict=True)
        return tuple(rule.chosen(side, price, debt, one.newest) for side, one in both)
