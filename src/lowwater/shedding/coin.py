"""The coin that drops slots: one toss for a batch, and no run longer than allowed (DROP 3.4).

A coin decides over a batch of slots: all are dropped, or none. After the longest allowed run, the
next slot is kept in any case. That slot is owed: a later slot that the coin would keep is dropped
instead, if no run becomes too long. So both the longest run and the share hold.

Independent coins would often fall the same way several times in a row, and the load would vary with
them. So each toss corrects for the excess of the tosses before. It remains random, so no period in
the data can fall in step with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from lowwater.intervals import Intervals

CHANCE = 0.5
"""The random part of a coin; the rest evens out the coins before."""
OWED_RUNS = 4
"""The largest number of runs that are owed; more could not be made up for."""


@dataclass(frozen=True)
class Rule:
    """Drop a share of slots, in batches of `batch`, at most `most` in a row."""

    share: float
    batch: int
    most: int
    seed: int

    def coin(self, number: int) -> float:
        """Return the random number of a batch, around 1/2; every call returns the same number."""
        return 0.5 + CHANCE * (Random(f"{self.seed}/{number}").random() - 0.5)  # noqa: S311


@dataclass(frozen=True)
class Place:
    """The state of the decisions before the slot `slot`.

    - `run`: The length of the run of dropped slots that ends there.
    - `owed`: The number of slots that are owed.
    - `number`, `left`, `drop`: The current batch: its number, its remaining slots, and whether its
      coin fell on drop.
    - `carry`: By how much the coins so far have fallen short of the share.
    """

    slot: int
    run: int = 0
    owed: int = 0
    number: int = 0
    left: int = 0
    drop: bool = False
    carry: float = 0.0

    def skipped_to(self, slot: int) -> Place:
        """Return the place before `slot`; the undecided slots in between were kept."""
        return Place(slot, number=self.number + 1) if slot > self.slot else self

    def step(self, rule: Rule) -> tuple[Place, bool]:
        """Return the place after the next slot, and whether that slot is dropped."""
        at = self if self.left else self._toss(rule)
        owed = at.owed
        dropped = at.run < rule.most and (at.drop or owed > 0)
        if at.drop and not dropped:
            owed = min(owed + 1, OWED_RUNS * rule.most)
        elif dropped and not at.drop:
            owed -= 1
        run = at.run + 1 if dropped else 0
        return replace(at, slot=at.slot + 1, run=run, owed=owed, left=at.left - 1), dropped

    def _toss(self, rule: Rule) -> Place:
        wanted = rule.share + self.carry
        drop = rule.coin(self.number) < wanted
        carry = wanted - drop
        return replace(self, number=self.number + 1, left=rule.batch, drop=drop, carry=carry)


def decide(place: Place, rule: Rule, until: int) -> Iterator[tuple[Place, bool]]:
    """Yield the place after each slot before `until`, and whether that slot is dropped.

    If the share is 0, yield only the last place.
    """
    if rule.share <= 0 and place.slot < until:
        yield Place(until, number=place.number), False
        return
    while place.slot < until:
        place, dropped = place.step(rule)
        yield place, dropped


def dropped_runs(first: int, dropped: list[bool]) -> Intervals:
    """Return the runs of dropped slots, given each slot from `first` on.

    >>> dropped_runs(7, [True, True, False, True])
    ((7, 9), (10, 11))
    """
    pairs = pairwise([False, *dropped, False])
    edges = [first + n for n, (before, now) in enumerate(pairs) if before != now]
    return tuple(zip(edges[::2], edges[1::2], strict=True))
