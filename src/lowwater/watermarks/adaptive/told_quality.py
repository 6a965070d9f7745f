"""What the status says about the quality of windows and joins, and the frontier of waits.

A window is settled when its end is so far behind the newest time that hardly a row of the last 500
windows needed that much slack (`OPEN`), and hardly a row of the last 10 needed half of it (`SOON`):
while delays grow, the longest have not been seen yet. The quality of settled windows is measured.
Of other windows, more rows may be late: their number is bounded by the share of rows that need more
slack than that distance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lowwater.control.completeness import Floats, Ticks
from lowwater.learners.slack_bins import SlackBins
from lowwater.watermarks.adaptive.pair_slack import PairSlack, PairSlackMemory
from lowwater.watermarks.adaptive.quality_book import (
    QualityBook,
    QualitySpan,
    last_windows,
    total,
)
from lowwater.watermarks.adaptive.tournament import HORIZON
from lowwater.watermarks.adaptive.tournament_memory import TournamentMemory
from lowwater.watermarks.adaptive.window_slack import WindowSlack, WindowSlackMemory

OPEN, SOON = 0.0001, 0.001
"""The share of rows that may come so late that their window counts as settled before, and the share
of recent rows that may need half of that."""
ROW = 1.5
"""The rows that may always do so, so that a single one a year late does not count."""
RECENT = 1
"""The memory of recent rows."""
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 1.0)
"""The completeness of the points of a frontier."""


@dataclass(frozen=True)
class ToldSpan:
    """The quality of neighbouring windows, of which the last ends at `end`."""

    end: int
    slack: int
    quality: float | None
    at_least: float | None
    settled: bool


@dataclass(frozen=True)
class ToldQuality:
    """The quality of windows: of the last settled ones, of all settled ones, and a lower bound.

    `booked` is whether rows are counted by window; if not, the numbers are those of the slack rule.
    """

    measured: float | None
    overall: float | None
    at_least: float | None
    booked: bool = True
    spans: tuple[ToldSpan, ...] = ()


def told_quality(one: WindowSlack, memory: WindowSlackMemory, *, ended: bool) -> ToldQuality:
    """Return what is known about the quality of windows, whose streams may have `ended`."""
    kept = [memory.one.rule, *(own.rule for own in memory.sources.values())]
    if memory.book.spans:
        return _of_book(memory.book, one.rule.bins, kept, ended=ended)
    given, lost = (sum(getattr(rule, name) for rule in kept) for name in ("given", "lost"))
    share = 1 - lost / given if given else None
    return ToldQuality(share, share, None, booked=False)


def told_of_pairs(one: PairSlack, memory: PairSlackMemory, *, ended: bool) -> ToldQuality:
    """Return what is known about the quality of a join, whose streams may have `ended`."""
    return _of_book(memory.book, one.rule.each.bins, memory.rule.sides, ended=ended)


def _of_book(
    book: QualityBook, bins: SlackBins, kept: Sequence[TournamentMemory], *, ended: bool
) -> ToldQuality:
    """Return what a book tells, given the rules' memories of needed slacks."""
    spans = book.spans
    rules = [Survival.of(bins, rule) for rule in kept if rule.given > 0 and not ended]
    told = tuple(_told(span, rules) for span in spans)
    settled = [span for span, one in zip(spans, told, strict=True) if one.settled]
    recent = last_windows(spans, HORIZON)
    due = sum(span.given + span.lost + _open(span, rules) for span in recent)
    return ToldQuality(
        total(last_windows(settled, HORIZON)).quality,
        total(settled).quality,
        sum(span.given for span in recent) / due if due else None,
        spans=told,
    )


def frontier(one: WindowSlack, memory: WindowSlackMemory) -> Iterator[tuple[float, int]]:
    """Yield (completeness, slack in ticks), from the longest memory of the rule."""
    yield from _points(one.rule.bins, [memory.one.rule])


def frontier_of_pairs(one: PairSlack, memory: PairSlackMemory) -> Iterator[tuple[float, int]]:
    """Yield (completeness, slack of both sides in ticks), from the longest memory of the rule."""
    yield from _points(one.rule.each.bins, memory.rule.sides)


def _points(bins: SlackBins, rules: Sequence[TournamentMemory]) -> Iterator[tuple[float, int]]:
    if min(rule.given for rule in rules) <= 0:
        return
    edges = bins.edges[np.unique(np.concatenate([rule.bins for rule in rules]))]
    kept, before = np.ones(len(edges)), -1
    for rule in rules:
        at = np.searchsorted(bins.edges[rule.bins], edges, side="right") - 1
        kept -= rule.beyond[-1][at]
    for level in LEVELS:
        at = int(np.searchsorted(kept, level - 1e-9))
        if before < at < len(edges):
            yield round(float(kept[at]), 6), int(edges[at])
            before = at


@dataclass(frozen=True, eq=False)
class Survival:
    """The shares of rows that need more slack than each of `edges`, and the newest time.

    `beyond` and `recent` are those of the longest memory and of the recent rows; `rows` are the
    numbers of rows in both.
    """

    newest: int
    edges: Ticks
    beyond: Floats
    recent: Floats
    rows: tuple[float, float]

    @classmethod
    def of(cls, bins: SlackBins, rule: TournamentMemory) -> Survival:
        """Return the survival of needed slacks in the memories of a rule."""
        shares, rows = rule.beyond, rule.counts.sum(axis=1)
        edges = bins.edges[rule.bins]
        return cls(
            rule.newest or 0,
            edges,
            shares[-1],
            shares[RECENT],
            (float(rows[-1]), float(rows[RECENT])),
        )

    def missing(self, end: int) -> float:
        """Return the share of rows that need more slack than the distance of `end` so far."""
        return self._share(self.beyond, self.newest - end)

    def settled(self, end: int) -> bool:
        """Return whether hardly another row comes for a window that ends at `end`."""
        known, recent = (ROW / max(rows, ROW) for rows in self.rows)
        soon = self._share(self.recent, (self.newest - end) // 2)
        return self.missing(end) <= max(OPEN, known) and soon <= max(SOON, recent)

    def _share(self, beyond: Floats, slack: int) -> float:
        passed = int(np.searchsorted(self.edges, slack, side="right"))
        return float(beyond[passed - 1]) if passed else 1.0


def _told(span: QualitySpan, rules: Sequence[Survival]) -> ToldSpan:
    due = span.given + span.lost + _open(span, rules)
    settled = all(rule.settled(span.end) for rule in rules)
    at_least = span.given / due if due else None
    return ToldSpan(span.end, span.slack, span.quality, at_least, settled)


def _open(span: QualitySpan, rules: Sequence[Survival]) -> float:
    """Return the number of rows that may still be late for the windows of a span."""
    missing = max((rule.missing(span.end) for rule in rules), default=0.0)
    return (span.given + span.lost) * missing / max(1 - missing, 1e-3)
