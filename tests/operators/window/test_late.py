"""Late rows come out as data: how late they were, which windows they missed, which they entered."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from tests.reference.windows import RowSlack, Slack, Windows, simulate
from tests.run_query import aggregates, assert_accounts, assert_finals, finals, late_rows, run
from tests.strategies import NAMED, SCHEMA, any_windows, cuts, examples, rows, sliding

SOME = {n: NAMED[n] for n in ("n", "sum_i", "sum_x", "first_s", "last_d", "max_m")}
COUNT = {"n": lw.count()}


def tumbling(*epochs, watermark=None, size=10, slide=None):
    stream = [[(t,) for t in epoch] for epoch in epochs]
    windows = Windows(size, slide or size)
    return run("t bigint", stream, windows, watermark or lw.ordered(), COUNT)


@examples(120)
@given(st.data(), any_windows(), rows(), st.integers(0, 12), st.booleans())
def test_late_rows_are_those_of_the_oracle(data, windows, stream, span, by_group):
    epochs, keys = data.draw(cuts(stream)), ("a",) if by_group else ()
    outcome = run(SCHEMA, epochs, windows, lw.slack(span), aggregates(SOME), keys)
    story = simulate(epochs, windows, Slack(span))
    assert_accounts(outcome, story)
    assert_finals(outcome, story, windows, keys, SOME)


@examples(80)
@given(st.data(), sliding(), rows(), st.integers(0, 12))
def test_consistent_late_rows_are_those_of_the_oracle(data, windows, stream, span):
    epochs = data.draw(cuts(stream))
    progress = lw.slack(span, mode="consistent")
    outcome = run(SCHEMA, epochs, windows, progress, aggregates(SOME), ("b",))
    story = simulate(epochs, windows, Slack(span), consistent=True)
    assert story.counts["partly_late"] == 0
    assert_accounts(outcome, story)
    assert_finals(outcome, story, windows, ("b",), SOME)


@examples(80)
@given(st.data(), any_windows(), rows(malformed=True), st.integers(0, 9), st.booleans())
def test_late_rows_under_slack_in_rows_are_those_of_the_oracle(data, windows, stream, n, strict):
    epochs = data.draw(cuts(stream))
    strict = strict and windows.range is not None
    progress = lw.slack(rows=n, mode="consistent" if strict else "generous")
    outcome = run(SCHEMA, epochs, windows, progress, aggregates(SOME))
    story = simulate(epochs, windows, RowSlack(n), consistent=strict)
    assert_accounts(outcome, story)
    assert_finals(outcome, story, windows, (), SOME)


def test_late_row_reports_the_windows_it_missed():
    #  epoch  0        1          2
    #  rows   25       26         3
    #  mark            closes [-2, 8) … [13, 23) at 25
    #  row 3 belongs to [-7, 8) [-2, 13) [3, 18): all closed at the end of epoch 1
    outcome = tumbling([25], [26], [3], size=15, slide=5)
    assert outcome.late.to_pylist() == [
        {
            "t": 3,
            "late_degree": 23,
            "missed": {"first": -2, "last": 0, "start": -10, "end": 15},
            "admitted": False,
        }
    ]
    assert (outcome.status["late"], outcome.status["partly_late"]) == (1, 0)


def test_partly_late_row_is_admitted_and_listed_with_what_it_missed():
    #  epoch  0     1        2
    #  rows   12    13       6
    #  mark         12 closes [-10, 5) and [-5, 10)
    #  row 6 is in [-5, 10) [0, 15) [5, 20): it missed the first, the other two are open
    outcome = tumbling([12], [13], [6], size=15, slide=5)
    late = outcome.late.to_pylist()
    assert [(r["t"], r["missed"]["first"], r["missed"]["last"]) for r in late] == [(6, -1, -1)]
    assert late[0]["admitted"]
    assert (outcome.status["late"], outcome.status["partly_late"]) == (0, 1)
    assert outcome.status["admitted"] == 3
    found = {w: r["n"] for (w,), r in finals(outcome).items()}
    assert found == {0: 3, 1: 3, 2: 2}


def test_row_behind_the_mark_is_in_time_while_its_window_is_not_closed():
    #  epoch  0     1          2
    #  rows   25    3          4
    #  mark         25 is decided after epoch 0 and closes [0, 10) at the end of epoch 1:
    #  3 is admitted first, 4 comes after
    outcome = tumbling([25], [3], [4])
    assert [r["t"] for r in outcome.late.to_pylist()] == [4]
    assert finals(outcome)[(0,)]["n"] == 1


def test_rows_of_one_epoch_are_never_late_for_each_other():
    outcome = tumbling([100, 50, 0, 75])
    assert outcome.status["late"] == 0
    assert len(outcome.results) == 4


def test_a_row_at_the_mark_is_in_time():
    #  slack 5, newest 15: the mark is 10, [0, 10) is complete, 10 itself is still open
    outcome = tumbling([15], [15], [10], [9], watermark=lw.slack(5))
    assert [r["t"] for r in outcome.late.to_pylist()] == [9]


def test_a_late_row_does_not_bring_its_window_back():
    outcome = tumbling([5, 25], [26], [3], [4])
    assert finals(outcome)[(0,)]["n"] == 1
    assert outcome.status["late"] == 2


def test_consistent_row_that_is_late_for_one_window_misses_all():
    #  the same rows as in the partly late case above
    progress = lw.slack(0, mode="consistent")
    outcome = tumbling([12], [13], [6], size=15, slide=5, watermark=progress)
    assert [(r["missed"]["first"], r["missed"]["last"]) for r in outcome.late.to_pylist()] == [
        (-1, 1)
    ]
    assert {w: r["n"] for (w,), r in finals(outcome).items()} == {0: 2, 1: 2, 2: 2}
    assert (outcome.status["late"], outcome.status["partly_late"]) == (1, 0)


def test_consistent_slack_decides_by_the_rows_before_the_block_not_by_what_is_closed():
    #  epoch  0     1
    #  rows   25    3      [0, 10) is still open in epoch 1, but the mark over epoch 0 is 25
    outcome = tumbling([25], [3], watermark=lw.slack(0, mode="consistent"))
    assert [r["t"] for r in outcome.late.to_pylist()] == [3]


@examples(25)
@given(data=st.data(), stream=rows(size=30), span=st.integers(0, 8), windows=sliding())
def test_consistent_slack_gives_the_same_rows_however_blocks_are_cut_into_epochs(
    data, tmp_path_factory, stream, span, windows
):
    # Blocks are files; an epoch takes one, three, or all of them.
    folder = tmp_path_factory.mktemp("blocks")
    schema = lw.feed("t bigint, i bigint").schema
    for n, block in enumerate(data.draw(cuts(stream))):
        table = pa.Table.from_pylist([{"t": r["t"], "i": r["i"]} for r in block], schema)
        pq.write_table(table, folder / f"{n:04d}.parquet")

    def outcome(files_per_epoch):
        source = lw.files(folder, files_per_epoch=files_per_epoch)
        return (
            lw.stream(source, time="t", watermark=lw.slack(span, mode="consistent"))
            .window(range=windows.range, slide=windows.slide, origin=windows.origin)
            .agg(n=lw.count(), total=lw.sum("i"))
            .run(host="local")
        )

    one = outcome(1)
    for files_per_epoch in (3, 100):
        more = outcome(files_per_epoch)
        assert late_rows(more) == late_rows(one)
        assert finals(more) == finals(one)
        assert more.status.counts == one.status.counts


@pytest.mark.parametrize("mode", ["generous", "consistent"])
def test_no_row_is_late_because_results_are_given_out_little_by_little(mode):
    #  mark 16 lies within [10, 20): it lets a slice of [0, 10) go, and closes nothing that 11 is in
    feed = lw.feed("t bigint, k int")
    windowed = lw.stream(feed, time="t", watermark=lw.slack(0, mode=mode)).window(
        range=10, flush=lw.slow_flush(max_delay=8)
    )
    epochs = [[(5, 1), (16, 2)], [(12, 1)], [(11, 1), (9, 2)], [(30, 1)]]
    outcome = windowed.group_by("k").agg(**COUNT).run(epochs={feed: epochs}, host="local")
    assert [row["t"] for row in outcome.late.to_pylist()] == [9]
    found = {(row["wid"], row["k"]): row["n"] for row in outcome.results.to_pylist()}
    assert found == {(0, 1): 1, (1, 1): 2, (1, 2): 1, (3, 1): 1}


def test_late_degree_counts_from_the_newest_row_before_it_in_arrival_order():
    #  epoch  0         1        2
    #  rows   10, 40    41, 20   5, 50, 8     degrees of the late: 41-5, 50-8
    outcome = tumbling([10, 40], [41, 20], [5, 50, 8])
    assert [(r["t"], r["late_degree"]) for r in outcome.late.to_pylist()] == [(5, 36), (8, 42)]


@pytest.mark.parametrize("mode", ["generous", "consistent"])
def test_late_degree_counts_across_the_blocks_of_an_epoch(tmp_path, mode):
    #  epoch   0           1           2
    #  blocks  100 | 101   102 | 103   200 | 150, 5     5 is late by 195, whoever came just before
    for n, times in enumerate([[100], [101], [102], [103], [200], [150, 5]]):
        pq.write_table(pa.table({"t": times}), tmp_path / f"{n}.parquet")
    outcome = (
        lw.stream(
            lw.files(tmp_path, files_per_epoch=2), time="t", watermark=lw.slack(60, mode=mode)
        )
        .window(range=10)
        .agg(n=lw.count())
        .run(host="local")
    )
    assert [(r["t"], r["late_degree"]) for r in outcome.late.to_pylist()] == [(5, 195)]


@examples(15)
@given(data=st.data(), stream=rows(size=25), own=st.booleans())
def test_consistent_sources_give_the_same_rows_however_blocks_are_cut_into_epochs(
    data, tmp_path_factory, stream, own
):
    folder = tmp_path_factory.mktemp("blocks")
    schema = lw.feed("t bigint, b string").schema
    for n, block in enumerate(data.draw(cuts(stream))):
        table = pa.Table.from_pylist([{"t": r["t"], "b": r["b"]} for r in block], schema)
        pq.write_table(table, folder / f"{n:04d}.parquet")

    def outcome(files_per_epoch):
        progress = lw.per_source("b", lw.slack(3, mode="consistent"))
        return (
            lw.stream(
                lw.files(folder, files_per_epoch=files_per_epoch), time="t", watermark=progress
            )
            .window(range=10, slide=4)
            .group_by(*(("b",) if own else ()))
            .agg(n=lw.count())
            .run(host="local")
        )

    one, more = outcome(1), outcome(3)
    assert late_rows(more) == late_rows(one)
    assert more.status.counts == one.status.counts


def test_on_landmark_windows_no_row_is_wholly_late():
    #  epoch  0     1                       2
    #  rows   25    26                      3
    #  mark         closes (…, 10) (…, 20)  3 missed these two and is in (…, 30)
    outcome = run("t bigint", [[(25,)], [(26,)], [(3,)]], Windows(None, 10), lw.ordered(), COUNT)
    assert [r["missed"]["first"] for r in outcome.late.to_pylist()] == [0]
    assert [r["missed"]["last"] for r in outcome.late.to_pylist()] == [1]
    assert (outcome.status["late"], outcome.status["partly_late"]) == (0, 1)
    assert {w: r["n"] for (w,), r in finals(outcome).items()} == {2: 3}


def test_late_rows_keep_all_their_columns():
    schema = "t bigint, name string, price decimal(10, 2), note string"
    row = (3, "late", None, "still here")
    outcome = run(
        schema, [[(25, "a", None, None)], [(26, "a", None, None)], [row]],
        Windows(10, 10), lw.ordered(), COUNT, ("name",),
    )  # fmt: skip
    assert [
        tuple(r[c] for c in ("t", "name", "price", "note")) for r in outcome.late.to_pylist()
    ] == [row]


def test_late_windows_are_told_in_the_type_of_the_time_column():
    feed = lw.feed("ts timestamp")
    stamps = [
        datetime(2024, 1, 1, 0, 10, tzinfo=UTC),
        datetime(2024, 1, 1, 0, 11, tzinfo=UTC),
        datetime(2024, 1, 1, 0, 1, 9, tzinfo=UTC),
    ]
    epochs = [[(s,)] for s in stamps]
    outcome = (
        lw.stream(feed, time="ts", watermark=lw.ordered())
        .window(range="1 minute")
        .agg(n=lw.count())
        .run(epochs={feed: epochs})
    )
    missed = outcome.late.to_pylist()[0]["missed"]
    assert str(missed["start"]) == "2024-01-01 00:01:00+00:00"
    assert str(missed["end"]) == "2024-01-01 00:02:00+00:00"
