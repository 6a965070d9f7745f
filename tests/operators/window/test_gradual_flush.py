"""Smooth closing: the same results, given out little by little (OOP 6)."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from tests.reference.plans import bag, play, source
from tests.reference.windows import Slack, Windows
from tests.strategies import cut, examples

SCHEMA = "t bigint, k int, v int, f boolean"
NAMED = {"n": ("count", None), "v": ("sum", "v")}


@st.composite
def crowds(draw):
    """Epochs of rows of many groups, in disorder; and the slack."""
    steps = st.tuples(st.integers(0, 3), st.sampled_from((0, 0, 1, 5)), st.integers(0, 24))
    now, rows = 0, []
    for step, back, key in draw(st.lists(steps, min_size=10, max_size=60)):
        now += step
        rows.append({"t": now - back, "k": key, "v": step, "f": False})
    at = draw(st.lists(st.integers(0, len(rows)), min_size=2, max_size=9).map(sorted))
    return [list(p) for p in cut(rows, at)], draw(st.sampled_from((0, 2, 6)))


tumbling = st.builds(
    lambda size, gap, origin: Windows(size, size + gap, origin),
    st.integers(1, 12),
    st.sampled_from((0, 0, 3)),
    st.integers(-3, 3),
)
flushes = st.one_of(
    st.integers(1, 40).map(lambda d: lw.slow_flush(max_delay=d)),
    st.tuples(st.integers(1, 40), st.integers(0, 40)).map(
        lambda d: lw.lazy_flush(max_delay=d[0], keep=d[1])
    ),
)
shards = st.sampled_from((1, 2, 3))


def streams(crowd):
    epochs, slack = crowd
    return source(SCHEMA, epochs, lw.slack(slack), Slack(slack))


def marks(crowd):
    """The mark that acts in each epoch, the last of which ends the stream."""
    epochs, slack = crowd
    newest, found = None, [None]
    for rows in epochs:
        newest = max([r["t"] for r in rows] + ([] if newest is None else [newest]), default=None)
        found.append(None if newest is None else newest - slack)
    return [*found[:-1], float("inf")]


def everything(told):
    return bag(row for epoch in told.results["out"] for row in epoch)


@examples(30)
@given(crowds(), tumbling, flushes, shards)
def test_finals_and_late_rows_are_those_without_it_and_come_within_the_delay(
    crowd, window, flush, shards
):
    plain = play(shards, out=streams(crowd).aggregate(window, ["k"], **NAMED))
    smooth = play(shards, out=streams(crowd).aggregate(window, ["k"], flush=flush, **NAMED))
    assert everything(smooth) == everything(plain)
    assert [bag(e) for e in smooth.late] == [bag(e) for e in plain.late]
    assert smooth.counts == plain.counts
    acting = marks(crowd)
    for n, rows in enumerate(smooth.results["out"]):
        for row in rows:
            end = row["window"]["end"]
            assert acting[n] >= end, "given out before it was complete"
            before = acting[n - 1]
            assert before is None or before < end + flush.max_delay, "given out too late"


@examples(18)
@given(crowds(), tumbling, st.integers(1, 40), st.integers(0, 30), shards)
def test_what_waits_lazily_has_room(crowd, window, delay, keep, shards):
    flush = lw.lazy_flush(max_delay=delay, keep=keep)
    found = play(shards, out=streams(crowd).aggregate(window, ["k"], flush=flush, **NAMED))
    finals = [(n, r["window"]["end"]) for n, e in enumerate(found.results["out"]) for r in e]
    for n, mark in enumerate(marks(crowd)):
        waiting = sum(mark is not None and m > n and end <= mark for m, end in finals)
        assert waiting <= max(0, keep), "more waits than there is room for"


@examples(25)
@given(crowds(), tumbling, flushes, tumbling, shards)
def test_windows_over_smooth_windows_see_no_late_result(crowd, below, flush, above, shards):
    def asked(smooth):
        groups = streams(crowd).aggregate(below, ["k"], flush=smooth, **NAMED)
        return play(shards, out=groups.aggregate(above, n=("sum", "n"), groups=("count", None)))

    plain, smooth = asked(None), asked(flush)
    assert everything(smooth) == everything(plain)
    assert smooth.counts == plain.counts
    assert smooth.counts["window 2"]["late"] == smooth.counts["window 2"]["partly_late"] == 0


def undegreed(told):
    """Late rows but for how late they are: against a mark, which windows round differently."""
    return [
        bag({k: v for k, v in row.items() if k != "late_degree"} for _, _, row in epoch)
        for epoch in told.late
    ]


@examples(25)
@given(crowds(), tumbling, flushes, shards)
def test_groups_that_a_source_closes_are_given_out_within_the_delay_of_its_mark(
    crowd, window, flush, shards
):
    epochs, slack = crowd
    rows = [[{**r, "k": r["k"] % 4} for r in epoch] for epoch in epochs]

    def asked(smooth):
        progress = lw.per_source("k", lw.slack(slack))
        stream = source(SCHEMA, rows, progress, Slack(slack))
        return play(shards, out=stream.aggregate(window, ["k"], flush=smooth, **NAMED))

    plain, smooth = asked(None), asked(flush)
    assert everything(smooth) == everything(plain)
    assert undegreed(smooth) == undegreed(plain)
    for n, given_out in enumerate(smooth.results["out"]):
        seen = [r for epoch in rows[: max(n - 1, 0)] for r in epoch]
        for row in given_out:
            own = [r["t"] - slack for r in seen if r["k"] == row["k"]]
            assert max(own, default=-1000) < row["window"]["end"] + flush.max_delay


@examples(8)
@given(crowds(), crowds(), tumbling, flushes, shards)
def test_pairs_of_windows_are_the_same_smooth_or_not(mine, other, window, flush, shards):
    bounds = Windows(window.range, window.range, window.origin)

    def asked(smooth):
        joined = streams(mine).join(streams(other), on=["k"], band=(-3, 9))
        both = ("t", "t_other")
        return play(shards, out=joined.aggregate(bounds, ["k"], on=both, flush=smooth, **NAMED))

    plain, smooth = asked(None), asked(flush)
    assert everything(smooth) == everything(plain)
    assert undegreed(smooth) == undegreed(plain)
    assert not any(smooth.cells[-1].values())


def crowd_of(groups, marks):
    """A row of every group in window [0, 100), then rows that show how far time is."""
    first = [{"t": k % 100, "k": k, "v": 1, "f": False} for k in range(groups)]
    return [first, *([{"t": m, "k": -1, "v": 1, "f": False}] for m in marks)], 0


def when(told):
    """How many results of the first window each epoch gave."""
    found = defaultdict(int)
    for n, rows in enumerate(told.results["out"]):
        found[n] += sum(r["wid"] == 0 for r in rows)
    return {n: count for n, count in found.items() if count}


@pytest.mark.parametrize(("delay", "ticks"), [("2 windows", 200), (150, 150), ("0.5 windows", 50)])
def test_results_of_many_groups_are_spread_over_the_delay(delay, ticks):
    crowd = crowd_of(800, range(100, 400, 10))
    flush = lw.slow_flush(max_delay=delay)
    twin = streams(crowd).aggregate(Windows(100, 100), ["k"], flush=flush, **NAMED)
    counts = when(play(1, out=twin))
    # Mark 100 + 10·i acts in epoch 2 + i: the first slice leaves at once, the last in time.
    assert min(counts) == 2
    assert 2 + (ticks - 30) // 10 <= max(counts) <= 2 + ticks // 10
    assert sum(counts.values()) == 800
    slices = min(8, ticks // 10)
    assert len(counts) >= slices - 1
    assert max(counts.values()) <= 2.5 * 800 / slices


def test_a_lazy_flush_waits_for_half_its_delay_while_there_is_room():
    crowd = crowd_of(800, range(100, 400, 10))
    flush = lw.lazy_flush(max_delay=200, keep=10_000)
    counts = when(
        play(2, out=streams(crowd).aggregate(Windows(100, 100), ["k"], flush=flush, **NAMED))
    )
    assert min(counts) == 2 + 10
    assert max(counts) <= 2 + 20
    none = lw.lazy_flush(max_delay=200, keep=0)
    counts = when(
        play(2, out=streams(crowd).aggregate(Windows(100, 100), ["k"], flush=none, **NAMED))
    )
    assert set(counts) == {2}


def test_rows_that_come_while_a_window_waits_are_late_for_it():
    #  mark 100 acts in epoch 2; window [0, 100) is given out until 300, and takes no more rows
    epochs, _ = crowd_of(40, (100, 105, 110, 115))
    epochs[4].insert(0, {"t": 50, "k": 7, "v": 1, "f": False})
    flush = lw.slow_flush(max_delay=200)
    found = play(
        2, out=streams((epochs, 0)).aggregate(Windows(100, 100), ["k"], flush=flush, **NAMED)
    )
    assert found.counts["window"]["late"] == 1
    assert sum(r["n"] for e in found.results["out"] for r in e if r["wid"] == 0) == 40
