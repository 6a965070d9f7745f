"""Who asks, when, and for which windows; what is told of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from tests.strategies import examples

SCHEMA = "ts timestamp, k int, v double"
START = datetime(2024, 1, 1, tzinfo=UTC)


def at(seconds):
    return START + timedelta(seconds=seconds)


def steady(seconds, per_second=4, keys=(1, 2)):
    """One epoch for each second, as the clock of the test goes."""
    return [
        [(at(s + n / per_second), keys[n % len(keys)], 1.0) for n in range(per_second)]
        for s in range(seconds)
    ]


def run(query, feed, epochs, prods, **words):
    clock = lw.VirtualClock(start=START.isoformat(), per_epoch="1 second")
    return query.run(epochs={feed: epochs}, early=prods, clock=clock, **words)


def asked(slack="0 seconds", **window):
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="ts", watermark=lw.slack(slack))
    return stream.window(**window).group_by("k").agg(n=lw.count(), s=lw.sum("v")), feed


def early(outcome):
    return [r for r in outcome.results.to_pylist() if r["kind"] == "early"]


def ends(rows):
    return sorted({int((r["window"]["end"] - START).total_seconds()) for r in rows})


def test_every_asks_for_the_next_window_to_end():
    query, feed = asked(range="10 seconds")
    found = early(run(query, feed, steady(25), lw.early_every("4 seconds")))
    by_end = [int((r["window"]["end"] - START).total_seconds()) for r in found if r["k"] == 1]
    assert by_end == [10, 10, 20, 20, 30]


def test_aggressive_asks_once_for_each_window_a_share_of_its_slide_before_it_ends():
    query, feed = asked(range="10 seconds", slide="5 seconds")
    outcome = run(query, feed, steady(30), lw.early_before(0.4), estimate="raw")
    found = early(outcome)
    assert ends(found) == list(range(5, 31, 5))
    for row in found:
        seconds = min(10, int((row["window"]["end"] - START).total_seconds()))
        # Two seconds before the end, and what came by then: half a second's rows are of each key.
        assert row["n"] == (seconds - 2) * 2, row


def test_aggressive_windows_that_wait_for_the_slack_are_asked_for_in_their_own_time():
    query, feed = asked(slack="12 seconds", range="10 seconds", slide="5 seconds")
    found = early(run(query, feed, steady(40), lw.early_before(0.2), estimate="raw"))
    assert len(found) == len({(r["wid"], r["k"]) for r in found})
    assert ends(found) == list(range(5, 41, 5))


def test_a_window_is_asked_for_although_its_rows_are_late():
    query, feed = asked(range="10 seconds")
    silent = steady(8) + [[] for _ in range(6)]
    found = early(run(query, feed, silent, lw.early_before(0.1), estimate="raw"))
    assert ends(found) == [10]
    assert {r["n"] for r in found} == {16}


@examples(40)
@given(
    gaps=st.lists(st.integers(0, 6), min_size=3, max_size=20),
    share=st.sampled_from((0.0, 0.3, 1.0)),
    slack=st.sampled_from(("0 seconds", "3 seconds")),
    estimate=st.sampled_from(("raw", "complete")),
)
def test_every_early_row_gets_its_final_and_finals_do_not_change(gaps, share, slack, estimate):
    query, feed = asked(slack=slack, range="6 seconds", slide="2 seconds")
    now, epochs = 0.0, []
    for gap in gaps:
        now += gap / 2
        epochs.append([(at(now - back), n % 3, float(n)) for n, back in enumerate((0, 0.4, 2))])
    prods = [lw.early_before(share), lw.early_every("3 seconds")]
    outcome = run(query, feed, epochs, prods, estimate=estimate)
    rows = outcome.results.to_pylist()
    finals = {(r["wid"], r["k"]): n for n, r in enumerate(rows) if r["kind"] == "final"}
    assert all(finals[r["wid"], r["k"]] > n for n, r in enumerate(rows) if r["kind"] == "early")
    plain = query.run(
        epochs={feed: epochs}, clock=lw.VirtualClock(start=START.isoformat(), per_epoch="1 second")
    )
    names = plain.results.column_names
    kept = outcome.results.filter([k == "final" for k in outcome.results["kind"].to_pylist()])
    assert kept.select(names).equals(plain.results)
    assert outcome.late.equals(plain.late)
    assert outcome.status.counts == plain.status.counts


def test_prods_are_counted_also_those_that_find_nothing():
    query, feed = asked(range="10 seconds")
    asks = lw.feed("ts timestamp, k int")
    prods = lw.stream(asks, time="ts", watermark=lw.ordered())
    wanted = [[(at(5), None)], [(None, 1)], [(None, 7)], [], []]
    clock = lw.VirtualClock(start=START.isoformat(), per_epoch="1 second")
    outcome = query.run(epochs={feed: steady(5), asks: wanted}, early=prods, clock=clock)
    assert outcome.status.prods == {"asked": 3, "answered": 1, "empty": 2, "early": 1}
    assert [(r["k"]) for r in early(outcome)] == [1]


def test_a_run_without_prods_has_no_word_of_them():
    query, feed = asked(range="10 seconds")
    outcome = query.run(epochs={feed: steady(3)})
    assert outcome.status.prods == {}
    assert outcome.status.accuracy == {}
    assert outcome.results.column_names == query.schema.names


def test_early_rows_of_two_queries_in_one_run():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="ts", watermark=lw.slack("0 seconds"))
    both = lw.together(
        fast=stream.window(range="4 seconds").agg(n=lw.count()),
        slow=stream.window(range="10 seconds").agg(top=lw.max("v")),
    )
    clock = lw.VirtualClock(start=START.isoformat(), per_epoch="1 second")
    found = both.run(epochs={feed: steady(20)}, early=lw.early_before(0.5), clock=clock)
    assert ends(early(found["fast"])) == [4, 8, 12, 16, 20]
    assert ends(early(found["slow"])) == [10, 20]
    assert set(found["fast"].status.accuracy) == {"n"}
    assert set(found["slow"].status.accuracy) == {"top"}


def test_accuracy_is_told_by_aggregate_and_group():
    query, feed = asked(range="10 seconds")
    raw = run(query, feed, steady(60), lw.early_before(0.5), estimate="raw").status.accuracy
    assert raw["n"].mean == pytest.approx(0.5, abs=0.01)
    assert raw["n"].groups["1"].count == raw["n"].groups["2"].count == raw["n"].count // 2
    complete = run(query, feed, steady(60), lw.early_before(0.5)).status.accuracy
    assert complete["n"].recent > 0.95
    assert complete["n"].worst <= complete["n"].mean


def test_the_user_may_judge_early_results():
    query, feed = asked(range="10 seconds")
    seen = []

    def judge(said, final, seconds):
        seen.append((said, final, seconds))
        return 0.25

    how = lw.estimates("raw", accuracy=judge)
    outcome = run(query, feed, steady(30), lw.early_before(0.5), estimate=how)
    assert outcome.status.accuracy["n"].mean == 0.25
    assert {(final, seconds) for _, final, seconds in seen if final == 20} <= {(20, 6), (20, 7)}


def test_an_aggregate_of_the_user_says_how_it_grows():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="ts", watermark=lw.slack("0 seconds"))
    total = {"lift": float, "combine": lambda a, b: a + b, "lower": float, "returns": "double"}
    query = stream.window(range="10 seconds").agg(
        plain=lw.aggregate("v", **total),
        grown=lw.aggregate("v", **total, extrapolate=lambda value, share: value / share),
    )
    rows = early(run(query, feed, steady(40), lw.early_before(0.5)))
    assert rows[0]["plain"] == 20  # before its final is known, nothing is learned
    assert rows[-1]["grown"] == pytest.approx(40, rel=0.05)


def test_sums_below_are_completed_before_the_greatest_is_taken():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="ts", watermark=lw.slack("0 seconds"))
    counts = stream.window(range="10 seconds").group_by("k").agg(n=lw.count())
    query = counts.window(range="10 seconds", on="window").agg(most=lw.max("n"))
    raw, complete = (
        [r["most"] for r in early(run(query, feed, steady(60), lw.early_before(0.5), estimate=e))]
        for e in ("raw", "complete")
    )
    assert raw[-1] == 10
    assert complete[-1] == pytest.approx(20, abs=2)


def test_every_numeric_aggregate_has_an_interval_and_nothing_else_has():
    feed = lw.feed("ts timestamp, k int, name string, v decimal(9,2)")
    stream = lw.stream(feed, time="ts", watermark=lw.slack("0 seconds"))
    query = stream.window(range="10 seconds").agg(
        n=lw.count(), total=lw.sum("v"), mean=lw.avg("v"), who=lw.max("name"), low=lw.min("v")
    )
    rows = [[(t, k, "ab"[k - 1], 3) for t, k, _ in epoch] for epoch in steady(30)]
    outcome = run(query, feed, rows, lw.early_before(0.5))
    found = early(outcome)[-1]
    assert set(found["high"]) == {"n", "total", "mean", "low"}
    assert found["low_"]["n"] <= found["n"] <= found["high"]["n"]
    assert found["low"] == 3
    assert 0 < found["completeness"] < 1
    assert set(found["settled"]) == {"n", "total", "mean", "low"}
    assert all(0 <= p <= 1 for p in found["settled"].values())


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: lw.early_every("0 seconds"), "every"),
        (lambda: lw.early_every("soon"), "soon"),
        (lambda: lw.early_before(1.5), "1.5"),
        (lambda: lw.early_before(-0.1), "-0.1"),
        (lambda: lw.estimates("guess"), "guess"),
        (lambda: lw.estimates(interval=90), "90"),
        (lambda: lw.estimates(accuracy=0.9), "0.9"),
    ],
)
def test_a_wrong_setting_names_itself(make, told):
    with pytest.raises(lw.SpecError, match=told):
        make()


def test_prods_that_are_none_are_refused():
    query, feed = asked(range="10 seconds")
    for odd in ("10 seconds", 5, [], [lw.early_every("1 second"), "now"]):
        with pytest.raises(lw.SpecError, match=r"lw\.early_every"):
            query.run(epochs={feed: []}, early=odd)
    with pytest.raises(lw.SpecError, match="'exact' is unknown"):
        query.run(epochs={feed: []}, early=lw.early_on_demand(), estimate="exact")


def test_windows_without_a_slide_cannot_be_asked_for_by_it():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="ts", watermark=lw.slack("0 seconds"))
    query = stream.window(gap="5 seconds").agg(n=lw.count())
    with pytest.raises(lw.SpecError, match=r"lw\.early_every"):
        query.run(epochs={feed: []}, early=lw.early_before(0.5))
    assert early(run(query, feed, steady(4), lw.early_every("1 second")))


def test_a_stream_of_prods_is_of_the_query_s_time_and_comes_from_outside():
    query, feed = asked(range="10 seconds")
    numbers = lw.stream(lw.feed("t bigint"), time="t", watermark=lw.ordered())
    with pytest.raises(lw.SpecError, match="is a number"):
        query.run(epochs={feed: []}, early=numbers)
    with pytest.raises(lw.SpecError, match="is read from a source"):
        query.run(epochs={feed: []}, early=query)
