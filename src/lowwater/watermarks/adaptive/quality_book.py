"""The quality book: how many rows each closed window has, and how many have missed it.

Rows are booked to their window, however long after its end they come. The newest windows have a
span of their own; older neighbours share spans, each twice as long as the next. So every window
since the beginning is in the book, and the book stays small.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

PER_SIZE = 6
"""The largest number of spans with the same number of windows."""


@dataclass(frozen=True)
class QualitySpan:
    """Neighbouring windows: the last end, and the numbers of windows, of their rows, of lost rows.

    `slack` is the slack in force when the last of them was closed, in ticks. `waited` is the sum of
    the waits of their finals: how far the newest time was past their ends when they were closed.
    """

    end: int
    windows: int = 1
    given: int = 0
    lost: int = 0
    slack: int = 0
    waited: int = 0

    @property
    def quality(self) -> float | None:
        """The share of rows that were in time; None if there was no row."""
        rows = self.given + self.lost
        return self.given / rows if rows else None

    def joined(self, later: QualitySpan) -> QualitySpan:
        """Return the span of these windows and of those of the next span."""
        windows, given = self.windows + later.windows, self.given + later.given
        lost, waited = self.lost + later.lost, self.waited + later.waited
        return QualitySpan(later.end, windows, given, lost, later.slack, waited)


@dataclass(frozen=True)
class QualityBook:
    """The spans of all closed windows, in order of their ends.

    >>> book = (
    ...     QualityBook().plus({10: 4, 20: 6}, {}, slack=3).plus({30: 5}, {10: 1, 15: 2}, slack=4)
    ... )
    >>> [(s.end, s.given, s.lost) for s in book.spans]
    [(10, 4, 1), (20, 6, 2), (30, 5, 0)]
    """

    VERSION: ClassVar[int] = 2

    spans: tuple[QualitySpan, ...] = ()

    def plus(
        self,
        closed: Mapping[int, int],
        missed: Mapping[int, int],
        slack: int,
        newest: int | None = None,
    ) -> QualityBook:
        """Return the book after an epoch; keys are ends of windows, values are numbers of rows.

        `newest` is the newest time after the epoch.
        """
        if not closed and not missed:
            return self
        known = list(self.spans)
        last = known[-1].end if known else None
        fresh = sorted(end for end in closed.keys() | missed.keys() if last is None or end > last)
        known += [
            QualitySpan(end, slack=slack, waited=max(0, (newest or end) - end)) for end in fresh
        ]
        ends = [span.end for span in known]
        for at, rows in _placed(ends, closed):
            known[at] = replace(known[at], given=known[at].given + rows)
        for at, rows in _placed(ends, missed):
            known[at] = replace(known[at], lost=known[at].lost + rows)
        return QualityBook(tuple(_short(known)))

    def until(self, end: int) -> Sequence[QualitySpan]:
        """Return the spans of windows that end at `end` or before."""
        return self.spans[: bisect_left(self.spans, end + 1, key=lambda span: span.end)]

    def to_json(self) -> list[list[int]]:
        """Return the book as JSON."""
        return [[s.end, s.windows, s.given, s.lost, s.slack, s.waited] for s in self.spans]

    @classmethod
    def from_json(cls, written: Any) -> QualityBook:
        """Return the book that `to_json` wrote."""
        return cls(tuple([QualitySpan(*span) for span in written]))


def total(spans: Iterable[QualitySpan]) -> QualitySpan:
    """Return the span of all `spans` together."""
    whole = QualitySpan(0, windows=0)
    for span in spans:
        whole = whole.joined(span)
    return whole


def last_windows(spans: Sequence[QualitySpan], windows: float) -> Sequence[QualitySpan]:
    """Return the newest of `spans`: as few as have this many windows."""
    first, count = len(spans), 0
    while first and count < windows:
        first -= 1
        count += spans[first].windows
    return spans[first:]


def _placed(ends: Sequence[int], rows: Mapping[int, int]) -> Iterable[tuple[int, int]]:
    return ((bisect_left(ends, end), count) for end, count in rows.items())


def _short(spans: Sequence[QualitySpan]) -> list[QualitySpan]:
    """Return the spans; of more than `PER_SIZE` of similar size, the oldest are joined in pairs."""
    by_size: dict[int, list[QualitySpan]] = {}
    for span in spans:
        by_size.setdefault(span.windows.bit_length(), []).append(span)
    size, kept = min(by_size), list[list[QualitySpan]]()
    while by_size:
        mine = by_size.pop(size, [])
        pairs = max(0, len(mine) - PER_SIZE + 1) // 2
        joined = [mine[i].joined(mine[i + 1]) for i in range(0, 2 * pairs, 2)]
        if joined:
            by_size[size + 1] = [*by_size.get(size + 1, []), *joined]
        kept.append(mine[2 * pairs :])
        size += 1
    return [span for one in reversed(kept) for span in one]
