"""The join of QDJ under a rule that sets the slack: what it delivers, and how long rows wait.

A rule decides at the end of every step; a track is one step or more. The quality of a track is the
number of results that became final in it over the number that all rows would give, rows that arrive
later included. The buffer is the time between the newest row and the newest row that may pass, on
both sides: the slack and the sync buffer. Its mean is over rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.reference.qdj import NEVER, Floats, Ints, Join, Pair, Windows
from lowwater.watermarks.adaptive.lateness import LatenessHistogram, late_degrees
from lowwater.watermarks.adaptive.rules import RuleInput

Decide = Callable[[RuleInput], float]
"""A rule at work: from what was observed in a step to the slack of the next, in granules."""


KEEP = Windows((200, 300), 10_000)
"""A KEEP 2 s, B KEEP 3 s, SLIDE 10 ms (QDJ 6.3.1)."""


@dataclass(frozen=True)
class JoinSettings:
    """The settings of a join: windows, and the track, its steps and the granule in ticks."""

    windows: Windows = KEEP
    interval: int = 1_000_000
    granule: int = 10_000
    steps: int = 1
    lags: int = 4
    sync: bool = True

    @property
    def step(self) -> int:
        """How long a step is."""
        return self.interval // self.steps


@dataclass(frozen=True)
class JoinOutcome:
    """The outcome of a run: quality by track, slack by step, the mean buffer in ticks."""

    quality: Floats
    wanted: Floats
    slacks: Floats
    buffer: float

    @property
    def overall(self) -> float:
        """The quality of all results."""
        return float((self.quality * self.wanted).sum() / self.wanted.sum())

    @property
    def so_far(self) -> Floats:
        """The quality of all results up to the end of each track."""
        return np.cumsum(self.quality * self.wanted) / np.cumsum(self.wanted)

    def compliance(self, target: float) -> float:
        """Return the share of tracks at or above a target (QCR)."""
        return float((self.quality >= target).mean())


def deliver(
    stream: Pair, asked: JoinSettings, decide: Decide, *, first: float = 0.0, watch: bool = True
) -> JoinOutcome:
    """Run the join over a stream, with the slack `first` until the rule's first decision.

    Without `watch` a rule receives the results only, not the late degrees of rows.
    """
    join = Join(asked.windows, int(stream.ts.max()), sync=asked.sync)
    slack, slacks, ends, clocks = first, [], [], [int(NEVER), int(NEVER)]
    chunks = stream.cut(asked.step)
    for chunk, passed in zip(chunks, _passed(chunks, asked), strict=True):
        slacks.append(slack)
        wait = round(slack * asked.granule)
        join.feed(chunk, (wait, wait))
        given, wanted = join.settle()
        if passed >= 1:
            ends.append(join.settled)
        seen = observe(chunk, clocks, asked) if watch else RuleInput(())
        slack = decide(replace(seen, given=given, wanted=wanted, passed=passed))
    return _judged(join, np.array(slacks), np.array(ends))


def _passed(chunks: Sequence[Pair], asked: JoinSettings) -> list[float]:
    """Return how much of its track has passed after each step; there may be steps without rows."""
    newest = np.maximum.accumulate([int(c.ts.max()) for c in chunks])
    ends = np.append(np.diff(newest // asked.interval) > 0, True)
    shares = (newest // asked.step % asked.steps + 1) / asked.steps
    return [
        1.0 if end else min(float(share), 0.99) for end, share in zip(ends, shares, strict=True)
    ]


def observe(chunk: Pair, clocks: list[int], asked: JoinSettings) -> RuleInput:
    """Measure how late rows of a step are, and move the clocks."""
    late, newest = [], []
    for side in (0, 1):
        ts = chunk.ts[chunk.side == side]
        # Windows move by whole units; so do times, here as there, and the model is exact.
        behind = late_degrees(ts // asked.granule, clocks[side] // asked.granule)
        late.append(LatenessHistogram.of(behind, 1))
        newest.append(np.maximum(chunk.clocks[side], clocks[side]))
        clocks[side] = int(newest[-1][-1])
    at = np.linspace(0, len(chunk.ts) - 1, asked.lags).astype(np.int64)
    lags = (newest[0] - newest[1])[at] / asked.granule
    begun = min(clocks) > NEVER
    return RuleInput((late[0], late[1]), tuple(lags) if begun else (0.0,))


def _judged(join: Join, slacks: Floats, ends: Ints) -> JoinOutcome:
    cuts = np.unique(ends[ends > 0])
    wanted = np.add.reduceat(join.wanted(0, int(cuts[-1])), np.r_[0, cuts[:-1]])
    given = np.add.reduceat(join.given[: cuts[-1]], np.r_[0, cuts[:-1]])
    there = wanted > 0
    quality = given[there] / wanted[there]
    return JoinOutcome(quality, wanted[there], slacks, join.buffered / max(1, join.rows))
