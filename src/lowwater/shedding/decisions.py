"""Which slots are left out: one coin for a batch, no run longer than allowed (DROP 3.4).

A coin decides over a batch of slots, all of which are left out, or none. After as many slots in a
row as may be missing one is opened whatever the coin says; it is owed, and a later slot that the
coin would keep is left out for it, if that makes no run too long. So both the longest run and the
share hold.

Independent coins would often fall the same way several times, and the load with them. So a coin
remembers: what has been left out too much or too little so far counts in the next toss. It stays
a coin, and no rhythm in the data can fall in step with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from lowwater.control import Stretches

CHANCE = 0.5
"""How much of a coin is chance; the rest evens out what the coins before it have done."""
OWED_RUNS = 4
"""So many runs at most are owed: what cannot be made up for is not."""


@dataclass(frozen=True)
class Rule:
    """How much is left out: a share `p`, in batches of `batch`, never more than `most` in a row."""

    p: float
    batch: int
    most: int
    seed: int

    def coin(self, number: int) -> float:
        """Return the coin of a batch: a number about 1/2 that is always the same."""
        return 0.5 + CHANCE * (Random(f"{self.seed}/{number}").random() - 0.5)  # noqa: S311


@dataclass(frozen=True)
class Place:
    """Where decisions stand: what is remembered of all slots before `slot`.

    The `run` of slots left out that ends there, those `owed`, and the batch at work: its number,
    how many slots are `left` of it, whether its coin says `drop`; `carry` is what the coins so far
    have left out too little.
    """

    slot: int
    run: int = 0
    owed: int = 0
    number: int = 0
    left: int = 0
    drop: bool = False
    carry: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return dict(vars(self))

    def skipped_to(self, slot: int) -> Place:
        """Return the place after slots that nobody decided over, which were kept."""
        return Place(slot, number=self.number + 1) if slot > self.slot else self

    def step(self, rule: Rule) -> tuple[Place, bool]:
        """Decide over the next slot; return the place after it, and whether it is left out."""
        at = self if self.left else self._toss(rule)
        owed = at.owed
        left_out = at.run < rule.most and (at.drop or owed > 0)
        if at.drop and not left_out:
            owed = min(owed + 1, OWED_RUNS * rule.most)
        elif left_out and not at.drop:
            owed -= 1
        run = at.run + 1 if left_out else 0
        return replace(at, slot=at.slot + 1, run=run, owed=owed, left=at.left - 1), left_out

    def _toss(self, rule: Rule) -> Place:
        wanted = rule.p + self.carry
        drop = rule.coin(self.number) < wanted
        carry = wanted - drop
        return replace(self, number=self.number + 1, left=rule.batch, drop=drop, carry=carry)


def decide(place: Place, rule: Rule, until: int) -> Iterator[tuple[Place, bool]]:
    """Yield the place after each slot before `until`, and whether that slot is left out.

    Where nothing is left out, only the last place.
    """
    if rule.p <= 0 and place.slot < until:
        yield Place(until, number=place.number), False
        return
    while place.slot < until:
        place, left_out = place.step(rule)
        yield place, left_out


def stretches(first: int, left_out: list[bool]) -> Stretches:
    """Return runs of slots that are left out.

    >>> stretches(7, [True, True, False, True])
    ((7, 9), (10, 11))
    """
    edges = [
        first + n
        for n, (before, now) in enumerate(zip([False, *left_out], [*left_out, False], strict=True))
        if before != now
    ]
    return tuple(zip(edges[::2], edges[1::2], strict=True))
