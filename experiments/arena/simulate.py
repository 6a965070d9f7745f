"""A slack rule over a stream, without the engine: the same late rows and the same waits.

Lowwater itself needs a millisecond or more for an epoch; this needs less than a tenth of it. The
tests compare both, row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Protocol, TypeAlias

import numpy as np

from experiments.arena.incidence import DELAY, Incidences
from experiments.arena.stream import ArenaStream, Floats, Ticks
from lowwater.control.measures import BinCounts
from lowwater.learners.slack_bins import BINS, SlackBins

BEFORE_ALL = -(1 << 62)


@dataclass(frozen=True, eq=False, slots=True)
class EpochNews:
    """What is known after an epoch.

    `needed` is the histogram of the slacks that rows need, `given` and `late` the number of rows in
    windows and of those that were late. Needed slacks count from `decided`, the newest time of the
    last watermark that could make rows late. `degrees` are the late degrees of the rows.
    """

    newest: int
    decided: int
    needed: BinCounts
    given: int
    late: int
    degrees: Ticks


class SlackRule(Protocol):
    """A rule that chooses the slack after each epoch."""

    def step(self, news: EpochNews) -> float:
        """Return the slack in ticks; called once after each epoch, in order."""


MakeRule: TypeAlias = Callable[[float, ArenaStream], SlackRule]
"""Returns the rule for a target and a stream, of which it may read only the windows."""


@dataclass(frozen=True)
class FixedSlack:
    """The rule of a constant."""

    slack: float

    def step(self, news: EpochNews) -> float:
        """Return the constant."""
        del news
        return self.slack


@dataclass(frozen=True, eq=False)
class Course:
    """The outcome of a rule: the late incidences, the wait of each window, and all slacks."""

    late: np.ndarray
    wait: Floats
    slack: Floats


@dataclass(frozen=True, eq=False)
class Simulation:
    """A stream with the measurements of its epochs, which are the same for all rules."""

    stream: ArenaStream

    @cached_property
    def incidences(self) -> Incidences:
        """All incidences of the stream, in order of arrival."""
        return Incidences.of(self.stream)

    @cached_property
    def bounds(self) -> list[int]:
        """The places at which the incidences of each epoch begin, and the end of the last."""
        return _bounds(self.incidences.epoch, len(self.stream.cuts))

    @cached_property
    def measured(self) -> list[EpochNews]:
        """What is known after each epoch; no row is late."""
        stream, bounds = self.stream, self.bounds
        rows = _bounds(stream.row_epoch, len(stream.cuts))
        degrees = np.maximum.accumulate(stream.ts) - stream.ts
        total = np.append(0, np.cumsum(self.incidences.count)).tolist()
        newest, needed = stream.newest.tolist(), self._histograms
        return [
            EpochNews(
                newest[n],
                newest[max(n - DELAY, 0)],
                needed[n],
                total[bounds[n + 1]] - total[bounds[n]],
                0,
                degrees[rows[n] : rows[n + 1]],
            )
            for n in range(len(newest))
        ]

    @cached_property
    def _histograms(self) -> list[BinCounts]:
        """The histogram of needed slacks of each epoch."""
        found = self.incidences
        bins = np.searchsorted(SlackBins.of(self.stream.range).edges, found.needed)
        places, of = np.unique(found.epoch * BINS + np.minimum(bins, BINS - 1), return_inverse=True)
        pairs = list(
            zip((places % BINS).tolist(), np.bincount(of, found.count).astype(int), strict=True)
        )
        at = _bounds(places // BINS, len(self.stream.cuts))
        return [tuple([(b, int(n)) for b, n in pairs[i:j]]) for i, j in pairwise(at)]

    def run(self, rule: SlackRule) -> Course:
        """Run `rule` over the stream."""
        found, bounds = self.incidences, self.bounds
        ends, counts = found.ends[found.window].tolist(), found.count.tolist()
        late = np.zeros(len(ends), bool)
        watermarks, slacks = [BEFORE_ALL] * DELAY, []
        for epoch, news in enumerate(self.measured):
            lost = 0
            for at in range(bounds[epoch], bounds[epoch + 1]):
                if ends[at] <= watermarks[epoch]:
                    late[at] = True
                    lost += counts[at]
            slacks.append(rule.step(replace(news, late=lost) if lost else news))
            # The watermark of epoch m is at m + DELAY, where it makes rows late.
            watermarks.append(max(watermarks[-1], news.newest - round(slacks[-1])))
        decided = np.searchsorted(watermarks[DELAY:], found.ends, side="left")
        closed = np.minimum(decided + 1, len(self.stream.cuts) - 1)
        wait = (self.stream.cuts[closed] - found.ends).astype(np.float64)
        return Course(late, wait, np.array(slacks))


def _bounds(epoch: Ticks, epochs: int) -> list[int]:
    """Return the places at which each epoch begins in a sorted column, and the end of the last."""
    return [int(place) for place in np.searchsorted(epoch, np.arange(epochs + 1))]
