"""Progress through plans: silent streams, filters that must not hide it, marks of sources."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.sinks.sink import Memory
from tests.dataflow.test_plans import COUNT, shards
from tests.reference.operators import START, Lull
from tests.reference.plans import assert_same, play, source, tell
from tests.reference.windows import PerSource, Slack, Windows
from tests.strategies import cut, examples

PLAIN = "t bigint, k int, v int, f boolean"
TIMED = "t timestamp, k int, v int, f boolean"
SECOND = 1_000_000


def at(seconds):
    return START + timedelta(seconds=seconds)


def rows_at(*seconds, k=1):
    return [{"t": at(s), "k": k, "v": s, "f": False} for s in seconds]


def seconds(*pairs):
    """Windows and spans of seconds, in ticks."""
    return [n * SECOND for n in pairs]


@st.composite
def timed(draw, lull):
    """A stream with long silences; with a lull, the clock goes on in them."""
    steps = st.tuples(st.integers(0, 6), st.sampled_from((0, 0, 1, 5)), st.sampled_from((1, 2)))
    now, rows = draw(st.integers(-5, 5)), []
    for step, back, key in draw(st.lists(steps, max_size=8)):
        now += step
        rows += rows_at(now - back, k=key)
    pieces = draw(st.lists(st.integers(0, len(rows)), min_size=1, max_size=4).map(sorted))
    epochs = [list(piece) for piece in cut(rows, pieces)]
    silent = draw(st.integers(0, 6))
    where = draw(st.integers(0, len(epochs)))
    epochs[where:where] = [[] for _ in range(silent)]
    span = draw(st.sampled_from((0, 2)))
    progress = lw.slack(f"{span} seconds", idle_timeout=f"{lull} seconds" if lull else None)
    rule = Slack(span * SECOND)
    return source(TIMED, epochs, progress, Lull(rule, lull * SECOND) if lull else rule)


CLOCK = lw.VirtualClock(per_epoch="3 seconds")


def now(epoch):
    return 3 * SECOND * epoch


def check(shards, **twins):
    found = play(shards, CLOCK, **twins)
    expected = tell(now, **twins)
    assert_same(found, expected)
    return found


@examples(25)
@given(timed(4), timed(7), timed(None), st.integers(1, 9), st.integers(1, 9), shards)
def test_a_silent_stream_of_a_union_goes_on_by_its_own_lull(a, b, c, size, slide, shards):
    window = Windows(*seconds(max(size, slide), slide), 0)
    check(shards, out=a.union(b, c).aggregate(window, ["k"], n=COUNT))


def test_a_stream_that_never_speaks_lets_windows_close_by_its_lull_or_at_its_end():
    #  epoch   0   1    2    3 …                    without a row, a lull has nothing to start from
    #  a       1   12   25   (silence)
    #  b       -   -    -    -   …   7 epochs
    a_rows = [rows_at(1), rows_at(12), rows_at(25)]
    results = {}
    for name, progress in {
        "idle_timeout": lw.slack("0 seconds", idle_timeout="4 seconds"),
        "none": lw.slack("0 seconds"),
        "spoke": lw.slack("0 seconds", idle_timeout="4 seconds"),
    }.items():
        first = rows_at(0) if name == "spoke" else []
        a = source(TIMED, a_rows, lw.slack("0 seconds"), Slack(0))
        b = source(TIMED, [first, *[[] for _ in range(9)]], progress, Slack(0))
        twin = a.union(b).aggregate(Windows(*seconds(10, 10), 0), n=COUNT)
        results[name] = [len(e) for e in play(1, CLOCK, out=twin).results["out"]]
    assert results["none"] == results["idle_timeout"] == [0] * 10 + [3]
    #  b spoke at second 0 of epoch 0. The clock is at 3·n: after epoch n it stands for 3·n − 4.
    #  It passes 10 after epoch 5 (11), 20 after epoch 8 (20).
    assert results["spoke"] == [0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1]


def test_a_join_with_a_side_that_never_speaks_ends_with_it():
    a = source(TIMED, [rows_at(1, 2), rows_at(30)], lw.slack("0 seconds"), Slack(0))
    b = source(TIMED, [[], [], [], []], lw.slack("0 seconds"), Slack(0))
    joined = a.join(b, on=["k"], band=tuple(seconds(-2, 2)), how="left")
    found = check(2, out=joined)
    assert [len(e) for e in found.results["out"]] == [0, 0, 0, 0, 3]
    windows = joined.aggregate(Windows(*seconds(10, 10), 0), n=COUNT)
    assert [len(e) for e in play(2, CLOCK, out=windows).results["out"]] == [0, 0, 0, 0, 2]


def test_the_side_of_a_join_that_falls_silent_lets_rows_go_by_its_lull():
    #  epoch   0     1   2   3   4   5   6        b: silent since second 0; 3·n − 4 after epoch n
    #  a       1, 2  -   -   -   -   -   -
    a = source(TIMED, [rows_at(1, 2), [], [], [], [], [], []], lw.slack("0 seconds"), Slack(0))
    progress = lw.slack("0 seconds", idle_timeout="4 seconds")
    b = source(TIMED, [rows_at(0, k=9), *[[] for _ in range(6)]], progress, Slack(0))
    joined = a.join(b, on=["k"], band=tuple(seconds(-2, 2)), how="left")
    found = play(2, CLOCK, out=joined)
    given_out = {r["v"]: n for n, e in enumerate(found.results["out"]) for r in e}
    # Row t waits for mark > t + 2: 5 after epoch 3 for t = 1 and 2.
    assert given_out == {1: 4, 2: 4}


# -- filters ---------------------------------------------------------------------------------------

EPOCHS = [
    [(1, 5), (3, 6)],
    [(12, -1)],
    [(40, -1)],
    [(41, -1)],
]
"""Only rows from 5 on pass the filters: what follows the first epoch merely shows time."""


def query(stream):
    return stream.where("v >= 5").window(range=10).agg(n=lw.count())


class Epochs(Memory):
    """Remembers which epoch gave results."""

    def __init__(self):
        super().__init__()
        self.when = []

    def write(self, epoch, rows):
        self.when.append(epoch)
        super().write(epoch, rows)


def test_a_filter_does_not_hide_that_time_has_passed():
    feed = lw.feed("t bigint, v int")
    sink = Epochs()
    outcome = query(lw.stream(feed, time="t", watermark=lw.slack(0))).run(
        epochs={feed: EPOCHS}, sink=sink
    )
    assert sink.when == [2]  # after epoch 1, which had only rows that the filter drops
    assert outcome.results["n"].to_pylist() == [2]
    assert outcome.status["in"] == 2


@pytest.mark.parametrize("step", ["with_columns", "select", "union", "distinct", "join"])
def test_a_filter_after_other_steps_does_not_hide_it_either(step):
    feed, other = lw.feed("t bigint, v int"), lw.feed("t bigint, v int")
    stream, more = (lw.stream(f, time="t", watermark=lw.slack(0)) for f in (feed, other))
    changed = {
        "with_columns": lambda: stream.with_columns(v="v + 0"),
        "select": lambda: stream.select("v", "t"),
        "union": lambda: stream.union(more),
        "distinct": lambda: stream.distinct("v"),
        "join": lambda: stream.join(more, band=(0, 1), how="left"),
    }[step]()
    sink = Epochs()
    given = {f: EPOCHS for f in (feed, other) if f is feed or step in ("union", "join")}
    query(changed).run(epochs=given, sink=sink)
    assert sink.when == [2]


def test_a_filter_over_files_does_not_hide_that_time_has_passed(tmp_path):
    for i, rows in enumerate(EPOCHS):
        table = pa.table({"t": [r[0] for r in rows], "v": [r[1] for r in rows]})
        pq.write_table(table, tmp_path / f"{i}.parquet")
    sink = Epochs()
    stream = lw.stream(lw.files(tmp_path, files_per_epoch=1), time="t", watermark=lw.slack(0))
    query(stream).run(host="local", sink=sink)
    assert sink.when == [2]


@pytest.mark.parametrize("between", [False, True])
def test_punctuation_that_a_filter_would_drop_is_heard(between):
    feed = lw.feed("t bigint, v int, end boolean")
    stream = lw.stream(feed, time="t", watermark=lw.punctuated("end"))
    if between:
        stream = stream.with_columns(w="v * 2")
    sink = Epochs()
    epochs = [[(1, 5, False)], [(10, None, True)], [(11, 7, False)]]
    outcome = (
        stream.where("v >= 5")
        .window(range=10)
        .agg(n=lw.count())
        .run(epochs={feed: epochs}, sink=sink)
    )
    assert sink.when == [1, 3]
    assert outcome.status["punctuations"] == 1
    assert outcome.status["in"] == 2


# -- windows of other kinds ------------------------------------------------------------------------

DRIVEN = {
    "ending at every row": {"range": 6, "slide": lw.rows(1)},
    "ending by rank": {"range": 6, "slide": lw.rows(2), "slide_on": lw.rank("t")},
    "sessions": {"gap": 3},
    "several": {"several": lw.windows(short=3, long=(8, 4))},
}
_ROWS = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from((0, 0, 2, 6)), st.sampled_from((1, 2))),
    min_size=4,
    max_size=24,
)


def driven_epochs(drawn, pieces):
    now, rows = 0, []
    for step, back, key in drawn:
        now += step
        rows.append({"t": now - back, "k": key, "v": 1, "f": False})
    return [list(p) for p in cut(rows, sorted(p % (len(rows) + 1) for p in pieces))]


@pytest.mark.parametrize("kind", DRIVEN)
@pytest.mark.parametrize("over", ["union", "join"])
@examples(8)
@given(_ROWS, _ROWS, st.lists(st.integers(0, 24), min_size=2, max_size=4), shards)
def test_windows_over_windows_of_any_kind_see_each_result_in_time(
    kind, over, mine, other, pieces, shards
):
    feeds = [lw.feed(PLAIN) for _ in range(2)]
    a, b = (lw.stream(f, time="t", watermark=lw.slack(2)) for f in feeds)
    epochs = dict(zip(feeds, (driven_epochs(d, pieces) for d in (mine, other)), strict=True))
    both = a.union(b) if over == "union" else a.join(b, on="k", band=(-3, 3), how="left")
    below = both.window(**DRIVEN[kind]).group_by("k").agg(n=lw.count())
    above = below.window(range=7).agg(n=lw.sum("n"), groups=lw.count())
    found = lw.together(below=below, above=above).run(epochs=epochs, shards=shards)
    counts = found["above"].status.operators["window 2"]
    assert counts.get("late", 0) == counts.get("partly_late", 0) == 0
    expected = {}
    for row in found["below"].results.to_pylist():
        end = row["window"]["end"]
        w = (end if kind.startswith("ending") else end - 1) // 7
        total, groups = expected.get(w, (0, 0))
        expected[w] = (total + row["n"], groups + 1)
    results = found["above"].results.to_pylist()
    assert {r["wid"]: (r["n"], r["groups"]) for r in results} == expected


@examples(15)
@given(_ROWS, _ROWS, st.lists(st.integers(0, 24), min_size=2, max_size=4))
def test_landmark_windows_over_a_union_stop_at_the_last_row_of_all(mine, other, pieces):
    feeds = [lw.feed(PLAIN) for _ in range(2)]
    a, b = (lw.stream(f, time="t", watermark=lw.slack(99)) for f in feeds)
    epochs = dict(zip(feeds, (driven_epochs(d, pieces) for d in (mine, other)), strict=True))
    query = a.union(b).window(range=lw.unbounded, slide=5).agg(n=lw.count())
    results = query.run(epochs=epochs).results.to_pylist()
    times = [r["t"] for given_ in epochs.values() for rows in given_ for r in rows]
    ends = range(5 * (min(times) // 5 + 1), max(times) + 6, 5)
    expected = {e: sum(t < e for t in times) for e in ends}
    assert {r["window"]["end"]: r["n"] for r in results} == expected


# -- marks of sources ------------------------------------------------------------------------------


@examples(15)
@given(st.data(), shards)
def test_a_source_closes_its_groups_and_all_sources_the_rest(data, shards):
    #  by k: each k's own mark closes its groups; over all: their minimum
    steps = st.tuples(st.integers(0, 4), st.sampled_from((0, 0, 2, 6)), st.sampled_from((1, 2)))
    now_, rows = 0, []
    for step, back, key in data.draw(st.lists(steps, min_size=4, max_size=14)):
        now_ += step
        rows.append({"t": now_ - back, "k": key, "v": step, "f": False})
    pieces = data.draw(st.lists(st.integers(0, len(rows)), max_size=4).map(sorted))
    epochs = [list(p) for p in cut(rows, pieces)]
    feed = lw.feed("t bigint, k int, v int, f boolean")
    stream = lw.stream(feed, time="t", watermark=lw.per_source("k", lw.slack(1)))
    below = stream.window(range=4).group_by("k").agg(n=lw.count())
    above = below.window(range=8).agg(n=lw.sum("n"), groups=lw.count())
    outcome = above.run(epochs={feed: epochs}, shards=shards)
    from tests.reference.windows import simulate

    story = simulate(epochs, Windows(4, 4), PerSource("k", 1, own=True))
    finals = story.finals(("k",), {"n": COUNT})
    expected = {}
    for (w, _), row in finals.items():
        total, groups = expected.get(w // 2, (0, 0))
        expected[w // 2] = (total + row["n"], groups + 1)
    found = {r["wid"]: (r["n"], r["groups"]) for r in outcome.results.to_pylist()}
    assert found == expected
    assert outcome.status.operators["window 2"].get("late", 0) == 0
