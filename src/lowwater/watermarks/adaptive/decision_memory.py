"""The memory of the adapter in the control log: for each input, and for each decision."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar

from lowwater.control.watermark import SourceKey
from lowwater.watermarks.adaptive.lateness import LatenessHistogram
from lowwater.watermarks.adaptive.rules import RuleState


@dataclass(frozen=True)
class LatenessMemory:
    """How late the rows of one input are.

    - `newest`, `largest`: By source, the newest time, and the largest late degree in ticks.
    - `oldest`: The first time.
    - `fresh`: By source, the late degrees since slacks were last chosen.
    - `ends`: The newest times at the ends of the last epochs.
    """

    VERSION: ClassVar[int] = 1

    newest: dict[SourceKey, int] = field(default_factory=dict)
    oldest: int | None = None
    largest: dict[SourceKey, int] = field(default_factory=dict)
    fresh: dict[SourceKey, LatenessHistogram] = field(default_factory=dict)
    ends: tuple[int, ...] = ()

    @property
    def shortest_epoch(self) -> int:
        """How far the newest time advances, at least, before the watermark of an epoch acts.

        The watermark acts one to two epochs after it was decided. The shortest epoch counts instead
        of the mean, because missing a target costs more than waiting.
        """
        return min((b - a for a, b in pairwise(self.ends)), default=0)


@dataclass(frozen=True)
class Tally:
    """Results that were produced, and that late rows lost."""

    given: float = 0
    lost: float = 0

    def plus(self, given: float, lost: float) -> Tally:
        """Return the tally with `given` and `lost` added."""
        return Tally(self.given + given, self.lost + lost)


@dataclass(frozen=True)
class SourceTally:
    """The results of one source since slacks were last chosen, and in all."""

    since_choice: Tally = Tally()
    total: Tally = Tally()

    def plus(self, given: float, lost: float) -> SourceTally:
        """Return the tally with `given` and `lost` added."""
        return SourceTally(self.since_choice.plus(given, lost), self.total.plus(given, lost))


@dataclass(frozen=True)
class TrackRecord:
    """An interval that has ended: its end, its quality, the estimate of it, and the slacks.

    The quality is None if the interval had no results.
    """

    end: int
    quality: float | None
    estimated: float | None
    slacks: tuple[int, ...]


@dataclass(frozen=True)
class DecisionMemory:
    """The memory of the decisions about the slacks for one operator.

    - `interval`, `step`: The number of the current interval, and of the step in it.
    - `ended`, `calm`: Whether the last epoch ended a step with a choice, or an interval without
      late rows.
    - `sure`: Whether enough rows are known to trust the rule.
    - `longer`: The number of epochs that were longer than an interval.
    - `count`, `since_choice`, `total`: The results of the current interval, since the last choice,
      and in all.
    - `results`, `result_rows`: The number of results in all, and of the rows in them.
    - `unseen`: The number of lost results that could not be counted exactly.
    - `windows`: The last windows: number, rows, and rows that missed them.
    - `lags`: How far the first stream was ahead of the other, in granules, at the last moments.
    - `slacks`, `source_slacks`: The slack of each port, and of each source of an input, in ticks.
    - `own`: The results of each source.
    - `rule`, `source_rules`: The state of the rule, and of each source's rule.
    - `recent`: The last intervals.
    - `met`, `judged`: The number of intervals that met the target, and that had a quality.
    - `estimated`: The quality that the model expects with the current slacks.
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
    unseen: int = 0
    windows: tuple[tuple[int, int, int], ...] = ()
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
        """Return the memory with more results produced and lost."""
        return replace(
            self,
            count=self.count.plus(given, lost),
            since_choice=self.since_choice.plus(given, lost),
            total=self.total.plus(given, lost),
            results=self.results + results,
            result_rows=self.result_rows + rows,
        )
