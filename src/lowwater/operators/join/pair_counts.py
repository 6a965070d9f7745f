"""The counts of pairs that a join has made and lost, by the slack that they needed and by time.

The watermark of a port evicts rows of the other side. A row that arrives at port p in epoch n forms
a pair with a stored row at time t unless the watermark of p has passed the last partner of t. So
the pair needs, of the slack of p, the newest time after epoch n - 2 minus the time of that last
partner. A row is late, and forms no pair at all, if the watermark of its own port has passed the
partners of all its partners; so the earlier row of a pair has a need, too, at its own port.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowwater.control.measures import NeededSlack
from lowwater.learners.slack_bins import BINS, SlackBins
from lowwater.operators.join.plan import JoinPlan
from lowwater.ticks import FIRST_TICK

MADE, LOST = 0, 1
BOOKED = 10_000
"""The largest number of times by which an epoch books pairs; of more, the first ones share one."""


class PairCounts:
    """The counts of one epoch of a shard; `newest` are the times from which needs count, by port.

    Each pair is counted once at each port, and it is lost at no more than one of them.
    """

    def __init__(self, plan: JoinPlan, newest: dict[int, int]) -> None:
        self.plan, self.newest = plan, newest
        self.bins = SlackBins.of(plan.pair_unit)
        self.counts = np.zeros((plan.ports, 2, BINS), np.int64)
        self._times: list[tuple[np.ndarray, np.ndarray, int]] = []

    @property
    def lost(self) -> int:
        """The number of pairs that were lost."""
        return int(self.counts[:, LOST].sum())

    def own_need(self, port: int, ticks: np.ndarray) -> np.ndarray:
        """Return the slack of `port` that its rows need in order not to be late."""
        reach = self.plan.reaches[port]
        return self._behind(port, ticks, lambda at: reach.inverse.last(reach.last(at)))

    def stored_need(self, port: int, ticks: np.ndarray) -> np.ndarray:
        """Return the slack of `port` that its new rows need to meet rows of the other side."""
        return self._behind(port, ticks, self.plan.reaches[1 - port].last)

    def _behind(self, port: int, ticks: np.ndarray, last: Callable[[Any], Any]) -> np.ndarray:
        newest = self.newest.get(port, FIRST_TICK)
        if not len(ticks) or last(int(ticks.min())) >= newest:
            return np.zeros(len(ticks), np.int64)
        return np.asarray(newest - np.minimum(last(ticks), newest))

    def add(self, port: int, kind: int, needed: np.ndarray, pairs: np.ndarray) -> None:
        """Count pairs at a port: `pairs[i]` of them need the slack `needed[i]`."""
        if not pairs.any():
            return
        if not needed.any():
            self.counts[port, kind, 0] += int(pairs.sum())
            return
        bins = np.minimum(np.searchsorted(self.bins.edges, needed), BINS - 1)
        counted = np.bincount(bins, pairs, minlength=BINS)
        self.counts[port, kind] += counted.astype(np.int64)

    def book(self, kind: int, ticks: np.ndarray, pairs: np.ndarray) -> None:
        """Book pairs to the times of their rows of self: `pairs[i]` of them are at `ticks[i]`."""
        some = pairs > 0
        if some.any():
            chosen = slice(None) if some.all() else some
            self._times.append((ticks[chosen], pairs[chosen], kind))

    def needed(self) -> list[NeededSlack]:
        """Return the histograms of needed slack, one for each port with pairs."""
        return [
            NeededSlack(0, port, None, _pairs(made), _pairs(lost))
            for port, (made, lost) in enumerate(self.counts)
            if made.any() or lost.any()
        ]

    def booked(self, kind: int) -> tuple[tuple[int, int], ...]:
        """Return (end of a unit of time, number of pairs at times in it), in order."""
        mine = [(ticks, pairs) for ticks, pairs, one in self._times if one == kind]
        if not mine:
            return ()
        ticks, pairs = (np.concatenate(column) for column in zip(*mine, strict=True))
        unit = self.plan.pair_unit
        units, total = _by_unit(ticks // unit, pairs)
        first = max(len(units) - BOOKED, 0)
        total[first] = total[: first + 1].sum()
        ends = (units[first:] + 1) * unit
        return tuple(zip(ends.tolist(), total[first:].tolist(), strict=True))


def _by_unit(units: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the units of time, in order, and the number of pairs in each."""
    low, high = int(units.min()), int(units.max())
    if high - low < BOOKED:
        every = np.bincount(units - low, pairs).astype(np.int64)
        some = np.flatnonzero(every)
        return some + low, every[some]
    distinct, at = np.unique(units, return_inverse=True)
    return distinct, np.bincount(at, pairs).astype(np.int64)


def covered(places: int, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return how many of the ranges [start, end) contain each of `places` places."""
    n = places + 1
    return np.cumsum(np.bincount(start, minlength=n) - np.bincount(end, minlength=n))[:-1]


def summed(values: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the sum of `values` in each range of places [start, end)."""
    upto = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=upto[1:])
    return np.asarray(upto[end] - upto[start])


def _pairs(counts: np.ndarray) -> tuple[tuple[int, int], ...]:
    bins = np.flatnonzero(counts)
    return tuple(zip(bins.tolist(), counts[bins].tolist(), strict=True))
