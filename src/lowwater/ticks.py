"""Ticks: durations and instants as int64 microseconds, parsed from the user's text."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import TypeAlias

from lowwater.errors import SpecError

TICKS_PER_SECOND = 1_000_000
BEGIN, END = -(2**62), 2**62
"""The watermark of a stream that has not begun, and the watermark of a stream that has ended.

They are half of the limits of int64, so that adding a range to them does not overflow.
"""
FIRST_TICK, LAST_TICK = -(2**63), 2**63 - 1
"""The limits of int64: the smallest and the largest time that a row can have."""

_UNITS = {
    "microsecond": 1, "us": 1,
    "millisecond": 1_000, "ms": 1_000,
    "second": TICKS_PER_SECOND, "s": TICKS_PER_SECOND,
    "minute": 60 * TICKS_PER_SECOND, "min": 60 * TICKS_PER_SECOND,
    "hour": 3_600 * TICKS_PER_SECOND, "h": 3_600 * TICKS_PER_SECOND,
    "day": 86_400 * TICKS_PER_SECOND, "d": 86_400 * TICKS_PER_SECOND,
    "week": 604_800 * TICKS_PER_SECOND,
}  # fmt: skip
_TERM = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Duration: TypeAlias = str | timedelta
Instant: TypeAlias = str | datetime | date


def ticks(duration: Duration, *, name: str = "duration") -> int:
    """Return `duration`, a timedelta or text as in Spark, in ticks.

    >>> ticks("1 minute 30 seconds")
    90000000
    >>> ticks(timedelta(milliseconds=5))
    5000
    """
    if isinstance(duration, timedelta):
        return duration // timedelta(microseconds=1)
    if not isinstance(duration, str):
        raise SpecError(
            f"{name}={duration!r} is not a duration; write one like '10 seconds', or a timedelta"
        )
    text = duration.strip().lower().removeprefix("interval ")
    total, position = Fraction(0), 0
    while position < len(text):
        match = _TERM.match(text, position)
        unit = match and (_UNITS.get(match[2]) or _UNITS.get(match[2].removesuffix("s")))
        if match is None or unit is None:
            break
        total += Fraction(match[1]) * unit
        position = match.end()
    if not text or position < len(text):
        raise SpecError(
            f"{name}={duration!r} is not a duration; write one like '10 seconds', '1 minute "
            f"30 seconds' (units: microseconds to weeks; months and years have no fixed length)"
        )
    if total.denominator != 1:
        raise SpecError(
            f"{name}={duration!r} is finer than a microsecond; write whole microseconds"
        )
    return int(total)


def instant_ticks(instant: Instant, *, name: str = "origin") -> int:
    """Return `instant` in ticks since 1970-01-01 UTC; an instant without a time zone is UTC.

    >>> instant_ticks("1970-01-02")
    86400000000
    """
    if isinstance(instant, str):
        try:
            instant = datetime.fromisoformat(instant)
        except ValueError:
            raise SpecError(
                f"{name}={instant!r} is not an instant; write one like '2024-01-01 06:00:00'"
            ) from None
    if not isinstance(instant, datetime) and isinstance(instant, date):
        instant = datetime(instant.year, instant.month, instant.day, tzinfo=UTC)
    if not isinstance(instant, datetime):
        raise SpecError(f"{name}={instant!r} is not an instant; write a datetime or ISO text")
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return (instant - _EPOCH) // timedelta(microseconds=1)


def spoken(span: int) -> str:
    """Return the length `span`, in ticks, as text in the largest unit that divides it.

    >>> spoken(90_000_000), spoken(300_000_000)
    ('90 seconds', '5 minutes')
    """
    for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond"):
        size = _UNITS[unit]
        if span % size == 0:
            count = span // size
            return f"{count} {unit}{'' if abs(count) == 1 else 's'}"
    raise AssertionError(span)


def instant(at: int) -> datetime:
    """Return tick `at` as a UTC datetime."""
    return _EPOCH + timedelta(microseconds=at)
