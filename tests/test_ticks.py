"""Durations and instants as the user writes them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.ticks import instant, instant_ticks, spoken, ticks

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 seconds", 10 * SECOND),
        ("1 second", SECOND),
        ("1second", SECOND),
        ("  5   Minutes ", 300 * SECOND),
        ("1 minute 30 seconds", 90 * SECOND),
        ("interval 2 hours", 7200 * SECOND),
        ("1 day", 86_400 * SECOND),
        ("1 week", 7 * 86_400 * SECOND),
        ("250 ms", 250_000),
        ("3 us", 3),
        ("0.5 seconds", 500_000),
        ("1.000001 seconds", 1_000_001),
        ("1 hour -30 minutes", 1800 * SECOND),
        ("0 seconds", 0),
        ("-5 seconds", -5 * SECOND),
    ],
)
def test_a_duration_is_read_as_spark_reads_it(text, expected):
    assert ticks(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", " ", "10", "seconds", "ten seconds", "10 parsecs", "1 month", "2 years", "1 minute and",
     "1 minute; drop", "5 5 seconds", "1e3 seconds", "∞ seconds", "10 secondss"],
)  # fmt: skip
def test_what_is_no_duration_is_refused_with_an_example(text):
    with pytest.raises(lw.SpecError, match=r"range=.*is not a duration.*'10 seconds'"):
        ticks(text, name="range")


@pytest.mark.parametrize("value", [10, 1.5, None, ["1 second"], date(2024, 1, 1)])
def test_other_types_are_refused(value):
    with pytest.raises(lw.SpecError, match=r"slide=.*is not a duration"):
        ticks(value, name="slide")


def test_a_duration_finer_than_a_tick_is_refused():
    with pytest.raises(
        lw.SpecError, match=r"range='0\.0000001 seconds' is finer than a microsecond"
    ):
        ticks("0.0000001 seconds", name="range")


@given(st.timedeltas())
def test_a_timedelta_is_its_microseconds(span):
    assert timedelta(microseconds=ticks(span)) == span


@given(st.integers(-(10**15), 10**15))
def test_a_spoken_duration_reads_back(span):
    assert ticks(spoken(span)) == span


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1970-01-01", 0),
        ("1970-01-01 00:00:01", SECOND),
        ("1970-01-01T00:00:01Z", SECOND),
        ("1970-01-01T02:00:00+02:00", 0),
        (datetime(1970, 1, 1), 0),  # noqa: DTZ001
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0),
        (date(1970, 1, 2), 86_400 * SECOND),
        ("1969-12-31 23:59:59.999999", -1),
    ],
)
def test_an_instant_is_utc_unless_it_says_otherwise(value, expected):
    assert instant_ticks(value) == expected


@pytest.mark.parametrize("value", ["yesterday", "", "2024-13-01", 5, None])
def test_what_is_no_instant_is_refused(value):
    with pytest.raises(lw.SpecError, match=r"origin=.*is not an instant"):
        instant_ticks(value, name="origin")


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_reads_back(moment):
    assert instant(instant_ticks(moment)) == moment


def test_a_virtual_clock_goes_on_by_its_step():
    clock = lw.VirtualClock(start="1970-01-01 00:01:00", per_epoch="10 seconds")
    assert [clock.now(n) for n in range(3)] == [60 * SECOND, 70 * SECOND, 80 * SECOND]
