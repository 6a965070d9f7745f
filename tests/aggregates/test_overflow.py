"""Sums that do not fit their type: found exactly, NULL and counted, or an error."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from tests.strategies import cuts, examples

LEAST, GREATEST = -(2**63), 2**63 - 1
VALUES = st.sampled_from([LEAST, LEAST + 1, -1, 0, 1, GREATEST - 1, GREATEST, None]) | st.integers(
    LEAST // 3, GREATEST // 3
)
ROWS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1), VALUES), min_size=1, max_size=30)


def fits(total):
    return total if LEAST <= total <= GREATEST else None


def mean(values):
    return sum(values) / len(values) if values else None


WINDOWS = {
    "tumbling": {"range": 7},
    "sliding": {"range": 12, "slide": 5},
    "overlapping": {"range": 9, "slide": 1},
    "session": {"gap": 4},
    "landmark": {"range": lw.unbounded, "slide": 6},
}


@pytest.mark.parametrize("kind", WINDOWS)
@examples(40)
@given(rows=ROWS, data=st.data())
def test_every_sum_is_exact_or_null_and_counted(kind, rows, data):
    feed = lw.feed("t bigint, k int, x bigint")
    stream = lw.stream(feed, time="t", watermark=lw.slack(100))
    query = stream.window(**WINDOWS[kind]).group_by("k").agg(s=lw.sum("x"), a=lw.avg("x"))
    outcome = query.run(epochs={feed: data.draw(cuts(rows))}, shards=2)
    overflows = 0
    for row in outcome.results.to_pylist():
        start, end = row["window"]["start"], row["window"]["end"]
        begun = LEAST if start is None else start
        mine = [x for t, k, x in rows if k == row["k"] and begun <= t < end and x is not None]
        assert row["s"] == (fits(sum(mine)) if mine else None)
        assert row["a"] == mean(mine)
        overflows += bool(mine) and fits(sum(mine)) is None
    assert outcome.status.overflows == overflows
    assert outcome.status["overflows"] == overflows
    assert outcome.status.balanced


def test_an_overflow_of_a_second_operator_is_counted():
    feed = lw.feed("t bigint, x bigint")
    stream = lw.stream(feed, time="t", watermark=lw.ordered())
    inner = stream.window(range=2).agg(s=lw.sum("x"))
    outer = inner.window(range=4).agg(total=lw.sum("s"))
    rows = [(0, GREATEST), (2, 1), (4, GREATEST), (5, GREATEST), (6, 3)]
    outcome = outer.run(epochs={feed: [rows]})
    #  inner: GREATEST, 1, NULL, 3; the NULL is not part of an outer sum, the others are
    assert outcome.results["total"].to_pylist() == [None, 3]
    assert outcome.status.overflows == 2
    assert outcome.status.balanced


def test_gradual_results_count_overflows_once():
    feed = lw.feed("t bigint, k int, x bigint")
    query = (
        lw.stream(feed, time="t", watermark=lw.ordered())
        .window(range=4, flush=lw.slow_flush(max_delay=2))
        .group_by("k")
        .agg(s=lw.sum("x"))
    )
    rows = [(t, k, GREATEST) for t in range(12) for k in range(5)]
    outcome = query.run(epochs={feed: [rows[:20], rows[20:]]}, shards=2)
    assert outcome.results["s"].null_count == len(outcome.results) == 15
    assert outcome.status.overflows == 15


def test_fail_names_operator_column_window_group_and_the_way_out(tmp_path):
    feed = lw.feed("t bigint, k string, x bigint")
    windows = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10).group_by("k")
    rows = [(0, "a", 1), (3, "b", GREATEST), (4, "b", 1)]
    query = windows.agg(total=lw.sum("x", overflow="fail"))
    with pytest.raises(lw.ResultOverflowError) as failed:
        query.run(epochs={feed: [rows]})
    text = str(failed.value)
    assert "epoch 1 failed in operator 'window'" in text
    assert "sum('x') as 'total' in the window from 0 to 10, k = 'b' does not fit int64" in text
    assert "overflow='null'" in text


def test_overflow_may_change_between_restarts():
    feed = lw.feed("t bigint, x bigint")
    windows = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10)
    one, other = (windows.agg(s=lw.sum("x", overflow=o)) for o in ("null", "fail"))
    assert one.fingerprint(2) == other.fingerprint(2)


def test_an_early_sum_that_overflows_is_null_and_does_not_fail():
    #  the sum is out of range when the early result is asked for, and back when the window closes
    feed = lw.feed("t bigint, x bigint")
    query = (
        lw.stream(feed, time="t", watermark=lw.ordered())
        .window(range=10)
        .agg(s=lw.sum("x", overflow="fail"))
    )
    first = [(1, GREATEST), (2, GREATEST)]
    epochs = [first, [(3, 0)], [(3, 0)], [(4, -GREATEST)], [(12, 1)]]
    outcome = query.run(
        epochs={feed: epochs},
        early=lw.early_every("1 second"),
        estimate="raw",
        clock=lw.VirtualClock(),
    )
    rows = outcome.results.to_pylist()
    assert next(r["s"] for r in rows if r["kind"] == "final") == GREATEST
    assert None in [r["s"] for r in rows if r["kind"] == "early"]
    assert outcome.status.overflows == 0


@pytest.mark.parametrize("aggregate", [lw.sum, lw.avg])
def test_an_unknown_overflow_is_refused(aggregate):
    with pytest.raises(lw.SpecError, match="overflow='wrap' is unknown; write 'null' or 'fail'"):
        aggregate("x", overflow="wrap")


def test_decimals_beyond_their_digits_are_counted():
    feed = lw.feed(pa.schema([("t", pa.int64()), ("x", pa.decimal128(38, 0))]))
    query = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10)
    rows = [(0, Decimal("9" * 38)), (1, Decimal(1)), (10, Decimal(5)), (20, None)]
    outcome = query.agg(s=lw.sum("x")).run(epochs={feed: [rows]})
    assert outcome.results["s"].to_pylist() == [None, Decimal(5), None]
    assert outcome.status.overflows == 1
