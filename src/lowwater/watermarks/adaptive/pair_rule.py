"""The slack rule of a join: a slack for each side, and one price for the pairs of both.

The slack that a pair needed is known when its second row arrives. A side loses the pairs that need
more than its slack; so, for a price of lost pairs, each side chooses its slack alone, as the rule
of windows does (`tournament`). The price follows from the pairs that both sides have lost: a stream
in order needs no slack and gets none, and its part of the allowed losses is left to the other side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lowwater.watermarks.adaptive.tournament import FURTHER, WARM_UP, SlackNews, Tournament
from lowwater.watermarks.adaptive.tournament_memory import CANDIDATES, TournamentMemory

FULL = 4.0
"""A unit of time counts as a whole one if it has this many pairs; with fewer, time goes slower."""
SPARE = 20.0
"""The largest number of whole units without pairs after which time stands still."""


@dataclass(frozen=True)
class PairMemory:
    """The memory of each side, which all have the same price, and the units that may still pass."""

    VERSION: ClassVar[int] = 1

    sides: tuple[TournamentMemory, ...]
    spare: float = 0.0


@dataclass(frozen=True)
class SideRule(Tournament):
    """The rule of one side, which is cautious while few pairs are known."""

    few: ClassVar[float] = 2.0
    unseen: ClassVar[float] = 0.5
    cap: ClassVar[float] = 0.5

    def warm(self, known: TournamentMemory, newest: int) -> TournamentMemory:
        """Return the memory with a slack longer than any pair has needed so far."""
        latest = int(self.bins.edges[known.bins[-1]])
        slack = max(int(FURTHER * latest), self.range)
        chosen = {"slack": slack, "price": max(latest, self.range) / self.allowed, "lost": 0.0}
        return known.decided(newest, np.full(CANDIDATES, slack), **chosen).rounded()


@dataclass(frozen=True)
class PairRule:
    """The rule for a target of pairs, which are counted in units of `unit` ticks.

    >>> rule = PairRule(target=0.9, unit=1_000)
    >>> news = [SlackNews(newest=500, reference=500)] * 2
    >>> memory = rule.step(rule.begin(2), news)
    >>> [side.slack for side in memory.sides]
    [1000, 1000]
    """

    target: float
    unit: int

    @property
    def each(self) -> SideRule:
        """The rule of one side."""
        return SideRule(self.target, self.unit, self.unit)

    def begin(self, sides: int) -> PairMemory:
        """Return the memory before the first epoch."""
        return PairMemory(tuple(self.each.begin() for _ in range(sides)))

    def step(self, memory: PairMemory, news: Sequence[SlackNews]) -> PairMemory:
        """Return the memory, with the chosen slacks, after an epoch."""
        rule, before = self.each, memory.sides
        times = [rule.passed(side, one) for side, one in zip(before, news, strict=True)]
        pairs = sum(count for _, count in news[0].needed)
        spare = min(memory.spare + pairs / FULL, SPARE)
        passed = [min(one, spare) for one in times]
        each = zip(before, news, passed, strict=True)
        known = [rule.counted(side, one, windows) for side, one, windows in each]
        return PairMemory(self._chosen(known, news, passed), round(spare - max(passed), 6))

    def _chosen(
        self,
        known: Sequence[TournamentMemory],
        news: Sequence[SlackNews],
        passed: Sequence[float],
    ) -> tuple[TournamentMemory, ...]:
        """Return the memory of each side with the slack that is chosen."""
        rule = self.each
        given = max(side.given for side in known)
        if max(side.windows for side in known) < WARM_UP or given <= 0:
            both = zip(known, news, strict=True)
            return tuple(rule.warm(side, one.newest) for side, one in both)
        oldest = max(known, key=lambda side: side.windows)
        debt = rule.debt(sum(side.lost for side in known), given, oldest.windows)
        moving = [side for side in known if debt >= 0 or side.slack > 0]
        prices = [rule.price(side, debt, max(passed)) for side in moving]
        price = max(prices, default=max(s.price for s in known))
        both = zip(known, news, strict=True)
        return tuple(rule.chosen(side, price, debt, one.newest) for side, one in both)
