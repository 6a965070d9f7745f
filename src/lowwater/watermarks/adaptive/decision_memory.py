"""The records that the adapter writes to the control log: one per input and one per decision."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar

from lowwater.control.watermark import SourceKey
from lowwater.watermarks.adaptive.lateness import LatenessHistogram
from lowwater.watermarks.adaptive.rules import RuleState


@dataclass(frozen=True)
class LatenessMemory:
    """The lateness of the rows of one input.

    - `newest`, `largest`: By source, the newest time, and the largest late degree in ticks.
    - `oldest`: The earliest time among the first rows of all blocks.
    - `fresh`: By source, the late degrees since slacks were last chosen.
    - `ends`: The newest time at the end of each of the last epochs.
    """

    VERSION: ClassVar[int] = 1

    newest: dict[SourceKey, int] = field(default_factory=dict)
    oldest: int | None = None
    largest: dict[SourceKey, int] = field(default_factory=dict)
    fresh: dict[SourceKey, LatenessHistogram] = field(default_factory=dict)
    ends: tuple[int, ...] = ()

    @property
    def shortest_epoch(self) -> int:
        """The smallest advance of the newest time in one of the last epochs, in ticks.

        A new watermark acts one to two epochs after its decision. Until then, the newest time
        advances by at least this distance. It is the minimum and not the mean, because a missed
        target is worse than a longer wait.
        """
        return min((b - a for a, b in pairwise(self.ends)), default=0)


@dataclass(frozen=True)
class Tally:
    """The number of results produced (`given`), and the number lost to late rows (`lost`)."""

    given: float = 0
    lost: float = 0

    def plus(self, given: float, lost: float) -> Tally:
        """Return the tally with `given` and `lost` added."""
        return Tally(self.given + given, self.lost + lost)


@dataclass(frozen=True)
class SourceTally:
    """The result counts of one source: since slacks were last chosen, and for the whole run."""

    since_choice: Tally = Tally()
    total: Tally = Tally()

    def plus(self, given: float, lost: float) -> SourceTally:
        """Return the tally with `given` and `lost` added."""
        return SourceTally(self.since_choice.plus(given, lost), self.total.plus(given, lost))


@dataclass(frozen=True)
class TrackRecord:
    """The record of an ended interval: its end, measured and estimated quality, and slacks.

    `quality` is None if the interval had no results.
    """

    end: int
    quality: float | None
    estimated: float | None
    slacks: tuple[int, ...]


@dataclass(frozen=True)
class DecisionMemory:
    """The memory of a `SlackDecision`, for the streams of one operator.

    - `interval`, `step`: The number of the current interval, and of the latest slack choice in it.
    - `ended`: Whether new slacks were chosen after the last epoch.
    - `calm`: Whether the last epoch ended an interval without late rows.
    - `sure`: Whether enough rows have been counted to trust the rule.
    - `longer`: The number of epochs that were longer than an interval.
    - `count`, `since_choice`, `total`: The result counts of the current interval, since the last
      choice, and of the whole run.
    - `results`, `result_rows`: The number of results in the whole run, and of the rows in them.
    - `lags`: How far the first stream was ahead of the second after recent epochs, in granules.
    - `slacks`, `source_slacks`: The slack of each port, and of each source of an input, in ticks.
    - `own`: The result counts of each source.
    - `rule`, `source_rules`: The state of the operator's rule, and of each source's rule.
    - `recent`: The records of the last intervals.
    - `met`, `judged`: The number of intervals that met the target, and of intervals with a quality.
    - `estimated`: The quality that the model estimates for the current slacks.
    """

    VERSION: ClassVar[int] = 1

    interval: int | None = None
    step: int = 0
    ended: bool = False
    calm: bool = False
    sure: bool = False
    longer: int = 0
    count: Tally = Tally()
    since_choice: Tally = Tally()
    total: Tally = Tally()
    results: int = 0
    result_rows: int = 0
    lags: tuple[float, ...] = ()
    slacks: tuple[int, ...] = ()
    source_slacks: dict[tuple[int, SourceKey], int] = field(default_factory=dict)
    own: dict[SourceKey, SourceTally] = field(default_factory=dict)
    rule: RuleState | None = None
    source_rules: dict[tuple[int, SourceKey], RuleState] = field(default_factory=dict)
    recent: tuple[TrackRecord, ...] = ()
    met: int = 0
    judged: int = 0
    estimated: float | None = None

    def plus(self, given: float, lost: float, results: int = 0, rows: int = 0) -> DecisionMemory:
        """Return the memory with `given`, `lost`, `results` and `rows` added to its counts."""
        return replace(
            self,
            count=self.count.plus(given, lost),
            since_choice=self.since_choice.plus(given, lost),
            total=self.total.plus(given, lost),
            results=self.results + results,
            result_rows=self.result_rows + rows,
        )
