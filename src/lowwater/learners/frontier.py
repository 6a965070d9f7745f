"""The frontier of windows over a recorded stream: what completeness costs in waiting time.

The watermark that is decided after epoch m is the newest time minus the slack, and closes windows
at the end of epoch m + 1, after the rows of that epoch. So a row of epoch n reaches a window that
ends at e if its slack is more than the newest time after epoch n - 2, minus e. The least such slack
is the *needed* slack of the row for this window, and the share of pairs (row, window) whose needed
slack is at most K is the completeness under the fixed slack K.

A window waits from the moment at which the newest time reached its end until its final. So a
source that is always five minutes behind does not count as waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from lowwater.control.completeness import Floats, Ticks
from lowwater.ticks import BEGIN
from lowwater.windows.sliding import Sliding

DELAY = 2
"""The number of epochs from a newest time to the rows that its watermark makes late."""
MOST_SLACKS = 400
"""The largest number of slacks of a frontier."""


@dataclass(frozen=True, eq=False)
class RecordedProgress:
    """The progress of a stream on its arrival clock.

    `cuts` are the ends of the epochs, and `newest` the newest time after each. The newest time
    rose to `times[i]` at `moments[i]`; both ascend.
    """

    cuts: Ticks
    newest: Ticks
    times: Ticks
    moments: Ticks

    @classmethod
    def of(cls, ticks: Ticks, arrived: Ticks, cuts: Ticks) -> RecordedProgress:
        """Return the progress of rows in the order of arrival."""
        running = np.maximum.accumulate(ticks) if len(ticks) else ticks
        rises = np.flatnonzero(np.diff(running, prepend=BEGIN) > 0)
        rows = np.searchsorted(arrived, cuts, side="left")
        known = np.append(BEGIN, running)
        return cls(cuts, known[rows], running[rises], arrived[rises])

    @classmethod
    def least(cls, several: Sequence[RecordedProgress]) -> RecordedProgress:
        """Return the progress of a union of streams: as far as all of them have come."""
        if len(several) == 1:
            return several[0]
        times = np.unique(np.concatenate([one.times for one in several]))
        moments = [one.reached(times) for one in several]
        known = np.logical_and.reduce([reached >= 0 for reached in moments])
        newest = np.minimum.reduce([one.newest for one in several])
        last = np.maximum.reduce(moments)
        return cls(several[0].cuts, newest, times[known], last[known])

    def reached(self, times: Ticks) -> Ticks:
        """Return the moment at which the newest time reached each of `times`; -1 for never."""
        at = np.searchsorted(self.times, times, side="left")
        return np.append(self.moments, -1)[at]

    def epoch_of(self, arrived: Ticks) -> Ticks:
        """Return the number of the epoch of each arrival."""
        return np.searchsorted(self.cuts, arrived, side="right")

    def closed(self, ends: Ticks, slack: int) -> Ticks:
        """Return the epoch in which windows with these ends close under a fixed slack."""
        decided = np.searchsorted(self.newest, ends + slack, side="left")
        return np.minimum(decided + 1, len(self.cuts) - 1)


@dataclass(frozen=True, eq=False)
class NeededSlacks:
    """Pairs of rows and windows: `rows[i]` rows need the slack `needed[i]` for `window[i]`.

    Windows are numbered in the order of their ends; `ends` and `starts` have those with a row.
    """

    starts: Ticks
    ends: Ticks
    window: Ticks
    rows: Ticks
    needed: Ticks

    @classmethod
    def of(
        cls, windows: Sliding, ticks: Ticks, epoch: Ticks, progress: RecordedProgress
    ) -> NeededSlacks:
        """Return the pairs of rows with these times and epochs.

        Rows of the same pane and epoch need the same slack, so they are counted together.
        """
        cells = np.stack([windows.pane_of(ticks), epoch])
        (pane, when), rows = np.unique(cells, axis=1, return_counts=True)
        at = pane * windows.pane + windows.origin
        first, last = windows.first(at), windows.last(at)
        count = np.maximum(last - first + 1, 0)
        cell = np.repeat(np.arange(len(rows)), count)
        number = np.arange(len(cell)) - np.repeat(np.cumsum(count) - count, count)
        ids, window = np.unique(first[cell] + number, return_inverse=True)
        ends = np.asarray(windows.end(ids), np.int64)
        decided = progress.newest[np.maximum(when[cell] - DELAY, 0)]
        past = np.where(when[cell] >= DELAY, decided - ends[window] + 1, 0)
        starts = np.asarray(windows.start(ids), np.int64)
        return cls(starts, ends, window.ravel(), rows[cell], np.maximum(past, 0))

    @classmethod
    def together(cls, several: Sequence[NeededSlacks]) -> NeededSlacks:
        """Return the pairs of several windows, or of several streams with equal windows."""
        if len(several) == 1:
            return several[0]
        bounds = np.concatenate([np.stack([one.starts, one.ends]) for one in several], axis=1)
        unique, place = np.unique(bounds[::-1], axis=1, return_inverse=True)
        before = np.cumsum([0, *(len(one.ends) for one in several)])
        parts = zip(before, several, strict=False)
        window = np.concatenate([place.ravel()[b + one.window] for b, one in parts])
        rows, needed = (
            np.concatenate([getattr(one, name) for one in several]) for name in ("rows", "needed")
        )
        return cls(unique[1], unique[0], window, rows, needed)

    @property
    def total(self) -> int:
        """The number of pairs."""
        return int(self.rows.sum())


@dataclass(frozen=True, eq=False)
class Frontier:
    """What fixed slacks cost: completeness and waits for each slack from 0 on.

    >>> times = arrived = np.array([1, 12, 25, 38])
    >>> progress = RecordedProgress.of(times, arrived, cuts=np.array([10, 20, 30, 40, 50]))
    >>> epochs = progress.epoch_of(arrived)
    >>> pairs = NeededSlacks.of(Sliding(range=10, slide=10), times, epochs, progress)
    >>> frontier = Frontier(pairs, progress)
    >>> frontier.completeness(0), frontier.waits(0).tolist(), frontier.waits(10).tolist()
    (1.0, [18, 15, 12], [28, 25, 12])
    """

    pairs: NeededSlacks
    progress: RecordedProgress

    @cached_property
    def _sorted(self) -> tuple[Ticks, Floats]:
        """Needed slacks in ascending order, and the share of pairs that need at most each."""
        order = np.argsort(self.pairs.needed, kind="stable")
        covered = np.cumsum(self.pairs.rows[order])
        return self.pairs.needed[order], covered / max(self.pairs.total, 1)

    def completeness(self, slack: int) -> float:
        """Return the share of pairs (row, window) that are in time under a fixed slack."""
        needed, share = self._sorted
        at = int(np.searchsorted(needed, slack, side="right"))
        return float(share[at - 1]) if at else float(not len(needed))

    def slack(self, completeness: float) -> int:
        """Return the smallest slack with at least this completeness."""
        needed, share = self._sorted
        if not len(needed):
            return 0
        at = int(np.searchsorted(share, completeness - 1e-12, side="left"))
        return int(needed[min(at, len(needed) - 1)])

    @cached_property
    def _since(self) -> tuple[Ticks, Ticks]:
        """The ends of the windows that the stream has reached, and the moments when it did."""
        moments = self.progress.reached(self.pairs.ends)
        known = moments >= 0
        return self.pairs.ends[known], moments[known]

    def waits(self, slack: int) -> Ticks:
        """Return the wait of each window under a fixed slack.

        Windows whose ends the stream never reached are left away.
        """
        ends, moments = self._since
        return np.asarray(self.progress.cuts[self.progress.closed(ends, slack)] - moments)

    def mean_wait(self, slack: int) -> float:
        """Return the mean wait of the windows under a fixed slack."""
        waits = self.waits(slack)
        return float(waits.mean()) if len(waits) else 0.0

    def points(self) -> list[tuple[int, float, float]]:
        """Return (slack, completeness, mean wait) of slacks from 0 to the largest needed one."""
        shares = 1 - np.append(np.geomspace(1, 1e-5, MOST_SLACKS - 2), 0.0)
        slacks = sorted({0, *(self.slack(float(share)) for share in shares)})
        return [(slack, self.completeness(slack), self.mean_wait(slack)) for slack in slacks]


@dataclass(frozen=True)
class Price:
    """The price of a completeness: the slack, and the mean and the 95 % quantile of the waits."""

    completeness: float
    slack: int
    delivered: float
    mean: float
    most: float


TARGETS = (0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 1.0)
"""The shares whose prices a profile lists."""
STEEP = 2.5
"""A share costs much more than the one before it if the mean wait is this many times longer."""


def prices(
    frontier: Frontier,
    targets: Sequence[float] = TARGETS,
    plain: Callable[[int], int] = lambda slack: slack,
) -> list[Price]:
    """Return the price of no slack, then of each target that the price before does not deliver.

    `plain` rounds slacks up to plain lengths.
    """
    known = [price(frontier, frontier.completeness(0), 0)]
    for target in targets:
        if target > known[-1].delivered:
            known.append(price(frontier, target, plain(frontier.slack(target))))
    return known


def price(frontier: Frontier, target: float, slack: int) -> Price:
    """Return the price of a slack that was chosen for a target."""
    waits = frontier.waits(slack)
    mean, most = (float(waits.mean()), float(np.quantile(waits, 0.95))) if len(waits) else (0, 0)
    return Price(target, slack, frontier.completeness(slack), mean, most)


def knees(known: Sequence[Price], shortest: int) -> list[tuple[Price, Price]]:
    """Return neighbouring prices of which the second is much higher than the first.

    A difference of less than `shortest`, the length of an epoch, does not count.
    """
    pairs = pairwise(known)
    return [(a, b) for a, b in pairs if b.mean > STEEP * a.mean and b.mean - a.mean > shortest]
