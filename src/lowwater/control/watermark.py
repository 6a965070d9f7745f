"""Watermarks: the progress of a stream in event time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeAlias

from lowwater.control.hold import HeldInterval
from lowwater.intervals import Intervals, difference, intersection, union
from lowwater.ticks import FIRST_TICK

SourceKey: TypeAlias = str | int | bool | None
"""The value of a source column, for `per_source` and for punctuation by group."""


@dataclass(frozen=True)
class WatermarkPair:
    """The watermarks of a second time column, for results with two times (OOP 7).

    `second` bounds the second time of all later rows. `joint` bounds both times together: no later
    row has its first time before `joint[0]` *and* its second time before `joint[1]`.
    """

    second: int
    joint: tuple[int, int]

    def mapped(self, change: Callable[[int], int]) -> WatermarkPair:
        """Return the pair with `change` applied to each watermark."""
        return WatermarkPair(change(self.second), (change(self.joint[0]), change(self.joint[1])))

    def with_other(self, other: WatermarkPair, choose: Callable[[int, int], int]) -> WatermarkPair:
        """Return the pair whose watermarks `choose` computes from those of `self` and `other`."""
        (a, b), (c, d) = self.joint, other.joint
        return WatermarkPair(choose(self.second, other.second), (choose(a, c), choose(b, d)))


@dataclass(frozen=True)
class Watermarks:
    """The watermarks of a stream: every later row has a time ≥ its watermark.

    - `low`: The watermark of all rows.
    - `sources`: The watermarks of single sources; they may be above `low`.
    - `ranges`: Complete intervals above `low`; rows before these intervals may still arrive.
    - `pair`: The watermarks of a second time; None for results with one time.
    - `nominal`: While rows are held, the watermark without holds, which decides lateness.
    """

    low: int | None = None
    sources: dict[SourceKey, int] = field(default_factory=dict)
    ranges: Intervals = ()
    pair: WatermarkPair | None = None
    nominal: int | None = None

    def of(self, source: SourceKey) -> int | None:
        """Return the watermark of `source`: the higher of its own watermark and `low`."""
        own = self.sources.get(source)
        if own is None or self.low is None:
            return self.low if own is None else own
        return max(own, self.low)

    def raised(self, other: Watermarks) -> Watermarks:
        """Return the maximum of `self` and `other`, watermark by watermark."""
        sources = dict(self.sources)
        for source, mark in other.sources.items():
            sources[source] = max(mark, sources.get(source, mark))
        pairs = [p for p in (self.pair, other.pair) if p is not None]
        pair = pairs[0].with_other(pairs[-1], max) if pairs else None
        ranges = union([*self.ranges, *other.ranges]) if self.ranges or other.ranges else ()
        low, nominal = latest(self.low, other.low), latest(self.nominal, other.nominal)
        return Watermarks(low, sources, ranges, pair, nominal).settled()

    @classmethod
    def least(cls, several: Sequence[Watermarks]) -> Watermarks:
        """Return the watermarks of a union of streams: the minimum of all (OOP A.2.1)."""
        return reduce(cls.lowered, several)

    def lowered(self, other: Watermarks) -> Watermarks:
        """Return the minimum of `self` and `other`, watermark by watermark."""
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        sources = {}
        for source in dict.fromkeys((*self.sources, *other.sources)):
            mine, theirs = self.of(source), other.of(source)
            if mine is not None and theirs is not None:
                sources[source] = min(mine, theirs)
        ranges = intersection(self.complete, other.complete)
        both = self.pair is not None and other.pair is not None
        pair = self.pair.with_other(other.pair, min) if both else None  # type: ignore[union-attr,arg-type]
        return Watermarks(low, sources, ranges, pair).settled()

    @property
    def complete(self) -> Intervals:
        """All complete intervals: no more rows with these times will arrive."""
        return self.ranges if self.low is None else union([(FIRST_TICK, self.low), *self.ranges])

    def holding_back(self, held: Iterable[HeldInterval]) -> Watermarks:
        """Return the watermarks in force while the rows of the intervals `held` are held."""
        if self.low is None:
            return self
        first, *rest = difference(self.complete, tuple((h.start, h.end) for h in held))
        return replace(self, low=first[1], ranges=tuple(rest), nominal=self.low)

    def settled(self) -> Watermarks:
        """Return the watermarks; if one of `ranges` adjoins `low`, its end is the new `low`."""
        if self.low is None or not self.ranges:
            return self
        first, *rest = self.complete
        return replace(self, low=first[1], ranges=tuple(rest))

    def mapped(self, change: Callable[[int], int]) -> Watermarks:
        """Return the watermarks with `change` applied; `ranges` stay, and `nominal` is removed."""
        low = None if self.low is None else change(self.low)
        sources = {s: change(m) for s, m in self.sources.items()}
        pair = None if self.pair is None else self.pair.mapped(change)
        return Watermarks(low, sources, self.ranges, pair)

    def only_above(self) -> Watermarks:
        """Return the watermarks, with only those sources whose watermarks are above `low`."""
        low = self.low
        if low is None or not self.sources:
            return self
        return replace(self, sources={s: m for s, m in self.sources.items() if m > low})

    def news(self, before: Watermarks) -> Watermarks:
        """Return the watermarks that have risen since `before`."""
        sources = {s: m for s, m in self.sources.items() if m != before.of(s) and m == self.of(s)}
        return Watermarks(
            self.low if self.low != before.low else None,
            sources,
            self.ranges if self.ranges != before.ranges else (),
            self.pair if self.pair != before.pair else None,
            self.nominal if self.nominal != before.nominal else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the watermarks as JSON."""
        json: dict[str, Any] = {"low": self.low, "sources": list(map(list, self.sources.items()))}
        if self.ranges:
            json["ranges"] = self.ranges
        if self.pair is not None:
            json["pair"] = [self.pair.second, self.pair.joint]
        if self.nominal is not None:
            json["nominal"] = self.nominal
        return json

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Watermarks:
        """Return the watermarks that `to_json` wrote."""
        pair = written.get("pair")
        return cls(
            written["low"],
            dict(written["sources"]),
            tuple(map(tuple, written.get("ranges", ()))),
            None if pair is None else WatermarkPair(pair[0], (pair[1][0], pair[1][1])),
            written.get("nominal"),
        )


def latest(*times: int | None) -> int | None:
    """Return the latest of `times` that is not None; None if all are None.

    >>> latest(3, None, 5), latest(None)
    (5, None)
    """
    newest = None
    for time in times:
        if time is not None and (newest is None or time > newest):
            newest = time
    return newest
