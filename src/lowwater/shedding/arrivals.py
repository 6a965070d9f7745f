"""Recent arrivals of rows: their rate, its trend, and the speed of event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from math import sqrt
from statistics import median
from typing import TypeAlias

GRAIN = 16
"""Arrivals are summed over intervals of at least 1 / `GRAIN` of the bound on latency."""
ENOUGH, LONGEST = 100, 4
"""A rate is that of the last `ENOUGH` rows, but of at most 1 / `LONGEST` of the bound."""
CLEAR = 3.0
"""A rise of the rate is a trend if it is larger than this many standard deviations."""
REAL_TIME = 3.0
"""Event time that runs up to this factor faster or slower than the clock is taken to run as it."""
FORGET = 1e-3
"""The share of passed time by which the largest lead of event time over the clock decays."""


@dataclass(frozen=True)
class Arrived:
    """Rows that arrived within `span` ticks.

    Between the newest rows of two epochs, event time advanced by `step` and the clock by `apart`.
    """

    span: float
    rows: float
    step: float = 0.0
    apart: float = 0.0

    def __add__(self, other: Arrived) -> Arrived:
        return Arrived(*map(sum, zip(astuple(self), astuple(other), strict=True)))


Recent: TypeAlias = tuple[Arrived, ...]
"""The arrivals of about the last `latency` ticks, in intervals from the oldest to the newest."""


def extended(recent: Recent, news: Arrived, latency: int) -> Recent:
    """Return `recent` with `news` at its end, without intervals older than `latency` ticks.

    >>> extended((Arrived(60, 5), Arrived(50, 5), Arrived(1, 2)), Arrived(60, 1), 100)
    (Arrived(span=50, rows=5, step=0.0, apart=0.0), Arrived(span=61, rows=3, step=0.0, apart=0.0))
    """
    if recent and recent[-1].span < latency / GRAIN:
        recent, news = recent[:-1], recent[-1] + news
    kept, total = [news], news.span
    for one in reversed(recent):
        if total >= latency:
            break
        kept.append(one)
        total += one.span
    return tuple(reversed(kept))


def rows_within(recent: Recent, latency: float) -> float:
    """Return how many rows arrived in the last `latency` ticks, each interval taken as even.

    >>> rows_within((Arrived(60, 6), Arrived(40, 8)), 70)
    11.0
    """
    rows, left = 0.0, float(latency)
    for one in reversed(recent):
        rows += one.rows * min(1.0, left / max(one.span, 1.0))
        left -= one.span
        if left <= 0:
            break
    return rows


@dataclass(frozen=True)
class Rate:
    """The rate of arrivals in rows per tick, and its rise per tick; a fall is not a trend."""

    rows: float
    rise: float = 0.0

    def within(self, time: float) -> float:
        """Return how many rows will arrive within `time` ticks; the rate at most doubles.

        >>> Rate(2.0).within(10), Rate(2.0, 0.2).within(10), Rate(2.0, 0.2).within(20)
        (20.0, 30.0, 70.0)
        """
        if self.rise <= 0:
            return self.rows * time
        rising = min(time, self.rows / self.rise)
        return self.rows * time + self.rise * rising * (time - rising / 2)


def rate(recent: Recent, latency: int) -> Rate:
    """Return the present rate of arrivals, and its trend.

    >>> rate((Arrived(50, 200), Arrived(50, 400)), 100)
    Rate(rows=8.0, rise=0.08)
    """
    now, before = _last(recent, latency)
    if now.span <= 0:
        return Rate(0.0)
    rows = now.rows / now.span
    earlier, _ = _last(before, latency)
    if earlier.span <= 0:
        return Rate(rows)
    rise = rows - earlier.rows / earlier.span
    noise = sqrt(now.rows) / now.span + sqrt(earlier.rows) / earlier.span
    apart = (now.span + earlier.span) / 2
    return Rate(rows, rise / apart if rise > CLEAR * noise else 0.0)


def _last(recent: Recent, latency: int) -> tuple[Arrived, Recent]:
    """Return (the sum of the newest intervals that have enough rows, all intervals before)."""
    span = rows = 0.0
    at = len(recent)
    while at and rows < ENOUGH and span < latency / LONGEST:
        at -= 1
        span, rows = span + recent[at].span, rows + recent[at].rows
    return Arrived(span, rows), recent[:at]


def speed(recent: Sequence[Arrived]) -> float:
    """Return the advance of event time per tick of the clock; about 1 is 1, as is an unknown one.

    >>> speed([Arrived(10, 1, 9, 10), Arrived(10, 1, 11, 10)]), speed([Arrived(10, 1, 600, 10)])
    (1.0, 60.0)
    """
    known = [one.step / one.apart for one in recent if one.step > 0 and one.apart > 0]
    fast = median(known) if known else 1.0
    return 1.0 if 1 / REAL_TIME < fast < REAL_TIME else fast


def lead(before: float | None, newest: int, read: float, elapsed: float) -> float:
    """Return the largest recent lead of event time over the clock, `read` when rows were read."""
    now = newest - read
    return now if before is None else max(now, before - FORGET * elapsed)
