"""A free join of two streams under a slack rule, simulated: which pairs are made, and the slacks.

The slack that a pair needs at each side follows from the arrivals alone, so all pairs are listed
once, and then any rule is played over their needs. A watermark that is decided after epoch n - 2
makes rows of epoch n late.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.arena.joins.families import EPOCH, Drawn, Ticks
from lowwater.learners.slack_bins import SlackBins
from lowwater.ticks import FIRST_TICK
from lowwater.watermarks.adaptive.pair_rule import PairRule
from lowwater.watermarks.adaptive.tournament import SlackNews

UNIT = 1_000_000
"""The unit of time in which pairs are counted, in ticks."""
NEVER = FIRST_TICK // 4


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs of two streams, and how the streams progress.

    - `epoch`, `bound`: By side, the epoch in which a pair needs that the watermark of the side is
      not above the bound.
    - `newest`: By side, the newest time at the end of each epoch.
    - `length`: The length of an epoch, in ticks.
    """

    epoch: Ticks
    bound: Ticks
    newest: Ticks
    length: int

    @classmethod
    def of(cls, streams: Drawn, reach: int, length: int = EPOCH) -> Pairs:
        """Return the pairs of equal keys whose times are at most `reach` apart."""
        epochs = [one.arrived // length for one in streams]
        last = max(int(one.max()) for one in epochs) + 1
        newest = np.full((2, last + 1), NEVER, np.int64)
        for side, (one, at) in enumerate(zip(streams, epochs, strict=True)):
            np.maximum.at(newest[side], at, one.ts)
        newest = np.maximum.accumulate(newest, axis=1)
        mine, theirs = matches(streams, reach)
        ts = np.stack([streams[0].ts[mine], streams[1].ts[theirs]])
        at = np.stack([epochs[0][mine], epochs[1][theirs]])
        later = at >= at[::-1]
        later &= at != at[::-1]  # rows of one epoch always meet, unless one of them is late
        bound = np.where(later, ts[::-1] + reach, ts + 2 * reach)
        return cls(at, bound, newest, length)

    @cached_property
    def needed(self) -> Ticks:
        """By side, the slack that each pair needs."""
        before = np.maximum(self.epoch - 2, 0)
        newest = np.stack([self.newest[side][before[side]] for side in (0, 1)])
        return np.where(self.epoch >= 2, np.maximum(newest - self.bound, 0), 0)  # noqa: PLR2004

    @cached_property
    def begun(self) -> np.ndarray:
        """The epochs after which both streams have had a row."""
        return np.flatnonzero((self.newest > NEVER).all(axis=0))


def matches(streams: Drawn, reach: int) -> tuple[Ticks, Ticks]:
    """Return the rows of both streams that form pairs."""
    found: list[tuple[Ticks, Ticks]] = []
    for key in np.intersect1d(streams[0].key, streams[1].key):
        rows = [np.flatnonzero(one.key == key) for one in streams]
        order = rows[1][np.argsort(streams[1].ts[rows[1]], kind="stable")]
        at, times = streams[1].ts[order], streams[0].ts[rows[0]]
        start, end = np.searchsorted(at, times - reach), np.searchsorted(at, times + reach, "right")
        which = np.repeat(np.arange(len(times)), end - start)
        place = np.arange(len(which)) - np.repeat(
            np.cumsum(end - start) - (end - start), end - start
        )
        found.append((rows[0][which], order[start[which] + place]))
    return np.concatenate([rows for rows, _ in found]), np.concatenate([rows for _, rows in found])


@dataclass(frozen=True, eq=False)
class Course:
    """Which pairs were made, and the sum of the slacks of both sides after each epoch, in ticks."""

    made: np.ndarray
    waits: Ticks


def play(pairs: Pairs, target: float) -> Course:
    """Run the rule of joins."""
    rule, bins = PairRule(target, UNIT), SlackBins.of(UNIT)
    memory, marks = rule.begin(2), np.full_like(pairs.newest, NEVER)
    epochs = len(pairs.newest[0])
    found = pairs.epoch.max(axis=0)
    order = np.argsort(found, kind="stable")
    ends = np.searchsorted(found[order], np.arange(epochs + 1))
    lost = np.zeros(pairs.epoch.shape, bool)
    for epoch in range(epochs):
        news, before = [], max(epoch - 2, 0)
        mine = order[ends[epoch] : ends[epoch + 1]]
        for side in (0, 1):
            came = pairs.epoch[side][mine]
            late = pairs.bound[side][mine] < marks[side, np.maximum(came - 2, 0)]
            lost[side, mine] = late & (came >= 2)  # noqa: PLR2004
            counts = bins.count(pairs.needed[side][mine], np.ones(len(mine), np.int64))
            newest, reference = (int(pairs.newest[side, e]) for e in (epoch, before))
            news.append(SlackNews(newest, reference, counts, float(lost[side, mine].sum())))
        if epoch >= pairs.begun[0]:
            memory = rule.step(memory, news)
            now = [one.newest - kept.slack for one, kept in zip(news, memory.sides, strict=True)]
            marks[:, epoch] = np.maximum(marks[:, epoch - 1], now)
    return Course(np.asarray(~lost.any(axis=0)), (pairs.newest - marks).sum(axis=0))
