"""The slack of a stream for the windows that it feeds: one rule, or one for each source.

Tasks measure the slacks that rows need for their windows; kernels count the rows of each closed
window, and those that missed it. After every epoch the rule chooses the slack from the first, and
the quality book records the second, which is the quality that the status reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from lowwater.control.context import SlackReference
from lowwater.control.measures import BinCounts, Measures, NeededSlack
from lowwater.control.watermark import SourceKey, Watermarks
from lowwater.learners.slack_frontier import SlackFrontier
from lowwater.ticks import END
from lowwater.watermarks.adaptive.policies import ValueBound
from lowwater.watermarks.adaptive.quality_book import QualityBook
from lowwater.watermarks.adaptive.tournament import SlackNews, Tournament
from lowwater.watermarks.adaptive.tournament_memory import TournamentMemory

KNOWN = 20.0
"""The number of windows after which the frontier is known."""


@dataclass(frozen=True)
class RuleMemory:
    """The memory of a slack rule, and the slack that it has chosen, in ticks."""

    rule: TournamentMemory
    slack: int


@dataclass(frozen=True)
class WindowSlackMemory:
    """The memory of a `WindowSlack`.

    - `one`: The rule of the stream; with sources, of those without a rule of their own.
    - `sources`: The rules of single sources.
    - `book`: The rows that windows have had and missed.
    """

    VERSION: ClassVar[int] = 1

    one: RuleMemory
    sources: dict[SourceKey, RuleMemory] = field(default_factory=dict)
    book: QualityBook = field(default_factory=QualityBook)


@dataclass(frozen=True)
class WindowSlack:
    """The component that chooses the slack for the windows of one operator.

    - `operator`, `port`, `name`: The numbers of the operator and of its port, and its name.
    - `inputs`: The inputs that lead to the windows.
    - `target`: The share of rows that must be in time for their windows.
    - `range`, `slide`: The longest range of the windows, and their shortest slide, in ticks.
    - `sources`: How many sources have a slack of their own; the others share one.
    - `bound`: The bound on the error of results; the target is then the share of results within it.
    """

    operator: int
    port: int
    name: str
    inputs: tuple[int, ...]
    target: float
    range: int
    slide: int
    sources: int = 0
    bound: ValueBound | None = None

    @cached_property
    def rule(self) -> Tournament:
        """The rule that chooses each slack."""
        return Tournament(self.target, self.range, self.slide)

    def aiming_at(self, target: float) -> WindowSlack:
        """Return the component with a new target; an existing memory stays valid."""
        return replace(self, target=target)

    def begin(self) -> WindowSlackMemory:
        """Return the memory before the first epoch."""
        return WindowSlackMemory(self._new())

    def _new(self) -> RuleMemory:
        return RuleMemory(self.rule.begin(), self.range)

    def advance(
        self,
        memory: WindowSlackMemory,
        measured: Measures,
        newest: Watermarks,
        reference: SlackReference,
    ) -> WindowSlackMemory:
        """Return the memory after an epoch.

        `newest` are the watermarks of the windows after the epoch if all slacks were 0; the needed
        slacks of the epoch count from `reference`.
        """
        needed = by_source(measured.needed_slacks(self.operator))
        before = reference.newest
        one = self._stepped(memory.one, newest.low, before.low, needed.get(None, ()))
        sources = {
            source: self._stepped(
                memory.sources.get(source, self._new()),
                time,
                before.sources.get(source),
                needed.get(source, ()),
            )
            for source, time in list(newest.sources.items())[: self.sources]
        }
        shards = measured.of_operator(self.operator)
        closed = summed(m.closed for m in shards)
        missed = summed(m.missed for m in shards)
        book = memory.book.plus(closed, missed, memory.one.slack, one.rule.newest)
        return WindowSlackMemory(one, sources, book)

    def frontier(self, memory: WindowSlackMemory) -> SlackFrontier:
        """Return the completeness by slack, from the longest memory; empty while it is young."""
        rule = memory.one.rule
        if rule.windows < KNOWN or rule.counts[-1].sum() <= 0:
            return SlackFrontier()
        kept = 1 - rule.beyond[-1]
        return SlackFrontier(tuple(self.rule.bins.edges[rule.bins].tolist()), tuple(kept.tolist()))

    def _stepped(
        self,
        memory: RuleMemory,
        newest: int | None,
        reference: int | None,
        needed: Sequence[NeededSlack],
    ) -> RuleMemory:
        """Return the memory of a rule after an epoch."""
        if newest is None or newest >= END:
            return memory
        made, lost = (
            _sum(counts) for counts in ([n.made for n in needed], [n.lost for n in needed])
        )
        news = SlackNews(
            newest,
            newest if reference is None else reference,
            _sum([made, lost]),
            float(sum(rows for _, rows in lost)),
        )
        return RuleMemory(*self.rule.step(memory.rule, news))


def by_source(needed: Iterable[NeededSlack]) -> dict[SourceKey, list[NeededSlack]]:
    """Return the needed slacks of each source."""
    found: dict[SourceKey, list[NeededSlack]] = {}
    for one in needed:
        found.setdefault(one.source, []).append(one)
    return found


def summed(counts: Iterable[Iterable[tuple[int, int]]]) -> dict[int, int]:
    """Return {key: sum of its numbers} of several lists of (key, number).

    >>> summed([[(3, 1), (5, 2)], [(3, 4)]])
    {3: 5, 5: 2}
    """
    every: dict[int, int] = {}
    for pairs in counts:
        for key, number in pairs:
            every[key] = every.get(key, 0) + number
    return every


def _sum(counts: Iterable[BinCounts]) -> BinCounts:
    return tuple(sorted(summed(counts).items()))
