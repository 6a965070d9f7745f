"""Windows on both times of a join, closed by joint punctuation (OOP 7)."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from tests.dataflow.test_plans import COUNT, SCHEMA, TOTAL, bands, long_stream, shards, sources
from tests.reference.plans import assert_same, play, source, tell
from tests.reference.windows import Slack, Windows
from tests.strategies import examples

tumbling = st.builds(lambda n, origin: Windows(n, n, origin), st.integers(1, 8), st.integers(-3, 3))
times = st.sampled_from((("t", "t_other"), ("t_other", "t")))


@examples(30)
@given(sources(), sources(), bands, tumbling, times, st.sampled_from(((), ("k",))), shards)
def test_pairs_of_windows_close_as_soon_as_any_mark_allows(a, b, band, window, on, keys, shards):
    joined = a.join(b, on=["k"], band=band)
    twin = joined.aggregate(window, keys, on=on, n=COUNT, v=TOTAL)
    assert_same(play(shards, out=twin), tell(out=twin))


@pytest.mark.parametrize("seed", range(6))
def test_pairs_of_windows_over_long_streams(seed):
    rng = random.Random(seed)
    a, b = long_stream(rng), long_stream(rng)
    joined = a.join(b, on=["k"], band=rng.choice(((-12, 2), (-3, 9), (0, 5))))
    size, on = rng.randrange(2, 8), (("t", "t_other"), ("t_other", "t"))[seed % 2]
    twin = joined.aggregate(Windows(size, size), ["k"], on=on, n=COUNT, v=TOTAL)
    assert_same(play(2, out=twin), tell(out=twin))


@examples(15)
@given(st.lists(sources(size=9), min_size=3, max_size=3), bands, tumbling, shards)
def test_pairs_of_windows_over_a_union_of_joins(streams, band, window, shards):
    a, b, c = streams
    joined = a.join(b, on=["k"], band=band).union(a.join(c, on=["k"], band=band))
    some = joined.where("v_other < 13", lambda r: r["v_other"] < 13)
    twin = some.aggregate(window, on=("t", "t_other"), n=COUNT)
    assert_same(play(shards, out=twin), tell(out=twin))


@examples(15)
@given(sources(), sources(), bands, tumbling, tumbling, shards)
def test_windows_over_pairs_of_windows(a, b, band, below, above, shards):
    pairs = a.join(b, on=["k"], band=band).aggregate(below, on=("t", "t_other"), n=COUNT)
    twin = pairs.aggregate(above, n=("sum", "n"), groups=COUNT)
    assert_same(play(shards, out=twin), tell(out=twin))


def rows_of(times):
    return [{"t": t, "k": 1, "v": t, "f": False} for t in times]


def ordered(*epochs):
    return source(SCHEMA, [rows_of(e) for e in epochs], lw.ordered(), Slack(0))


@examples(25)
@given(
    st.lists(st.integers(0, 40), max_size=20),
    st.lists(st.integers(0, 40), max_size=20),
    bands,
    st.integers(1, 9),
)
def test_in_time_rows_give_the_brute_force_count_of_pairs(mine, other, band, size):
    # In order, in three epochs each: nothing is late.
    cuts = [sorted(t for t in side) for side in (mine, other)]
    sides = [[s[: len(s) // 3], s[len(s) // 3 : -1], s[-1:]] for s in cuts]
    a, b = (ordered(*s) for s in sides)
    pairs = a.join(b, on=["k"], band=band)
    found = play(out=pairs.aggregate(Windows(size, size), on=("t", "t_other"), n=COUNT))
    expected = Counter(
        (t // size, u // size) for t in mine for u in other if band[0] <= u - t <= band[1]
    )
    given_out = [r for epoch in found.results["out"] for r in epoch]
    counts = {(r["wid"], r["window_2"]["start"] // size): r["n"] for r in given_out}
    assert len(counts) == len(given_out), "a pair of windows was closed twice"
    assert counts == expected
    assert found.counts["window"]["late"] == 0


def test_a_joint_mark_closes_what_neither_mark_alone_does():
    #  epoch            0       1    2    3     other − self from −9 to 9, windows of 10
    #  self and other   5, 15   20   21   60
    #  After epoch 1 both are at 20: a result may come with t = 11, one with t, u < 20 may not.
    a, b = ordered([5, 15], [20], [21], [60]), ordered([5, 16], [20], [21], [60])
    twin = a.join(b, on=["k"], band=(-9, 9)).aggregate(
        Windows(10, 10), on=("t", "t_other"), n=COUNT
    )
    found = play(out=twin)
    closed = [
        sorted((r["wid"], r["window_2"]["start"] // 10, r["n"]) for r in epoch)
        for epoch in found.results["out"]
    ]
    assert closed[:4] == [[], [(0, 0, 1)], [(1, 1, 1)], []]
    assert closed[4] == [(1, 2, 2), (2, 1, 2), (2, 2, 4), (6, 6, 1)]


@pytest.mark.parametrize("on", [("t", "t"), ("t", "t_other", "t"), ("t",)])
def test_two_different_times_are_needed(on):
    joined = ordered([1]).join(ordered([1]), on=["k"], band=(0, 1)).stream
    with pytest.raises(lw.SpecError, match="on one time, or on the two times of a join"):
        joined.window(range=10, on=on)


def test_two_times_must_be_of_two_streams():
    joined = ordered([1]).stream.join(ordered([1]).stream, band=(0, 1), time="max")
    copied = joined.with_columns(again="t")
    for stream, on in ((joined, ("t", "time_max")), (copied, ("t", "again"))):
        with pytest.raises(lw.SpecError, match="the two times of an inner join progress together"):
            stream.window(range=10, on=on)
    assert copied.window(range=10, on=("t_other", "again")).second.column == "again"


def test_a_session_lies_on_one_time():
    joined = ordered([1]).stream.join(ordered([1]).stream, band=(0, 1))
    with pytest.raises(lw.SpecError, match="sessions lie on one time"):
        joined.window(gap=10, on=("t", "t_other"))


def test_an_outer_join_has_one_time_that_progresses():
    joined = ordered([1]).stream.join(ordered([1]).stream, band=(0, 1), how="left")
    with pytest.raises(lw.SpecError, match="does not progress in this stream"):
        joined.window(range=10, on=("t", "t_other"))


def test_a_key_cannot_be_called_as_the_second_window():
    joined = ordered([1]).stream.join(ordered([1]).stream, band=(0, 1)).with_columns(window_2="k")
    with pytest.raises(lw.SpecError, match=r"group_by\('window_2'\)"):
        joined.window(range=10, on=("t", "t_other")).group_by("window_2")
    with pytest.raises(lw.SpecError, match=r"group_by\('window_2'\)"):
        joined.window(range=10, on=("t", "t_other"), partition_by="window_2")
