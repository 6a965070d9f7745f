"""The choice of the share of windows to drop: the least with which the others are in time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Literal, TypeAlias

from lowwater.shedding.coin import Place, Rule, decide
from lowwater.shedding.drop_geometry import Params
from lowwater.shedding.forecast import Floats, Outlook

Limit: TypeAlias = Literal["max_gap", "begun", "epochs"]
"""What keeps results from being in time: `max_gap`, begun windows, or the length of epochs."""
FINE = 6
"""The share is found to 1 / 2^`FINE` of the largest share."""
EACH = 256
"""Up to this number of slots, the forecast takes the decision on each of them."""


@dataclass(frozen=True)
class Choice:
    """The share of slots to drop, the number of slots per toss, and what limits the bound."""

    share: float = 0.0
    run: int = 1
    limit: Limit | None = None


@dataclass(frozen=True)
class Search:
    """The search for the least share of slots with which an outlook has no late windows.

    `place` is the state of the decisions, `most` the longest run of dropped slots; None is a run of
    any length. If shares are `fair`, each class of groups has decisions of its own, so that the
    drops of all are even.
    """

    outlook: Outlook
    place: Place
    most: int | None
    seed: int
    fair: bool = False

    @property
    def largest(self) -> float:
        """The largest share of slots that can be dropped."""
        return 1.0 if self.most is None else self.most / (self.most + 1)

    def choice(self) -> Choice:
        """Return the choice."""
        if self._fits(0.0):
            return Choice(limit=self._limit())
        low, high = 0.0, self.largest
        if not self._fits(high):
            return Choice(high, self.run(high), "begun" if self.most is None else "max_gap")
        for _ in range(FINE):
            middle = (low + high) / 2
            low, high = (low, middle) if self._fits(middle) else (middle, high)
        return Choice(high, self.run(high), self._limit())

    def run(self, share: float) -> int:
        """Return the number of neighbouring slots to drop together, for a share of slots."""
        return run_length(self.outlook.slots.params, self.most, self.outlook.latency, share)

    def rule(self, share: float) -> Rule:
        """Return the rule of the decisions for a share of slots."""
        return rule(share, self.run(share), self.most, self.seed)

    def _fits(self, share: float) -> bool:
        """Return whether no window is late, except begun ones that are lost in any case."""
        drops, early = self._drops(share)
        return not self.outlook.late(drops, early, self._best).any()

    @cached_property
    def _best(self) -> Floats:
        """The ages of results if as much as possible is dropped."""
        return self.outlook.ages(*self._drops(self.largest))[0]

    def _limit(self) -> Limit | None:
        begun = ~self.outlook.fresh
        late = self.outlook.late(*self._drops(self.largest))
        return "begun" if (late & begun).any() else None

    def _drops(self, share: float) -> tuple[Floats, float]:
        """Return (drops by slot, the share of rows that a dropped slot saves)."""
        early = early_share(self.outlook.slots.params, self.run(share))
        if share <= 0 or self.fair or self.outlook.end - self.outlook.first > EACH:
            return self.outlook.with_share(share), early
        return self._decided(share), 1.0

    def _decided(self, share: float) -> Floats:
        steps = decide(self.place, self.rule(share), self.outlook.end)
        return self.outlook.with_runs([dropped for _, dropped in steps])


def rule(share: float, run: int, most: int | None, seed: int) -> Rule:
    """Return the rule that drops `share` of the slots, in runs of `run` up to `most` slots."""
    longest = ANY if most is None else most
    return Rule(share, min(run, longest), longest, seed)


ANY = 2**31
"""The longest run of dropped slots, if no gap limits it."""


def early_share(params: Params, run: int) -> float:
    """Return the share of rows skipped by n = `run` consecutive drops: ((n+1)δ - ω) / nδ.

    >>> early_share(Params(4, 1), 6)
    0.5
    """
    return min(1.0, params.spared(run) / (run * params.slide))


def run_length(params: Params, most: int | None, latency: float, share: float) -> int:
    """Return the number of consecutive slots to drop in order to drop `share` of the slots.

    Without overlap of windows, all run lengths skip the same share of rows, and short runs keep
    the load even. With overlap, long runs skip more rows. So a run is short compared with the
    bound, but long enough to skip `share` with one kept slot between two runs.
    """
    if params.size <= params.slide:
        return 1
    longest = ANY if most is None else most
    even = max(2 * params.overlap, int(latency // (2 * params.slide)))
    least = ceil(params.size / params.slide / max(1 - share, 1 / (longest + 1), 1e-3)) - 1
    return max(1, min(longest, max(even, least)))
