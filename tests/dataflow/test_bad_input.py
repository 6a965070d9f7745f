"""Bad input never kills a query, and costs no more than it must."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from tests.reference.windows import Slack, Windows, simulate
from tests.run_query import assert_accounts, assert_finals, finals, run

COUNT = {"n": lw.count()}


def table_run(tables, *, size=10, slide=None, keys=(), watermark=None, **named):
    feed = lw.feed(tables[0].schema)
    return (
        lw.stream(feed, time="t", watermark=watermark or lw.ordered())
        .window(range=size, slide=slide)
        .group_by(*keys)
        .agg(**(named or COUNT))
        .run(epochs={feed: tables}, host="local")
    )


def test_a_million_groups():
    n = 1_000_000
    table = pa.table({"t": np.arange(n) // 100_000, "g": np.arange(n), "x": np.ones(n)})
    outcome = table_run([table], keys=("g",), n=lw.count(), total=lw.sum("x"))
    assert len(outcome.results) == n
    assert outcome.status["admitted"] == n
    assert pa.compute.sum(outcome.results["total"]).as_py() == n


def test_a_million_groups_of_text_in_sliding_windows_over_epochs():
    n = 250_000
    names = pa.array(np.char.add("g", np.arange(n).astype(str)))
    tables = [pa.table({"t": np.full(n, t), "g": names}) for t in (0, 5, 11, 12)]
    outcome = table_run(tables, size=10, slide=5, keys=("g",))
    assert len(outcome.results) == 4 * n
    assert outcome.status["admitted"] == 4 * n


def test_rows_far_apart_in_time_cost_no_more_than_rows_near_each_other():
    # A row per hour for a year, in one epoch: the minutes between them are not touched.
    n = 8_760
    table = pa.table({"t": np.arange(n, dtype=np.int64) * 3_600, "x": np.ones(n)})
    outcome = table_run([table], size=60, slide=20)
    assert len(outcome.results) == 3 * n


@pytest.mark.parametrize("guarded", [True, False])
def test_a_row_years_ahead_of_the_clock_is_malformed_unless_any_time_is_allowed(guarded):
    #  epoch   0     1                2      3
    #  rows    now   now + 70 years   now    now      the clock jumped once: what follows is late
    year = 365 * 86_400 * 1_000_000
    now = 54 * year
    times = [now, now + 70 * year, now + 1, now + 2]
    feed = lw.feed("t timestamp")
    watermark = lw.slack("1 minute", **({} if guarded else {"max_ahead": None}))
    epochs = [pa.table({"t": pa.array([t], pa.timestamp("us", "UTC"))}) for t in times]
    outcome = (
        lw.stream(feed, time="t", watermark=watermark)
        .window(range="1 minute", slide="1 second")
        .agg(**COUNT)
        .run(epochs={feed: epochs})
    )
    assert outcome.status["in"] == 4
    assert outcome.status.balanced
    if guarded:
        assert (outcome.status["late"], outcome.status["malformed"]) == (0, 1)
        (reason,) = outcome.malformed["reason"].to_pylist()
        assert reason == "more than a day ahead of this machine's clock"
    else:
        assert outcome.status["late"] == 1
        assert len(outcome.results) == 120


@pytest.mark.parametrize("keys", [(), ("g",)])
@pytest.mark.parametrize("own", [False, True])
def test_times_at_both_ends_of_the_axis(keys, own):
    times = [-(2**61) + 1, 2**61 - 1, 0, -1, 2**60, -(2**60)]
    named = {"n": lw.count()}
    if own:
        named["own"] = lw.aggregate(
            "g", init=int, incr=lambda s, _: s + 1, final=int, returns="int"
        )
    stream = [(t, g) for g in range(20) for t in times]
    for windows in (Windows(1, 1), Windows(10, 3), Windows(2**40, 2**39)):
        outcome = run("t bigint, g int", [stream], windows, lw.ordered(), named, keys)
        held = {(t, w, *((g,) if keys else ())) for t, g in stream for w in windows.holding(t, t)}
        assert len(outcome.results) == len({cell[1:] for cell in held})
        assert outcome.status["admitted"] == len(stream)


def test_landmark_windows_over_times_far_apart():
    stream = [(0, 1), (10**9, 1)]
    outcome = run(
        "t bigint, x int", [[stream[0]], [stream[1]]], Windows(None, 10**6), lw.ordered(), COUNT
    )
    assert len(outcome.results) == 1001


def test_the_widest_window_that_is_allowed():
    stream = [(t,) for t in (0, 1, 500_000, 999_999, 2_000_000)]
    outcome = run("t bigint", [stream], Windows(1_000_000, 1), lw.ordered(), COUNT)
    counts = outcome.results["n"].to_numpy()
    assert len(counts) == 999_999 + 1_000_000 + 1_000_000
    assert counts.sum() == 5 * 1_000_000


def test_many_windows_close_in_bounded_memory():
    # 100 groups × 100,000 windows, closed at once: the grid is cut into slices.
    table = pa.table({"t": np.arange(0, 100_000, 100), "g": np.arange(1000) % 100})
    tracemalloc.start()
    outcome = table_run([table], size=1_000, slide=1, keys=("g",))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(outcome.results) == 1_000_000
    assert peak < 600_000_000


def test_the_same_epoch_given_twice_is_counted_twice():
    epoch = [(t,) for t in (1, 5, 12)]
    outcome = run("t bigint", [epoch, epoch], Windows(10, 10), lw.slack(99), COUNT)
    assert {w: r["n"] for (w,), r in finals(outcome).items()} == {0: 4, 1: 2}


def test_many_empty_epochs():
    epochs = [[], [], [(1,)], *[[] for _ in range(300)], [(12,)], []]
    outcome = run("t bigint", epochs, Windows(10, 10), lw.ordered(), COUNT)
    assert {w: r["n"] for (w,), r in finals(outcome).items()} == {0: 1, 1: 1}


@pytest.mark.parametrize("epochs", [[], [[]], [[], []], [[(None,)]], [[(None,)], []]])
def test_streams_without_a_row_that_counts(epochs):
    outcome = run("t bigint", epochs, Windows(10, 10), lw.slack(5), COUNT)
    assert len(outcome.results) == 0
    assert outcome.status.ended
    assert outcome.status.balanced


def test_a_group_that_is_null_in_every_row_and_values_that_are():
    schema = "t bigint, g string, x double, s string, m decimal(5, 2)"
    rows = [(t, None, None, None, None) for t in range(30)]
    named = {f"{f}_{c}": getattr(lw, f)(c) for f in ("min", "max", "first", "last") for c in "xsm"}
    outcome = run(schema, [rows], Windows(10, 5), lw.ordered(), {**COUNT, **named}, ("g",))
    for row in outcome.results.to_pylist():
        assert all(row[n] is None for n in named)
    assert outcome.status["admitted"] == 30


@pytest.mark.parametrize("name", ["late_degree", "missed", "admitted", "reason", "window_", "t "])
def test_columns_named_like_ours_do_no_harm(name):
    feed = lw.feed(pa.schema([("t", pa.int64()), (name, pa.int64())]))
    epochs = [[(100, 1)], [(101, 2)], [(1, 3)], [(None, 4)]]
    outcome = (
        lw.stream(feed, time="t", watermark=lw.ordered())
        .window(range=10)
        .agg(total=lw.sum(name))
        .run(epochs={feed: epochs})
    )
    assert outcome.late.column(name).to_pylist() == [3]
    assert outcome.malformed.column(name).to_pylist() == [4]
    assert len(set(outcome.late.column_names)) == len(outcome.late.column_names)


def test_names_with_dots_spaces_and_other_signs():
    feed = lw.feed(pa.schema([("event.time", pa.int64()), ("größe (m²)", pa.float64())]))
    outcome = (
        lw.stream(feed, time="event.time", watermark=lw.ordered())
        .window(range=10)
        .group_by("größe (m²)")
        .agg(n=lw.count("größe (m²)"))
        .run(epochs={feed: [[(1, 2.5)]]})
    )
    assert outcome.results["n"].to_pylist() == [1]


def test_timestamps_of_every_unit_and_zone_are_the_same_instants():
    moment = datetime(2024, 3, 31, 1, 30, tzinfo=UTC)
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "Europe/Berlin", "America/New_York"):
            kind = pa.timestamp(unit, zone)
            naive = moment.replace(tzinfo=None)
            table = pa.table({"t": pa.array([naive if zone is None else moment], kind)})
            feed = lw.feed(table.schema)
            outcome = (
                lw.stream(feed, time="t", watermark=lw.ordered())
                .window(range="1 hour")
                .agg(**COUNT)
                .run(epochs={feed: [table]})
            )
            start = outcome.results["window"].combine_chunks().field("start")
            assert start.cast(pa.int64()).to_pylist() == [1_711_846_800_000_000]


def test_clocks_that_jump_back_and_forth_by_years():
    year = 365 * 86_400
    times = [0, 50 * year, 1, -30 * year, 50 * year + 10, 2, 80 * year]
    epochs, windows = [[{"t": t}] for t in times], Windows(3600, 60)
    outcome = run("t bigint", epochs, windows, lw.slack(3600), COUNT)
    story = simulate(epochs, windows, Slack(3600))
    assert story.counts["late"] == 2
    assert_accounts(outcome, story)
    assert_finals(outcome, story, windows, (), {"n": ("count", None)})


# -- times in the future ---------------------------------------------------------------------------


def times_run(epochs, **options):
    feed = lw.feed("t timestamp")
    start = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [[(start + timedelta(minutes=m),) for m in minutes] for minutes in epochs]
    query = lw.stream(feed, time="t", watermark=lw.slack("1 minute", **options))
    return query.window(range="10 minutes").agg(**COUNT).run(epochs={feed: rows})


def test_the_first_rows_are_measured_from_their_median():
    year = 365 * 24 * 60
    outcome = times_run([[year, 0, 1, 2], [3, 4], [5]], max_ahead="1 hour")
    assert outcome.status["malformed"] == 1
    assert outcome.status["late"] == 0
    assert outcome.status.balanced


def test_a_long_silence_does_not_end_a_stream(caplog):
    day = 24 * 60
    outcome = times_run([[0, 1], [day, day + 1, 2], [day + 2]], max_ahead="1 hour")
    assert outcome.status["malformed"] == 0
    assert outcome.status["admitted"] == 6
    assert "most rows of input 1 are further ahead than max_ahead" in caplog.text
    assert outcome.status.jumps == 1


def test_a_few_rows_far_ahead_stay_malformed():
    day = 24 * 60
    outcome = times_run([[0, 1], [day, 2, 3], [4]], max_ahead="1 hour")
    assert outcome.status["malformed"] == 1
    assert outcome.status["late"] == 0


def test_numbers_have_no_clock():
    feed = lw.feed("t bigint")
    query = lw.stream(feed, time="t", watermark=lw.slack(5)).window(range=10).agg(**COUNT)
    assert query.run(epochs={feed: [[(10**17,)]]}).status["malformed"] == 0
