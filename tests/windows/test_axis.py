"""Windows over every kind of attribute: what a tick is, and how bounds come out."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.windows.axis import Axis
from tests.strategies import examples

COUNT = {"n": lw.count()}


def bounds(schema, rows, *, time="t", watermark=None, **window):
    """Return {(start, end): n} of every result."""
    feed = lw.feed(schema)
    asked = lw.stream(feed, time=time, watermark=watermark or lw.ordered()).window(**window)
    found = asked.agg(**COUNT).run(epochs={feed: [rows]}).results.to_pylist()
    return {(r["window"]["start"], r["window"]["end"]): r["n"] for r in found}


@pytest.mark.parametrize("kind", ["tinyint", "smallint", "int", "bigint"])
def test_integers(kind):
    found = bounds(f"t {kind}", [(-1,), (0,), (9,), (10,)], range=10)
    assert found == {(-10, 0): 1, (0, 10): 2, (10, 20): 1}


def test_decimals_are_exact():
    rows = [(Decimal("0.10"),), (Decimal("0.29"),), (Decimal("0.30"),)]
    found = bounds("t decimal(10, 2)", rows, range=Decimal("0.30"), slide=0.1)
    assert found[(Decimal("0.00"), Decimal("0.30"))] == 2
    assert found[(Decimal("0.10"), Decimal("0.40"))] == 3
    assert set(found) == {
        (Decimal(s).scaleb(-2), Decimal(s + 30).scaleb(-2)) for s in (-10, 0, 10, 20, 30)
    }


def test_floats_go_by_the_number_that_was_meant():
    # 0.1 + 0.2 is a little more than 0.3, and 0.7 + 0.1 + 0.1 a little less than 0.9
    rows = [(0.1 + 0.2,), (0.7 + 0.1 + 0.1,), (0.3 - 1e-4,)]
    found = bounds("t double", rows, range=0.3)
    assert {(round(a, 9), round(b, 9)): n for (a, b), n in found.items()} == {
        (0.0, 0.3): 1,
        (0.3, 0.6): 1,
        (0.9, 1.2): 1,
    }


def test_dates():
    rows = [(date(2024, 1, d),) for d in (1, 7, 8)]  # a Monday, a Sunday, the next Monday
    found = bounds("t date", rows, range="1 week", origin="1970-01-05")
    monday = datetime(2024, 1, 1, tzinfo=UTC)
    assert sorted(found.values()) == [1, 2]
    assert min(found)[0] == monday


def test_timestamps_with_and_without_a_zone():
    with_zone = bounds("t timestamp", [(datetime(2024, 1, 1, 7, 30, tzinfo=UTC),)], range="1 hour")
    assert list(with_zone) == [
        (datetime(2024, 1, 1, 7, tzinfo=UTC), datetime(2024, 1, 1, 8, tzinfo=UTC))
    ]
    naive = datetime(2024, 1, 1, 7, 30)  # noqa: DTZ001
    without = bounds("t timestamp_ntz", [(naive,)], range="1 hour")
    assert [b.tzinfo for pair in without for b in pair] == [None, None]


def test_text():
    found = bounds("t string", [("2024-01-01 07:30:00",)], range="1 hour")
    assert next(iter(found))[0] == datetime(2024, 1, 1, 7, tzinfo=UTC)


def test_windows_may_lie_over_another_attribute_than_the_time():
    # The progress is then that of the attribute: slack is given in its unit.
    rows = [(datetime(2024, 1, 1, tzinfo=UTC), 5), (datetime(2020, 1, 1, tzinfo=UTC), 15)]
    found = bounds("t timestamp, km int", rows, on="km", range=10, watermark=lw.slack(3))
    assert found == {(0, 10): 1, (10, 20): 1}


def test_an_origin_moves_the_windows():
    found = bounds("t bigint", [(0,), (4,), (5,)], range=10, origin=5)
    assert found == {(-5, 5): 2, (5, 15): 1}
    far = bounds("t bigint", [(0,)], range=10, origin=10**9 + 5)
    assert far == {(-5, 5): 1}


def test_an_origin_is_utc_unless_it_says_otherwise():
    moment = datetime(2024, 1, 1, 12, tzinfo=UTC)
    found = bounds("t timestamp", [(moment,)], range="1 day", origin="2024-01-01T06:00:00+02:00")
    assert next(iter(found))[0] == datetime(2024, 1, 1, 4, tzinfo=UTC)


def test_landmark_windows_say_that_they_have_no_beginning():
    assert bounds("t bigint", [(5,)], range=lw.unbounded, slide=10) == {(None, 10): 1}
    assert bounds("t bigint", [(5,)], range=lw.unbounded, slide=10, origin=2) == {(2, 12): 1}


@examples(60)
@given(st.lists(st.none() | st.integers(-(10**15), 10**15), max_size=10))
def test_ticks_of_every_timestamp_are_the_same(values):
    expected = [None if v is None else v // 10**6 * 10**6 for v in values]
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.int64()):
        scale = 1000 if kind == pa.timestamp("ns") else 1
        column = pa.array([None if v is None else v * scale for v in expected], pa.int64())
        ticks, valid = Axis("t", kind).to_ticks(column.cast(kind))
        assert [t if ok else None for t, ok in zip(ticks.tolist(), valid, strict=True)] == expected


def test_a_nanosecond_belongs_to_the_microsecond_it_is_in():
    column = pa.array([1_999, -1], pa.int64()).cast(pa.timestamp("ns"))
    assert Axis("t", pa.timestamp("ns")).to_ticks(column)[0].tolist() == [1, -1]


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata"])
def test_bounds_keep_the_zone_of_the_column(zone):
    assert Axis("t", pa.timestamp("ms", zone)).bound_type == pa.timestamp("us", zone)


def test_the_time_itself_may_be_aggregated():
    feed = lw.feed("t timestamp, x int")
    asked = lw.stream(feed, time="t", watermark=lw.ordered()).window(range="1 hour")
    moments = [datetime(2024, 1, 1, 7, m, tzinfo=UTC) for m in (50, 10, 30)]
    found = asked.agg(lo=lw.min("t"), hi=lw.max("t"), n=lw.count("t")).run(
        epochs={feed: [[(m, 1) for m in moments]]}
    )
    (row,) = found.results.to_pylist()
    assert (row["lo"], row["hi"], row["n"]) == (moments[1], moments[0], 3)
