"""Windows that rows end, windows over row numbers, and sessions: finals equal the definitions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.local.host import LocalEpochs
from lowwater.testing import play
from tests.reference import row_windows as driven
from tests.reference.windows import Near, Slack, same
from tests.run_query import aggregates, finals
from tests.strategies import KEYS, NAMED, SCHEMA, cuts, disorder, examples, rows

keys = st.sampled_from([(), ("a",), ("b", "c"), KEYS])
spans = st.integers(1, 30)


def run(epochs, progress, named, by=(), shards=2, **window):
    feed = lw.feed(SCHEMA)
    windowed = lw.stream(feed, time="t", watermark=progress).window(**window)
    query = windowed.group_by(*by).agg(**named)
    return query.run(epochs={feed: list(epochs)}, host="local", shards=shards)


def assert_same(outcome, cells, by, named=NAMED):
    expected, found = driven.evaluated(cells, named), finals(outcome, by)
    assert found.keys() == expected.keys()
    for cell, row in found.items():
        wrong = {n: (e, row[n]) for n, e in expected[cell].items() if not same(e, row[n])}
        assert not wrong, f"{cell}: (expected, found) = {wrong}"
    assert outcome.status.balanced


def flat(came):
    return [r for epoch in came for r in epoch]


# -- windows that rows end -------------------------------------------------------------------------

ENDS = {
    "every row": ({"slide": lw.rows(1)}, driven.every_row),
    "every third by rank": (
        {"slide": lw.rows(3), "slide_on": lw.rank("t")},
        driven.every_rank(3),
    ),
    "every fourth that arrives": ({"slide": lw.rows(4)}, driven.every_arrival(4)),
    "multiples of a column": ({"slide": 7, "slide_on": "i"}, driven.multiples("i", 7)),
}


@pytest.mark.parametrize("kind", ENDS)
@examples(15)
@given(st.data(), rows(), spans, keys, st.integers(1, 3))
def test_windows_that_rows_end_when_slack_covers_the_disorder(kind, data, stream, size, by, shards):
    window, ends = ENDS[kind]
    epochs, span = data.draw(cuts(stream)), disorder(stream)
    outcome = run(epochs, lw.slack(span), aggregates(NAMED), by, shards, range=size, **window)
    came = flat(driven.arrivals(epochs, Slack(span)))
    assert_same(outcome, driven.slide_by_row(came, size, ends, by), by)
    assert outcome.status["late"] == outcome.status["partly_late"] == 0
    for row in outcome.results.to_pylist():
        assert row["window"] == {"start": row["wid"] - size, "end": row["wid"]}


@pytest.mark.parametrize("kind", ENDS)
@examples(15)
@given(st.data(), rows(), spans, st.integers(0, 15), keys)
def test_windows_that_rows_end_when_rows_are_late(kind, data, stream, size, span, by):
    window, ends = ENDS[kind]
    epochs = data.draw(cuts(stream))
    outcome = run(epochs, lw.slack(span), aggregates(NAMED), by, range=size, **window)
    came = flat(driven.arrivals(epochs, Slack(span)))
    assert_same(outcome, driven.slide_by_row(came, size, ends, by), by)
    late = [r for r in came if r.t + size <= r.closed]
    assert outcome.status["late"] == len(late)
    assert outcome.status["partly_late"] == sum(not r.in_time for r in came) - len(late)


@pytest.mark.parametrize("kind", ENDS)
@examples(10)
@given(st.data(), rows(), spans, st.integers(0, 15))
def test_each_partition_has_windows_of_its_own(kind, data, stream, size, span):
    window, ends = ENDS[kind]
    epochs, by = data.draw(cuts(stream)), ("a",)
    outcome = run(
        epochs, lw.slack(span), aggregates(NAMED), shards=3, range=size, partition_by="a", **window
    )
    came = flat(driven.arrivals(epochs, Slack(span), by))
    assert_same(outcome, driven.slide_by_row(came, size, ends, by, by), by)


def test_a_row_is_in_every_window_that_ends_within_range_after_it():
    # t   0    3    5         10   11
    #     |----------)  rows before w and after w − 5, w included
    feed = lw.feed("t bigint")
    query = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=5, slide=lw.rows(1))
    outcome = query.agg(n=lw.count()).run(epochs={feed: [[(0,), (3,), (5,)], [(10,), (11,)]]})
    assert {r["wid"]: r["n"] for r in outcome.results.to_pylist()} == {
        0: 1,
        3: 2,
        5: 2,
        10: 1,
        11: 2,
    }


def test_rows_of_other_groups_end_windows_too_unless_they_are_partitions():
    feed = lw.feed("t bigint, k string")
    rows_ = [(0, "x"), (2, "y"), (4, "y")]

    def ends(**window):
        stream = lw.stream(feed, time="t", watermark=lw.ordered())
        windowed = stream.window(range=4, slide=lw.rows(1), **window)
        query = (windowed if window else windowed.group_by("k")).agg(n=lw.count())
        outcome = query.run(epochs={feed: [rows_]}, host="local")
        return {(r["wid"], r["k"]): r["n"] for r in outcome.results.to_pylist()}

    assert ends() == {(0, "x"): 1, (2, "x"): 1, (2, "y"): 1, (4, "y"): 2}
    assert ends(partition_by="k") == {(0, "x"): 1, (2, "y"): 1, (4, "y"): 2}


# -- windows over row numbers ----------------------------------------------------------------------


@examples(20)
@given(st.data(), rows(), st.integers(1, 9), st.integers(1, 9), keys, st.integers(0, 15))
def test_windows_over_arriving_rows(data, stream, size, slide, by, span):
    epochs = data.draw(cuts(stream))
    window = {"range": lw.rows(size), "slide": lw.rows(slide)}
    outcome = run(epochs, lw.slack(span), aggregates(NAMED), by, **window)
    came = flat(driven.arrivals(epochs, Slack(span)))
    assert_same(outcome, driven.numbered(came, size, slide, by), by)
    assert outcome.status["late"] == 0
    assert outcome.status["outside"] == sum(n % slide >= size for n in range(len(stream)))


@examples(20)
@given(st.data(), rows(), st.integers(1, 9), st.integers(1, 9), st.integers(1, 3))
def test_each_partition_counts_its_own_rows(data, stream, size, slide, shards):
    epochs, by = data.draw(cuts(stream)), ("a", "b")
    window = {"range": lw.rows(size), "slide": lw.rows(slide), "partition_by": "a"}
    outcome = run(epochs, lw.slack(3), aggregates(NAMED), ("b",), shards, **window)
    came = flat(driven.arrivals(epochs, Slack(3)))
    assert_same(outcome, driven.numbered(came, size, slide, by, ("a",)), by)


@pytest.mark.parametrize("partition", [(), ("a",)])
@examples(15)
@given(st.data(), rows(), st.integers(1, 9), st.integers(1, 9), st.integers(0, 15))
def test_windows_over_ranked_rows(partition, data, stream, size, slide, span):
    epochs = data.draw(cuts(stream))
    by = (*partition, "b")
    outcome = run(
        epochs,
        lw.slack(span),
        aggregates(NAMED),
        ("b",),
        range=lw.rows(size),
        slide=lw.rows(slide),
        on=lw.rank("t"),
        partition_by=partition,
    )
    came = flat(driven.arrivals(epochs, Slack(span)))
    cells = driven.numbered(came, size, slide, by, partition, by_rank=True)
    assert_same(outcome, cells, by)
    assert outcome.status["late"] == len(outcome.late) == sum(not r.in_time for r in came)


def test_q2_takes_windows_then_groups_and_q4_groups_then_windows():
    # WID 3.2: 4 rows by 2. Q2 cuts the stream, then groups; Q4 parts it, then cuts each part.
    feed = lw.feed("ts bigint, seg string")
    arrived = [(i, s) for i, s in enumerate("aabaabbb")]
    stream = lw.stream(feed, time="ts", watermark=lw.ordered())
    size = {"range": lw.rows(4), "slide": lw.rows(2)}

    def counts(query):
        outcome = query.agg(n=lw.count()).run(epochs={feed: [arrived]}, host="local")
        return {(r["wid"], r["seg"]): r["n"] for r in outcome.results.to_pylist()}

    q2 = counts(stream.window(**size).group_by("seg"))
    q4 = counts(stream.window(**size, partition_by="seg"))
    assert q2 == {
        (-1, "a"): 2, (0, "a"): 3, (0, "b"): 1, (1, "a"): 2, (1, "b"): 2,
        (2, "a"): 1, (2, "b"): 3, (3, "b"): 2,
    }  # fmt: skip
    assert q4 == {
        (-1, "a"): 2, (0, "a"): 4, (1, "a"): 2,
        (-1, "b"): 2, (0, "b"): 4, (1, "b"): 2,
    }  # fmt: skip


def test_rows_after_the_end_of_a_stream_are_late_and_close_nothing_again():
    feed = lw.feed("ts bigint")
    stream = lw.stream(feed, time="ts", watermark=lw.ordered())
    query = stream.window(range=lw.rows(4)).agg(n=lw.count())
    epochs = LocalEpochs(query.assembly.with_shards(2), lw.VirtualClock())
    epochs.run([[feed.table([(1,), (2,)])]], last=[True])
    epochs.run([[]], last=[True])
    assert epochs.status()["results"] == 1
    epochs.run([[feed.table([(3,), (4,)])]], last=[False])
    assert (epochs.status()["results"], epochs.status()["late"]) == (1, 2)


def test_a_window_of_rows_is_given_as_soon_as_its_last_row_is_there():
    feed = lw.feed("ts bigint")
    stream = lw.stream(feed, time="ts", watermark=lw.slack(100))
    query = stream.window(range=lw.rows(2)).agg(n=lw.count())
    outputs = play(query, {feed: [[(5,)], [(3,)], [(9,), (1,), (4,)]]}, shards=2)
    assert [[row["wid"] for row in o.results] for o in outputs] == [[], [0], [1], [2]]


# -- sessions --------------------------------------------------------------------------------------


@examples(30)
@given(st.data(), rows(), st.integers(1, 20), st.integers(0, 15), keys, st.integers(1, 3))
def test_sessions_equal_the_definition(data, stream, gap, span, by, shards):
    epochs = data.draw(cuts(stream))
    outcome = run(epochs, lw.slack(span), aggregates(NAMED), by, shards, gap=gap)
    cells, late = driven.sessions(epochs, gap, Slack(span), by)
    assert_same(outcome, cells, by)
    assert outcome.status["late"] == len(late) == len(outcome.late)
    for row in outcome.results.to_pylist():
        assert row["window"]["start"] == row["wid"]
        mine = cells[row["wid"], *driven.group(row, by)]
        assert row["window"]["end"] == max(r.t for r in mine) + gap


def test_rows_a_whole_gap_apart_are_two_sessions():
    feed = lw.feed("t bigint")
    query = lw.stream(feed, time="t", watermark=lw.ordered()).window(gap=5).agg(n=lw.count())
    outcome = query.run(epochs={feed: [[(0,), (4,), (9,)]]}, host="local")
    assert [r["window"] for r in outcome.results.to_pylist()] == [
        {"start": 0, "end": 9},
        {"start": 9, "end": 14},
    ]


def test_a_row_bridges_two_sessions():
    # 0..3    and 10..12 are two sessions of gap 5, until 7 comes: 3→7 and 7→10 are less than 5
    feed = lw.feed("t bigint")
    query = lw.stream(feed, time="t", watermark=lw.slack(20)).window(gap=5).agg(n=lw.count())
    epochs = [[(0,), (3,)], [(10,), (12,)], [(7,)]]
    outcome = query.run(epochs={feed: epochs}, host="local")
    (row,) = outcome.results.to_pylist()
    assert (row["window"], row["n"]) == ({"start": 0, "end": 17}, 5)
    two = query.run(epochs={feed: epochs[:2]}, host="local").results.to_pylist()
    assert [(r["window"]["start"], r["n"]) for r in two] == [(0, 2), (10, 2)]


# -- silence ---------------------------------------------------------------------------------------


class Hands:
    """A clock that stands where it is set."""

    def __init__(self):
        self.at = 0

    def now(self, epoch):
        return self.at


@pytest.mark.parametrize(
    "window", [{"gap": "5 seconds"}, {"range": lw.rows(2), "on": lw.rank("ts")}], ids=repr
)
@pytest.mark.parametrize("step", [100_000, 2_000_000], ids=["often", "epochs as long as a beat"])
def test_in_a_lull_the_clock_closes_what_is_open_and_then_rests(window, step):
    # Two rows at 1 s, then silence. The clock moves the mark in steps of a quarter of the lull
    # while anything is open; then no epoch is worth running any more.
    feed = lw.feed("ts timestamp")
    progress = lw.slack("1 second", idle_timeout="4 seconds")
    query = lw.stream(feed, time="ts", watermark=progress).window(**window).agg(n=lw.count())
    hands = Hands()
    epochs = LocalEpochs(query.assembly.with_shards(1), hands)
    epochs.run([[feed.table([(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),)] * 2)]], last=[False])
    ran = 0
    for tenth in range(400):
        hands.at = tenth * step
        entry = epochs.log.before(epochs.epoch)
        if not entry.quiet or epochs.controller.due(entry, hands.at):
            epochs.run([[]], last=[False])
            ran += 1
    assert epochs.status()["results"] == 1
    assert epochs.status().cells == 0
    assert ran <= 20
    assert not epochs.controller.due(epochs.log.before(epochs.epoch), 10**15)


# -- several windows -------------------------------------------------------------------------------

sizes = st.tuples(st.integers(1, 24), st.integers(1, 24))


@examples(30)
@given(st.data(), rows(), st.lists(sizes, min_size=1, max_size=3), st.integers(0, 15), keys)
def test_several_windows_give_what_each_gives_alone(data, stream, found, span, by):
    epochs = data.draw(cuts(stream))
    named = {f"w{i}": size for i, size in enumerate(found)}
    feed = lw.feed(SCHEMA)
    windowed = lw.stream(feed, time="t", watermark=lw.slack(span)).window(lw.windows(**named))
    query = windowed.group_by(*by).agg(**aggregates(NAMED))
    together = query.run(epochs={feed: epochs}, host="local")
    assert together.status.balanced
    for name, (size, slide) in named.items():
        alone = run(epochs, lw.slack(span), aggregates(NAMED), by, range=size, slide=slide)
        mine = together.results.filter(pc.equal(together.results["window_name"], name))
        shared = finals(replace(together, results=mine.drop_columns(["window_name"])), by)
        single = finals(alone, by)
        covered = span >= disorder(stream)
        assert not covered or shared.keys() == single.keys()
        for cell in shared.keys() & single.keys() if covered else ():
            for column, value in single[cell].items():
                near = Near(value, 1e7) if isinstance(value, float) else value
                assert same(near, shared[cell][column]), (name, cell, column)


@examples(20)
@given(st.data(), rows(size=25), st.lists(sizes, min_size=2, max_size=3), st.integers(1, 60))
def test_windows_that_share_a_grid_give_what_each_gives_in_its_own(data, stream, found, cells):
    # A grid holds windows of several names as long as it is small; where it ends must not show.
    epochs, several = data.draw(cuts(stream)), {f"w{i}": size for i, size in enumerate(found)}
    named = {**aggregates(NAMED), "k": lw.count_distinct("x"), "mid": lw.median("i")}
    outcomes = []
    for small, large in ((1 << 16, 2_000_000), (cells, cells)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lowwater.operators.window.close._SMALL_GRID", small)
            patch.setattr("lowwater.operators.window.close.GRID_CELLS", large)
            window = {"several": lw.windows(**several)}
            outcome = run(epochs, lw.slack(3), named, ("a",), **window)
        outcomes.append(sorted(map(repr, outcome.results.to_pylist())))
    assert outcomes[0] == outcomes[1]


def test_rows_between_the_windows_of_every_name_are_outside():
    #      0    3         10   13        20     a: [0, 3), [10, 13)    b: [0, 2), [4, 6), [8, 10)…
    #      |--a-)         |--a-)
    feed = lw.feed("t bigint")
    stream = lw.stream(feed, time="t", watermark=lw.ordered())
    query = stream.window(lw.windows(a=(3, 10), b=(2, 4))).agg(n=lw.count())
    outcome = query.run(epochs={feed: [[(t,) for t in range(20)]]}, host="local")
    in_none = [t for t in range(20) if t % 10 >= 3 and t % 4 >= 2]
    assert outcome.status["outside"] == len(in_none) == 7
    assert outcome.status["admitted"] == 13


@pytest.mark.parametrize("named", [{"short": 5, "long": 40}, {"long": 40, "short": 5}], ids=repr)
def test_a_row_can_be_late_for_one_window_and_in_time_for_another(named):
    #        0         10        20    rows at 1, 2, 25, then 1 again when the mark is past 20:
    # short  |----)|----)|----)|----)  it is late for [0, 5) and in time for [0, 40)
    # long   |--------------------------------------)
    feed = lw.feed("t bigint")
    stream = lw.stream(feed, time="t", watermark=lw.slack(3))
    query = stream.window(lw.windows(**named)).agg(n=lw.count())
    outcome = query.run(epochs={feed: [[(1,), (2,), (25,)], [], [(1,)]]}, host="local")
    found = {(r["window_name"], r["wid"]): r["n"] for r in outcome.results.to_pylist()}
    assert found == {("short", 0): 2, ("short", 5): 1, ("long", 0): 4}
    assert (outcome.status["late"], outcome.status["partly_late"]) == (0, 1)
    (late,) = outcome.late.to_pylist()
    assert (late["window_name"], late["missed"]["end"], late["admitted"]) == ("short", 5, True)


@pytest.mark.parametrize(
    ("named", "window", "reason"),
    [
        ({"a": (1, 2, 3)}, {}, "give"),
        ({"a": 5}, {"range": 5}, "does not go with lw.windows"),
        ({"a": (lw.unbounded, 5)}, {}, "no panes to share"),
        ({"a": 5}, {"on": lw.arrival}, "over one column"),
        ({"a": 0}, {}, "greater than zero"),
    ],
)
def test_several_windows_that_make_no_sense_are_refused(named, window, reason):
    stream = lw.stream(lw.feed(SCHEMA), time="t", watermark=lw.ordered())
    with pytest.raises(lw.SpecError, match=reason):
        stream.window(lw.windows(**named), **window).agg(n=lw.count())


# -- aggregates of every kind ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "window",
    [
        {"range": 9, "slide": lw.rows(1)},
        {"range": lw.rows(4), "slide": lw.rows(2)},
        {"range": lw.rows(4), "on": lw.rank("t")},
        {"gap": 4},
        {"range": 9, "slide": 3},
        {"range": lw.unbounded, "slide": 7},
        {"several": lw.windows(a=9, b=(12, 3))},
    ],
    ids=repr,
)
@examples(10)
@given(st.data(), rows(size=25))
def test_an_aggregate_without_combine_works_in_every_window(window, data, stream):
    listed = lw.aggregate(
        "s", init=list, incr=lambda a, v: [*a, v], final="".join, returns="string"
    )
    sizes = lw.aggregate("s", init=list, incr=lambda a, v: [*a, v], final=len, returns="bigint")
    epochs = data.draw(cuts(stream))
    outcome = run(
        epochs,
        lw.slack(disorder(stream)),
        {"all": listed, "k": sizes, "n": lw.count("s")},
        **window,
    )
    for row in outcome.results.to_pylist():
        assert (row["k"] or 0) == row["n"]
        assert (row["all"] is None) == (row["n"] == 0)


def test_values_that_do_not_combine_come_in_the_order_of_time():
    # 9 comes first and joins, over 5, the session of 0 and 3; ties stand as they arrived
    feed = lw.feed("t bigint, s string")
    listed = lw.aggregate("s", init=str, incr=lambda a, v: a + v, final=str, returns="string")
    stream = lw.stream(feed, time="t", watermark=lw.slack(20))
    query = stream.window(gap=5).agg(all=listed, first=lw.first("s"), last=lw.last("s"))
    epochs = [[(9, "d")], [(0, "a"), (3, "b"), (9, "e")], [(5, "c")]]
    (row,) = query.run(epochs={feed: epochs}, host="local").results.to_pylist()
    assert (row["all"], row["first"], row["last"]) == ("abcde", "a", "e")


def test_a_state_goes_on_from_one_landmark_window_to_the_next():
    # "b" comes when [.., 10) has closed, "g" when [.., 30) has: they are in all later windows,
    # after what is in the state already. incr changes the list that it is given.
    feed = lw.feed("t bigint, s string")

    def incr(state, value):
        state.append(value)
        return state

    listed = lw.aggregate("s", init=list, incr=incr, final="".join, returns="string")
    stream = lw.stream(feed, time="t", watermark=lw.ordered())
    query = stream.window(range=lw.unbounded, slide=10).agg(all=listed)
    epochs = [[(1, "a"), (12, "c")], [(22, "d")], [(3, "b"), (31, "e")], [(33, "f")], [(5, "g")]]
    outcome = query.run(epochs={feed: epochs}, host="local")
    found = {r["wid"]: r["all"] for r in outcome.results.to_pylist()}
    assert found == {0: "a", 1: "abc", 2: "abcd", 3: "abcdgef"}


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        ({}, r"needs one"),
        ({"range": 5, "slide": lw.rows(5), "slide_on": lw.rank("i")}, r"must rank by 't'"),
        ({"range": 5, "slide_on": "i"}, r"needs slide="),
        ({"range": 5, "slide": 5, "slide_on": lw.arrival}, r"must be lw.rows\(n\)"),
        ({"range": lw.rows(5), "slide": 3}, r"must be lw.rows\(n\)"),
        ({"range": lw.rows(5), "on": "x"}, r"lw.rank\('x'\)"),
        ({"range": 5, "on": lw.arrival}, r"must be lw.rows\(n\)"),
        ({"range": lw.rows(5), "origin": 3}, r"origin="),
        ({"range": lw.unbounded, "slide": lw.rows(2)}, r"unbounded"),
        ({"gap": 5, "range": 5}, r"does not go with gap="),
        ({"gap": 0}, r"greater than zero"),
        ({"gap": 5, "on": lw.arrival}, r"row numbers have no gaps"),
        ({"range": 5, "partition_by": "nope"}, r"nope"),
        ({"range": 5, "slide": lw.rows(2), "slide_on": "nope"}, r"nope"),
    ],
)
def test_windows_that_make_no_sense_are_refused(window, reason):
    stream = lw.stream(lw.feed(SCHEMA), time="t", watermark=lw.ordered())
    with pytest.raises(lw.SpecError, match=reason):
        stream.window(**window).agg(n=lw.count())


@pytest.mark.parametrize("n", [0, -1, 2.5, True])
def test_a_number_of_rows_is_whole_and_positive(n):
    with pytest.raises(lw.SpecError, match="whole number"):
        lw.rows(n)


def test_groups_inside_a_partition_of_sliding_rows_are_refused():
    stream = lw.stream(lw.feed(SCHEMA), time="t", watermark=lw.ordered())
    windowed = stream.window(range=5, slide=lw.rows(1), partition_by="a")
    with pytest.raises(lw.SpecError, match="partition_by"):
        windowed.group_by("b")
