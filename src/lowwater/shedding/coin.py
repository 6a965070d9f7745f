"""The random choice of slots to drop: one coin toss per batch, and bounded runs (DROP 3.4).

A slot is an interval of result times (`drop_geometry`). One toss drops or keeps a whole batch of
neighbouring slots. After the longest allowed run of dropped slots, the next slot is always kept. If
the coin would have dropped that slot, one drop is *owed*: a later slot that the coin would keep is
dropped instead, unless the run becomes too long. So runs stay bounded, and the share is met.

Independent tosses would have long series of equal results, and the load would vary. So each toss
corrects the excess of earlier tosses. A random part remains, so that drops do not follow a period
in the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from lowwater.intervals import Intervals

CHANCE = 0.5
"""Random numbers are at most `CHANCE` / 2 from 1/2; a small value spreads drops evenly."""
OWED_RUNS = 4
"""The largest number of owed drops is this number times the longest allowed run."""


@dataclass(frozen=True)
class Rule:
    """The rule of drops: share of slots to drop, slots per toss, longest run, and random seed."""

    share: float
    batch: int
    most: int
    seed: int

    def coin(self, number: int) -> float:
        """Return the random number of batch `number`, which is the same in every call."""
        return 0.5 + CHANCE * (Random(f"{self.seed}/{number}").random() - 0.5)  # noqa: S311


@dataclass(frozen=True)
class Place:
    """The state of the decisions before the slot `slot`.

    - `run`: The length of the run of dropped slots directly before `slot`.
    - `owed`: The number of drops that are owed.
    - `number`, `left`, `drop`: The number of the next batch, the remaining slots of the current
      batch, and whether the coin dropped the current batch.
    - `carry`: The number of batches that the share requires so far, minus the dropped batches.
    """

    slot: int
    run: int = 0
    owed: int = 0
    number: int = 0
    left: int = 0
    drop: bool = False
    carry: float = 0.0

    def skipped_to(self, slot: int) -> Place:
        """Return the state before `slot`; skipped slots had no decision, so they were kept."""
        return Place(slot, number=self.number + 1) if slot > self.slot else self

    def step(self, rule: Rule) -> tuple[Place, bool]:
        """Return the state after the next slot, and whether that slot is dropped."""
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
    """Yield, for each slot before `until`, the state after the slot and whether it is dropped.

    If the share is 0, yield this pair only for the last slot.
    """
    if rule.share <= 0 and place.slot < until:
        yield Place(until, number=place.number), False
        return
    while place.slot < until:
        place, dropped = place.step(rule)
        yield place, dropped


def dropped_runs(first: int, dropped: list[bool]) -> Intervals:
    """Return the runs [start, end) of dropped slots; `dropped[i]` belongs to slot `first` + i.

    >>> dropped_runs(7, [True, True, False, True])
    ((7, 9), (10, 11))
    """
    pairs = pairwise([False, *dropped, False])
    edges = [first + n for n, (before, now) in enumerate(pairs) if before != now]
    return tuple(zip(edges[::2], edges[1::2], strict=True))
