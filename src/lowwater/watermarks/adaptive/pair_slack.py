"""The slacks of the two sides of a join.

Kernels count the pairs by the slack that they needed at each side, lost pairs included, and by
their time. After every epoch the rule chooses the slacks from the first, and the quality book
records the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal

from lowwater.control.context import SlackReference
from lowwater.control.measures import BinCounts, Measures
from lowwater.control.watermark import Watermarks
from lowwater.ticks import END
from lowwater.watermarks.adaptive.pair_rule import PairMemory, PairRule
from lowwater.watermarks.adaptive.quality_book import QualityBook
from lowwater.watermarks.adaptive.tournament import SlackNews
from lowwater.watermarks.adaptive.window_slack import summed


@dataclass(frozen=True)
class PairSlackMemory:
    """The memory of a `PairSlack`.

    - `rule`: The memory of the rule, with both sides; of a join in order of time, with one side.
    - `slacks`: The chosen slack of each port, in ticks.
    - `oldest`: The newest time of each port after the first epoch with a row.
    - `book`: The pairs that the join has made and lost, by time.
    """

    VERSION: ClassVar[int] = 2

    rule: PairMemory
    slacks: tuple[int, ...]
    oldest: tuple[int | None, ...] = (None, None)
    book: QualityBook = field(default_factory=QualityBook)


@dataclass(frozen=True)
class PairSlack:
    """The component that chooses the slacks of both sides of a join.

    - `operator`, `name`: The number and the name of the join.
    - `numbers`, `ports`: For each of its ports, the number and the inputs that lead to the port.
    - `target`, `joins`: The share of pairs to make; if this is one of several joins in a row, the
      share of the results of all of them, and their number.
    - `unit`: The unit of time in which pairs are counted, in ticks.
    - `ordered`: Whether both sides share one slack.
    """

    operator: int
    name: str
    numbers: tuple[int, ...]
    ports: tuple[tuple[int, ...], ...]
    target: float
    unit: int
    ordered: bool
    joins: int = 1
    measured: Literal["pairs"] = "pairs"

    @cached_property
    def rule(self) -> PairRule:
        """The rule that chooses the slacks: of m joins, each keeps the m-th root of the target."""
        return PairRule(self.target ** (1 / self.joins), self.unit)

    @property
    def inputs(self) -> tuple[int, ...]:
        """The inputs that lead to the join."""
        return tuple(dict.fromkeys(n for port in self.ports for n in port))

    def aiming_at(self, target: float) -> PairSlack:
        """Return the component with a new target; an existing memory stays valid."""
        return replace(self, target=target)

    def begin(self) -> PairSlackMemory:
        """Return the memory before the first epoch."""
        return PairSlackMemory(self.rule.begin(1 if self.ordered else 2), (self.unit,) * 2)

    def advance(
        self,
        memory: PairSlackMemory,
        measured: Measures,
        newest: Sequence[Watermarks],
        references: Mapping[int, SlackReference],
    ) -> PairSlackMemory:
        """Return the memory after an epoch.

        By number of the port, `newest` are the watermarks after the epoch if all slacks were 0; the
        needed slacks of the epoch count from `references`.
        """
        now = [low for n in self.numbers if (low := newest[n].low) is not None and low < END]
        if len(now) < len(self.numbers):
            return memory
        histograms = self._histograms(measured)
        news = []
        for port, (number, low) in enumerate(zip(self.numbers, now, strict=True)):
            made, lost = (histograms[port, kind] for kind in ("made", "lost"))
            known = references.get(number, SlackReference()).newest.low
            every = _sorted(summed([made.items(), lost.items()]))
            lost_pairs = float(sum(lost.values()))
            news.append(SlackNews(low, low if known is None else known, every, lost_pairs))
        rule = self.rule.step(memory.rule, news[: len(memory.rule.sides)])
        shards = measured.of_operator(self.operator)
        made_at, lost_at = (summed(getattr(m, n) for m in shards) for n in ("closed", "missed"))
        book = memory.book.plus(made_at, lost_at, max(memory.slacks))
        sides = rule.sides
        slacks = tuple(sides[min(port, len(sides) - 1)].slack for port in range(len(self.ports)))
        oldest = tuple(b if a is None else a for a, b in zip(memory.oldest, now, strict=True))
        return PairSlackMemory(rule, slacks, oldest, book)

    def _histograms(self, measured: Measures) -> dict[tuple[int, str], dict[int, int]]:
        """Return the histograms of needed slack by (port, "made" or "lost")."""
        needed = measured.needed_slacks(self.operator)
        return {
            (port, kind): summed(getattr(one, kind) for one in needed if one.port == port)
            for port in range(len(self.ports))
            for kind in ("made", "lost")
        }


def _sorted(counts: Mapping[int, int]) -> BinCounts:
    return tuple(sorted(counts.items()))
