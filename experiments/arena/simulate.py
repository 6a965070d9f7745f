"""A slack rule over a stream, without the engine: the same late rows and the same waits.

Lowwater itself needs a millisecond or more for an epoch; this needs a tenth of it. The tests
compare both, row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np

from experiments.arena.incidence import DELAY, Incidences
from experiments.arena.stream import ArenaStream, Floats, Ticks

BEFORE_ALL = -(1 << 62)


@dataclass(frozen=True, eq=False)
class EpochNews:
    """What is known after an epoch.

    `needed` is the slack that each new incidence needs, `late` which of them were late. The needed
    slack counts from `decided`, the newest time of the last watermark that could make them late.
    """

    newest: int
    decided: int
    needed: Ticks
    late: np.ndarray


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
    """A stream whose incidences are sorted by epoch."""

    stream: ArenaStream

    @cached_property
    def incidences(self) -> Incidences:
        """All incidences of the stream, in order of arrival."""
        return Incidences.of(self.stream)

    def run(self, rule: SlackRule) -> Course:
        """Run `rule` over the stream."""
        stream, found = self.stream, self.incidences
        bounds = np.searchsorted(found.epoch, np.arange(len(stream.cuts) + 1)).tolist()
        ends = found.ends[found.window]
        late = np.zeros(len(ends), bool)
        watermarks = np.full(len(stream.cuts) + DELAY, BEFORE_ALL, np.int64)
        slacks = np.zeros(len(stream.cuts))
        for epoch, newest in enumerate(stream.newest.tolist()):
            a, b = bounds[epoch], bounds[epoch + 1]
            late[a:b] = ends[a:b] <= watermarks[epoch]
            decided = int(stream.newest[max(epoch - DELAY, 0)])
            slacks[epoch] = rule.step(EpochNews(newest, decided, found.needed[a:b], late[a:b]))
            # The watermark of epoch m is at m + DELAY, where it makes rows late.
            before = watermarks[epoch + DELAY - 1]
            watermarks[epoch + DELAY] = max(before, newest - round(slacks[epoch]))
        decided_at = np.searchsorted(watermarks[DELAY:], found.ends, side="left")
        closed = np.minimum(decided_at + 1, len(stream.cuts) - 1)
        return Course(late, (stream.cuts[closed] - found.ends).astype(np.float64), slacks)
