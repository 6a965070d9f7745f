"""Plans of several operators against the definitions: every epoch, every late row, every count."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from tests.reference.plans import assert_same, bag, play, shown, source, tell
from tests.reference.windows import Punctuated, RowSlack, Slack, Windows
from tests.strategies import cut, examples

SCHEMA = "t bigint, k int, v int, f boolean"
COUNT, TOTAL = ("count", None), ("sum", "v")
HOWS = ("inner", "left", "right", "full", "anti")


@st.composite
def epochs(draw, size=14, malformed=True):
    """Rows with disorder and ties, cut anywhere; some epochs are empty."""
    steps = st.tuples(
        st.sampled_from((0, 0, 1, 1, 2, 3, 7)),
        st.sampled_from((0, 0, 0, 1, 2, 4, 9)),
        st.sampled_from((1, 1, 2, None)),
        st.integers(0, 15),
    )
    now, rows = draw(st.integers(-8, 8)), []
    for step, back, key, value in draw(st.lists(steps, min_size=size // 2, max_size=size)):
        now += step
        at = None if malformed and value == 15 else now - back
        rows.append({"t": at, "k": key, "v": value, "f": value % 4 == 3})
    at = draw(st.lists(st.integers(0, len(rows)), min_size=1, max_size=5).map(sorted))
    return [list(piece) for piece in cut(rows, at)]


def policies(*, every=True):
    """A progress policy, and what the oracle calls it."""
    spans = st.sampled_from((0, 1, 3, 8))
    slack = spans.map(lambda s: (lw.slack(s), lambda: Slack(s), False))
    if not every:
        return slack
    consistent = spans.map(lambda s: (lw.slack(s, mode="consistent"), lambda: Slack(s), True))
    rows = st.integers(0, 6).map(lambda n: (lw.slack(rows=n), lambda: RowSlack(n), False))
    said = st.just((lw.punctuated("f"), lambda: Punctuated("f"), False))
    return slack | slack | consistent | rows | said


@st.composite
def sources(draw, *, every=True, size=14):
    """A stream of its own, ready to be part of a plan."""
    progress, rule, consistent = draw(policies(every=every))
    return source(SCHEMA, draw(epochs(size)), progress, rule(), consistent=consistent)


def windows(*, gaps=False):
    found = st.builds(Windows, st.integers(1, 9), st.integers(1, 9), st.integers(-3, 3))
    return found if gaps else found.filter(lambda w: w.slide <= w.range)


bands = st.tuples(st.integers(-5, 5), st.sampled_from((0, 1, 2, 4, 12))).map(
    lambda b: (b[0], b[0] + b[1])
)
keyed = st.sampled_from((("k",), ("k",), ()))
shards = st.sampled_from((1, 2, 3))


def check(shards, **twins):
    found = play(shards, **twins)
    assert_same(found, tell(**twins))
    return found


# -- one operator ----------------------------------------------------------------------------------


@examples(25)
@given(st.lists(sources(), min_size=2, max_size=3), windows(gaps=True), keyed, shards)
def test_a_union_is_as_far_as_its_slowest_stream(streams, window, keys, shards):
    first, *others = streams
    check(shards, out=first.union(*others).aggregate(window, keys, n=COUNT, v=TOTAL))


@examples(15)
@given(sources(), sources(), windows(), shards)
def test_filters_and_columns_before_and_after_a_union(a, b, window, shards):
    mine = a.where("v > 2", lambda r: r["v"] > 2)
    both = mine.union(b.with_columns(lambda r: {"v": r["v"] + 1}, v="v + 1"))
    after = both.select("t", "v").where("v < 14", lambda r: r["v"] < 14)
    check(shards, out=after.aggregate(window, n=COUNT, v=TOTAL))


@examples(20)
@given(
    sources(),
    sources(),
    st.sampled_from(((), ("k",), ("v",), ("k", "f"))),
    st.sampled_from((None, 0, 2, 6)),
    shards,
)
def test_distinct_of_a_union_lets_the_first_of_each_kind_through(a, b, columns, within, shards):
    check(shards, out=a.union(b).distinct(*columns, within=within))


@examples(20)
@given(sources(), sources(), shards)
def test_an_ordered_union_gives_rows_by_time_and_arrival(a, b, shards):
    twin = a.union(b).order()
    found = play(shards, out=twin)
    expected = tell(out=twin)
    assert_same(found, expected)
    assert shown(tuple(map(tuple, found.results["out"]))) == shown(
        tuple(map(tuple, expected.results["out"]))
    )
    rows = [r["t"] for epoch in found.results["out"] for r in epoch]
    assert rows == sorted(rows)


@pytest.mark.parametrize("how", HOWS)
@examples(14)
@given(sources(), sources(), bands, keyed, shards)
def test_joins_of_every_kind_in_a_plan(how, a, b, band, on, shards):
    check(shards, out=a.join(b, on=on, band=band, how=how))


# -- operators over operators ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "time"),
    [
        ("inner", "self"), ("inner", "other"), ("inner", "min"), ("inner", "max"), ("left", "self"),
        ("left", "max"), ("right", "other"), ("full", "max"), ("full", "min"), ("anti", "self"),
    ],
)  # fmt: skip
@examples(10)
@given(sources(), sources(), bands, windows(gaps=True), shards)
def test_windows_over_a_join_close_when_no_result_can_come(how, time, a, b, band, window, shards):
    joined = a.join(b, on=["k"], band=band, how=how, time=time)
    check(shards, out=joined.aggregate(window, ["k"], n=COUNT, v=TOTAL))


@examples(25)
@given(sources(), windows(gaps=True), windows(gaps=True), shards)
def test_windows_over_windows_see_each_result_in_time(a, below, above, shards):
    groups = a.aggregate(below, ["k", "f"], n=COUNT, v=TOTAL)
    found = check(shards, out=groups.aggregate(above, ["f"], v=("max", "v"), n=("sum", "n")))
    assert found.counts["window 2"]["late"] == found.counts["window 2"]["partly_late"] == 0
    assert found.counts["window 2"]["in"] == found.counts["window"]["results"]


@examples(15)
@given(sources(), windows(), windows(), shards)
def test_filters_and_columns_between_windows(a, below, above, shards):
    groups = a.aggregate(below, ["k"], n=COUNT, v=TOTAL)
    some = groups.where("n > 1", lambda r: r["n"] > 1)
    more = some.with_columns(lambda r: {"twice": 2 * r["n"]}, twice="2 * n")
    total = more.select("window", "twice").aggregate(above, twice=("sum", "twice"))
    check(shards, out=total.where("twice > 4", lambda r: r["twice"] > 4))


@examples(15)
@given(sources(), sources(), windows(gaps=True), windows(), shards)
def test_a_union_of_windows(a, b, below, above, shards):
    parts = [s.aggregate(below, ["k"], n=COUNT) for s in (a, b)]
    check(shards, out=parts[0].union(parts[1]).aggregate(above, ["k"], n=("sum", "n")))


@examples(15)
@given(sources(), sources(), windows(), windows(), shards)
def test_windows_joined_with_windows(a, b, mine, other, shards):
    left = a.aggregate(mine, ["k"], n=COUNT)
    right = b.aggregate(other, ["k"], v=TOTAL)
    check(shards, out=left.join(right, on=["k"], band=(-2, 3), how="left"))


@examples(20)
@given(st.lists(sources(size=9), min_size=4, max_size=4), bands, windows(), windows(), shards)
def test_joins_of_unions_by_key_and_over_all(streams, band, below, above, shards):
    a, b, c, d = streams
    joined = a.union(b).join(c.union(d), on=["k"], band=band, how="full")
    by_key = joined.aggregate(below, ["k"], n=COUNT, v=TOTAL)
    check(shards, out=by_key.aggregate(above, n=("sum", "n"), v=("sum", "v")))


@examples(12)
@given(sources(), sources(), bands, bands, windows(), shards)
def test_a_join_of_a_join(a, b, one, two, window, shards):
    pairs = a.join(b, on=["k"], band=one, how="left")
    again = pairs.join(b.select("t", "k"), on=["k"], band=two)
    check(shards, out=again.aggregate(window, n=COUNT))


@examples(15)
@given(sources(), sources(), st.integers(0, 4), bands, windows(), shards)
def test_distinct_and_order_inside_a_plan(a, b, within, band, window, shards):
    once = a.distinct("k", "v", within=within)
    joined = once.order().join(b, on=["k"], band=band, how="left")
    check(shards, out=joined.distinct().aggregate(window, n=COUNT))


@examples(15)
@given(sources(), sources(), bands, windows(), shards)
def test_a_stream_that_meets_itself(a, b, band, window, shards):
    mine = a.where("v < 9", lambda r: r["v"] < 9)
    joined = mine.join(a.union(b), on=["k"], band=band)
    check(shards, out=joined.aggregate(window, n=COUNT))


def long_stream(rng, rows=50, cuts=8):
    """A stream in which rows often come after their partners' marks."""
    now, out = 0, []
    for value in range(rows):
        now += rng.choice((0, 1, 1, 2, 3))
        at = now - rng.choice((0, 0, 1, 4, 10))
        out.append({"t": at, "k": rng.choice((1, 2, 3)), "v": value % 16, "f": value % 7 == 3})
    epochs = [list(piece) for piece in cut(out, sorted(rng.choices(range(rows), k=cuts)))]
    slack = rng.choice((0, 0, 1))
    return source(SCHEMA, epochs, lw.slack(slack), Slack(slack))


OVER_JOINS = {
    "window": lambda joined: joined.aggregate(Windows(6, 4), ["k"], n=COUNT, v=TOTAL),
    "distinct": lambda joined: joined.distinct(),
    "order": lambda joined: joined.order(),
    "join 2": lambda joined: joined.join(
        joined.select(joined.time, "k", "v_other"), on=["k", "v_other"], band=(0, 0)
    ),
}


@pytest.mark.parametrize("upper", OVER_JOINS)
def test_results_of_rows_behind_their_mark_are_late_for_the_next_operator(upper):
    late = 0
    for seed in range(6):
        rng = random.Random(seed)
        a, b = long_stream(rng), long_stream(rng)
        band = (-2, 12) if seed % 2 else (-12, 2)
        joined = a.join(b, on=["k"], band=band, how=HOWS[seed % 3])
        found = check(2, out=OVER_JOINS[upper](joined))
        late += found.counts[upper]["late"]
    assert late > 0


# -- fan-out ---------------------------------------------------------------------------------------


def several(a, b, band, window):
    """Queries that have a join, and windows over it, in common."""
    joined = a.join(b, on=["k"], band=band, how="left")
    groups = joined.aggregate(window, ["k"], n=COUNT)
    return {
        "rows": a.where("v > 5", lambda r: r["v"] > 5),
        "pairs": joined.where("v_other > 3", lambda r: (r["v_other"] or 0) > 3),
        "groups": groups,
        "most": groups.aggregate(Windows(12, 12), n=("max", "n")),
        "alone": b.aggregate(window, n=COUNT),
    }


@examples(12)
@given(sources(), sources(), bands, windows(), shards)
def test_queries_together_are_what_each_is_alone(a, b, band, window, shards):
    asked = several(a, b, band, window)
    found = check(shards, **asked)
    for name, twin in asked.items():
        alone = play(shards, out=twin)
        epochs = found.results[name]
        # Alone, a query may end some epochs before the others let it.
        assert [bag(e) for e in alone.results["out"]] == [bag(e) for e in epochs][: len(alone.late)]
        assert not any(epochs[len(alone.late) :])


def test_what_queries_have_in_common_is_computed_once():
    rows = [[{"t": t, "k": 1, "v": t, "f": False} for t in range(10)]]
    a, b = (source(SCHEMA, rows, lw.slack(1), Slack(1)) for _ in range(2))
    asked = several(a, b, (0, 1), Windows(4, 4))
    names = list(play(**asked).counts)
    assert names == ["rows", "join", "window", "window 2", "window 3"]


def test_results_of_a_query_alone_and_together_are_the_same_rows():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.slack(2))
    counts = stream.window(range=5).group_by("k").agg(n=lw.count())
    late = stream.distinct("k", within=3)
    epochs = {feed: [[(t + d, t % 2, t, False) for t in range(20)] for d in (0, 30, 10, 60)]}
    both = lw.together(counts=counts, late=late).run(epochs=epochs)
    for name, query in {"counts": counts, "late": late}.items():
        alone = query.run(epochs=epochs)
        assert both[name].results.equals(alone.results)
        assert both[name].late.equals(alone.late)
        assert len(alone.late)
        assert both[name].status.counts == alone.status.counts
