"""The slacks of the two sides of a join.

Kernels count the pairs by the slack that they needed at each side, lost pairs included, and by
their time. After every epoch the rule chooses the slacks from the first, and the quality book
records the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, log
from typing import ClassVar, Literal

from lowwater.control.context import SlackReference
from lowwater.control.measures import BinCounts, Measures
from lowwater.control.watermark import Watermarks
from lowwater.ticks import END
from lowwater.watermarks.adaptive.pair_rule import PairMemory, PairRule
from lowwater.watermarks.adaptive.quality_book import QualityBook
from lowwater.watermarks.adaptive.tournament import YOUNG, SlackNews
from lowwater.watermarks.adaptive.window_slack import summed

LEAST = 0.01
"""A smaller share of pairs made counts as this one."""
STRICTEST = 0.25
"""A join in a row may lose at least this part of its equal part of the allowed losses."""


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
    - `target`: The share of pairs to make; of several joins in a row, that of their last results.
    - `others`: The operators of the other joins in the row.
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
    others: tuple[int, ...] = ()
    measured: Literal["pairs"] = "pairs"

    @cached_property
    def rule(self) -> PairRule:
        """The rule that chooses the slacks: of m joins, each keeps the m-th root of the target."""
        return PairRule(self.target ** (1 / (1 + len(self.others))), self.unit)

    def kept(self, memory: PairSlackMemory) -> float:
        """Return the share of pairs made over the horizon; that of the rule while it is young."""
        sides = memory.rule.sides
        given = max(side.given for side in sides)
        if max(side.windows for side in sides) < YOUNG or given <= 0:
            return self.rule.target
        return max(1 - sum(side.lost for side in sides) / given, LEAST)

    def corrected(self, kept: Mapping[int, float]) -> PairRule:
        """Return the rule, given the shares of pairs that other joins have made, by operator.

        Each join may lose an equal part of the results. What another of m joins loses less, or
        more, is added, divided by m; so the joins share it, and no loss is allowed twice.
        """
        others = [kept[operator] for operator in self.others]
        if not others:
            return self.rule
        less = sum(log(one / self.rule.target) for one in others) / (1 + len(others))
        share = log(self.rule.target)
        return PairRule(exp(min(share - less, share * STRICTEST)), self.unit)

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
        kept: Mapping[int, float],
    ) -> PairSlackMemory:
        """Return the memory after an epoch.

        By number of the port, `newest` are the watermarks after the epoch if all slacks were 0; the
        needed slacks of the epoch count from `references`. By operator, `kept` are the shares of
        pairs that joins have made.
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
        rule = self.corrected(kept).step(memory.rule, news[: len(memory.rule.sides)])
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
