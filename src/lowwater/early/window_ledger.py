"""The ledger of a policy: the windows that it has requested, and those without an answer.

A policy owns each window from its beginning to its final. A prod without rows is not an answer:
the window stays in the ledger, and is requested again once rows may have come into it. If these
rows do not reach the window either, because a filter drops them, each further prod waits twice as
long as the one before. So the number of prods for a window grows with the logarithm of its age.

The ledger is compact: all windows up to one end have been requested, and runs of windows are the
exceptions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import ClassVar

from lowwater.early.window_ends import WindowEnds
from lowwater.intervals import Intervals, difference, intersection

MOST_RUNS = 256
"""The largest number of runs without an answer; beyond it, the oldest windows are given up."""


@dataclass(frozen=True)
class WindowRun:
    """The windows that end after `since` and up to `upto`, which were requested together.

    - `tries`: The number of prods that found no row.
    - `at`: The event time at the last of them.
    - `again`: The system clock from which a prod may request the windows again.
    - `reached`: Whether rows may have come into the windows since the last prod.
    """

    VERSION: ClassVar[int] = 1

    since: int
    upto: int
    tries: int = 0
    at: int = 0
    again: int = 0
    reached: bool = False

    def part(self, since: int, upto: int) -> WindowRun:
        """Return the windows of the run that end after `since` and up to `upto`."""
        return replace(self, since=max(self.since, since), upto=min(self.upto, upto))


@dataclass(frozen=True)
class WindowLedger:
    """The windows of one operator that a policy has requested.

    - `upto`: All windows that end by it have been requested, or had their finals before.
    - `waiting`: The windows whose prods are answered in the next epoch.
    - `empty`: The windows whose prods found no row.
    """

    VERSION: ClassVar[int] = 1

    upto: int | None = None
    waiting: tuple[WindowRun, ...] = ()
    empty: tuple[WindowRun, ...] = ()

    def answered(
        self, ends: Sequence[int], grid: WindowEnds, *, event: int, now: int, length: int
    ) -> tuple[WindowLedger, list[int]]:
        """Return the ledger after an epoch with answers to the windows that end at `ends`, sorted.

        Also return, for each answered window that an earlier prod found empty, how long before the
        window's end that prod came: it was too early. `event` is the event time of the answers,
        `length` the expected length of an epoch on the system clock, which reads `now`.
        """
        empty, early = list(self.empty), []
        for run in self.waiting:
            mine = ends[bisect_right(ends, run.since) : bisect_right(ends, run.upto)]
            if run.tries:
                early += [end - run.at for end in mine]
            pause = length * (2**run.tries - 1)
            tried = replace(run, tries=run.tries + 1, at=event, again=now + pause, reached=False)
            empty += _between(tried, mine, grid)
        return replace(self, waiting=(), empty=tuple(empty)), early

    def reached(self, times: Intervals, grid: WindowEnds) -> WindowLedger:
        """Return the ledger after rows with `times`: windows that may hold them are marked."""
        if not self.empty or not times:
            return self
        ends = grid.reached(times)
        runs = [part for run in self.empty for part in _split(run, ends, grid)]
        return replace(self, empty=tuple(runs))

    def above(self, low: int | None) -> WindowLedger:
        """Return the ledger without the windows that the watermark `low` closes."""
        if low is None or not self.empty:
            return self
        left = [run.part(low, run.upto) for run in self.empty if run.upto > low]
        newest = sorted(left, key=attrgetter("upto"))[-MOST_RUNS:]
        return replace(self, empty=tuple(newest))

    def requested(self, since: int, upto: int, now: int) -> WindowLedger:
        """Return the ledger with requests for new windows and for reached ones, as `waiting`.

        The new windows are those that end after `since` and up to `upto`.
        """
        again = [run for run in self.empty if run.reached and run.again <= now]
        left = tuple([run for run in self.empty if run not in again])
        new = [WindowRun(since, upto)] if upto > since else []
        return WindowLedger(max(since, upto), (*again, *new), left)


def _between(run: WindowRun, ends: Sequence[int], grid: WindowEnds) -> Iterable[WindowRun]:
    """Yield the windows of a run around those that end at `ends`."""
    for since, upto in pairwise((run.since, *ends, run.upto + 1)):
        if grid.any_end(since, upto - 1):
            yield run.part(since, upto - 1)


def _split(run: WindowRun, ends: Intervals, grid: WindowEnds) -> Iterable[WindowRun]:
    """Yield the parts of a run inside and outside of `ends`; the parts inside are reached."""
    mine = ((run.since + 1, run.upto + 1),)
    for part, reached in ((intersection(mine, ends), True), (difference(mine, ends), False)):
        for start, end in part:
            if grid.any_end(start - 1, end - 1):
                yield replace(run.part(start - 1, end - 1), reached=run.reached or reached)
