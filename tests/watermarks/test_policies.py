"""How a stream's mark is learned, and when windows close by it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.local.host import LocalEpochs
from lowwater.testing import play
from tests.reference.windows import PerSource, Punctuated, Windows, simulate
from tests.run_query import assert_accounts, assert_finals, finals, query, run
from tests.strategies import SCHEMA, any_windows, cuts, examples, rows, sliding

COUNT = {"n": lw.count()}
NAMED = {"n": ("count", None)}
EVERY_SECOND = lw.VirtualClock(per_epoch="1 second")


def entries(schema, epochs, windows, progress, *, keys=(), clock=EVERY_SECOND):
    """Return the log entry of every epoch."""
    feed = lw.feed(schema)
    asked = query(feed, windows, progress, COUNT, keys)
    local = LocalEpochs(asked.assembly.with_shards(2), clock)
    for epoch in epochs:
        local.run([[feed.table(epoch)]], last=[False])
    return [local.log.read(n) for n in range(local.epoch)]


def marks(epochs, progress, windows=Windows(1, 1), schema="t bigint", **more):  # noqa: B008
    """Return the mark after each epoch; windows of one tick show it as it is."""
    given_rows = [[r if isinstance(r, tuple) else (r,) for r in e] for e in epochs]
    found = entries(schema, given_rows, windows, progress, **more)
    return [e.standing.ports[0].low for e in found]


def closings(epochs, progress, *, size=10, schema="t bigint", keys=(), clock=EVERY_SECOND):
    """Return {epoch: windows it closed}, by start."""
    feed = lw.feed(schema)
    asked = query(feed, Windows(size, size), progress, COUNT, keys)
    given_rows = [[r if isinstance(r, tuple) else (r,) for r in e] for e in epochs]
    return {
        output.epoch: sorted((r["window"]["start"], *(r[k] for k in keys)) for r in output.results)
        for output in play(asked, {feed: given_rows}, clock=clock, shards=2)
        if output.results
    }


# -- slack -----------------------------------------------------------------------------------------


def test_ordered_believes_the_newest_row():
    assert marks([[3], [8, 5], [], [8], [20]], lw.ordered()) == [3, 8, 8, 8, 20]


def test_slack_lags_the_newest_row_by_its_span():
    assert marks([[3], [8, 5], [], [8], [20]], lw.slack(4)) == [-1, 4, 4, 4, 16]


def test_slack_in_time_is_a_duration():
    schema, start = "t timestamp", datetime(2024, 1, 1, tzinfo=UTC)
    feed = lw.feed(schema)
    asked = (
        lw.stream(feed, time="t", watermark=lw.slack("90 seconds"))
        .window(range="1 minute")
        .agg(**COUNT)
    )
    sink = lw.to_memory()
    epochs = [[(start + timedelta(minutes=m),)] for m in (0, 1, 2, 3, 4)]
    asked.run(epochs={feed: epochs}, sink=sink)
    # 00:02 - 90 s is before the end of [00:00, 00:01), 00:03 - 90 s is past it: closed in epoch 4
    assert min(sink.epochs) == 4


def test_slack_in_rows_believes_what_lies_more_than_that_many_rows_back():
    #  rows        10 20 | 15 30 | 25 | 40 41 42        slack of 2 rows
    #  all but the last two:   –  | 20 | 20.. 15 30
    found = marks([[10, 20], [15, 30], [25], [40, 41, 42]], lw.slack(rows=2))
    assert found == [None, 20, 20, 40]


def test_slack_of_no_rows_is_order():
    assert marks([[3], [8, 5], [6]], lw.slack(rows=0)) == [3, 8, 8]


def test_malformed_rows_do_not_count_as_slack():
    assert marks([[10, None, None, None], [20]], lw.slack(rows=1)) == [None, 10]


@examples(60)
@given(st.data(), rows(malformed=True), st.integers(0, 12))
def test_slack_in_rows_equals_its_definition(data, stream, n):
    epochs = data.draw(cuts([r["t"] for r in stream]))
    found, sound, expected = marks(epochs, lw.slack(rows=n)), [], []
    for epoch in epochs:
        sound += [t for t in epoch if t is not None]
        expected.append(max(sound[: max(0, len(sound) - n)], default=None))
    assert found == expected


# -- when windows close ----------------------------------------------------------------------------


def test_a_window_closes_one_epoch_after_the_rows_that_complete_it():
    #  epoch   0    1    2     3     4
    #  rows    3    9    10    12    25
    #  mark         9    10 ─┐ 12    25
    #  closes                └─[0, 10)      and the end closes [10, 20) and [20, 30)
    found = closings([[3], [9], [10], [12], [25]], lw.ordered())
    assert found == {3: [(0,)], 5: [(10,), (20,)]}


def test_a_mark_at_the_end_of_a_window_completes_it_and_one_before_does_not():
    assert 1 not in closings([[5, 9], [], []], lw.ordered())
    assert closings([[5, 10], [], []], lw.ordered())[1] == [(0,)]


def test_the_end_of_the_stream_closes_every_window_that_holds_a_row():
    found = closings([[3, 1000, 25]], lw.slack(10**6))
    assert found == {1: [(0,), (20,), (1000,)]}


def test_landmark_windows_stop_at_the_window_of_the_last_row():
    #  rows 3, 31     windows end at 10, 20, 30, 40; (…, 50) would hold both, and so on for ever
    outcome = run("t bigint", [[(3,)], [(31,)]], Windows(None, 10), lw.ordered(), COUNT)
    assert {w: r["n"] for (w,), r in finals(outcome).items()} == {0: 1, 1: 1, 2: 1, 3: 2}


def test_landmark_windows_of_a_group_begin_with_its_first_row_and_reach_to_the_last_of_all():
    stream = [(3, "a"), (15, "b"), (25, "a")]
    outcome = run("t bigint, g string", [stream], Windows(None, 10), lw.ordered(), COUNT, ("g",))
    found = {cell: r["n"] for cell, r in finals(outcome, ("g",)).items()}
    assert found == {(0, "a"): 1, (1, "a"): 1, (2, "a"): 2, (1, "b"): 1, (2, "b"): 1}


def test_an_empty_stream_ends_without_results():
    outcome = run("t bigint", [], Windows(10, 10), lw.ordered(), COUNT)
    assert len(outcome.results) == len(outcome.late) == len(outcome.malformed) == 0
    assert outcome.status.ended
    assert outcome.status["in"] == 0


@examples(60)
@given(st.data(), any_windows(), rows(), st.integers(0, 9))
def test_marks_never_fall_and_are_sent_only_at_ends_of_windows(data, windows, stream, span):
    epochs = data.draw(cuts(stream))
    found = entries(SCHEMA, epochs, windows, lw.slack(span))
    lows = [e.standing.ports[0].low for e in found if e.standing.ports[0].low is not None]
    assert lows == sorted(lows)
    base = windows.origin or 0
    step = windows.slide
    size = windows.range or 0
    assert all((m - base - size) % step == 0 for m in lows)
    sent = [e.control[0].marks.low for e in found if not e.quiet]
    assert sent == sorted(set(lows))


def test_rows_inside_one_slide_send_no_punctuation():
    found = entries("t bigint", [[(t,)] for t in range(100, 110)], Windows(100, 10), lw.ordered())
    assert [e.quiet for e in found] == [False, *[True] * 9]


# -- punctuated ------------------------------------------------------------------------------------

MARKED = "t bigint, last boolean"


def test_a_punctuation_closes_windows_in_its_own_epoch():
    #  epoch   0              1                      2
    #  rows    3, 12          5, "10 is reached", 7    4
    #  closes                 [0, 10) with 3 5 7       4 is late
    epochs = [[(3, False), (12, False)], [(5, False), (10, True), (7, None)], [(4, False)]]
    sink = lw.to_memory()
    outcome = run(MARKED, epochs, Windows(10, 10), lw.punctuated("last"), COUNT, sink=sink)
    (closed,) = sink.epochs[1].to_pylist()
    assert (closed["wid"], closed["n"]) == (0, 3)
    assert [r["t"] for r in outcome.late.to_pylist()] == [4]


def test_rows_alone_close_nothing_without_a_punctuation():
    epochs = [[(t, False)] for t in (1, 100, 1000)]
    found = closings(epochs, lw.punctuated("last"), schema=MARKED)
    assert set(found) == {3}


def test_a_punctuation_is_not_a_row():
    outcome = run(MARKED, [[(3, False), (10, True)]], Windows(10, 10), lw.punctuated("last"), COUNT)
    assert outcome.status["in"] == 1
    assert outcome.status["punctuations"] == 1
    assert {w: r["n"] for (w,), r in finals(outcome).items()} == {0: 1}


def test_a_contradicted_punctuation_is_counted_and_its_rows_are_late():
    epochs = [[(3, False), (20, True)], [(4, False), (15, False), (25, False)]]
    outcome = run(MARKED, epochs, Windows(10, 10), lw.punctuated("last"), COUNT)
    assert outcome.status["contradicted"] == 2
    assert sorted(r["t"] for r in outcome.late.to_pylist()) == [4, 15]
    assert outcome.status["late"] == 2


def test_a_punctuation_that_says_less_than_before_changes_nothing():
    epochs = [[(3, False), (20, True)], [(10, True)], [(15, False)]]
    outcome = run(MARKED, epochs, Windows(10, 10), lw.punctuated("last"), COUNT)
    assert outcome.status["late"] == 1


GROUPED = "t bigint, g string, last boolean"


def test_a_punctuation_by_group_closes_only_the_windows_of_its_group():
    #  epoch   0                   1
    #  rows    3 a, 4 b, 5 b, ─────"a has reached 10"
    #  closes                       a's [0, 10), not b's
    epochs = [[(3, "a", False), (4, "b", False)], [(10, "a", True)], [(6, "b", False)]]
    found = closings(epochs, lw.punctuated("last", by="g"), schema=GROUPED, keys=("g",))
    assert found == {1: [(0, "a")], 3: [(0, "b")]}


def test_a_punctuation_by_group_makes_only_its_group_late():
    epochs = [[(10, "a", True)], [(6, "a", False), (6, "b", False), (6, None, False)]]
    outcome = run(GROUPED, epochs, Windows(10, 10), lw.punctuated("last", by="g"), COUNT, ("g",))
    assert [r["g"] for r in outcome.late.to_pylist()] == ["a"]
    assert outcome.status["contradicted"] == 1


def test_punctuations_by_group_close_all_windows_at_their_minimum_where_groups_are_not_asked_for():
    #  epoch   0           1           2           3
    #  rows    3 a, 4 b    a at 30     b at 20     –
    #  mark                none yet    20          closes [0, 10)
    epochs = [[(3, "a", False), (4, "b", False)], [(30, "a", True)], [(20, "b", True)], [], []]
    found = closings(epochs, lw.punctuated("last", by="g"), schema=GROUPED)
    assert found == {3: [(0,)]}


def test_punctuations_by_group_know_null_as_a_group():
    epochs = [[(3, None, False), (4, "b", False)], [(10, None, True)], []]
    found = closings(epochs, lw.punctuated("last", by="g"), schema=GROUPED, keys=("g",))
    assert found[1] == [(0, None)]


@examples(80)
@given(st.data(), any_windows(), rows(malformed=True), st.sampled_from(["all", "own", "other"]))
def test_random_punctuations_equal_the_oracle(data, windows, stream, whose):
    # `f` is true in a third of the rows: these are punctuations, most of them contradicted.
    epochs = data.draw(cuts(stream))
    by, own = (None, False) if whose == "all" else ("b", whose == "own")
    keys = ("b", "a") if own else ("a",)
    outcome = run(SCHEMA, epochs, windows, lw.punctuated("f", by=by), COUNT, keys)
    story = simulate(epochs, windows, Punctuated("f", by, own))
    assert_accounts(outcome, story)
    assert_finals(outcome, story, windows, keys, NAMED)
    assert outcome.status["contradicted"] == len(story.late)


# -- per source ------------------------------------------------------------------------------------

SOURCED = "t bigint, s string"


def test_the_stream_is_as_far_as_its_slowest_source():
    epochs = [[(100, "a"), (20, "b")], [(110, "a")], [(50, "b")], [(30, "b")]]
    found = marks(epochs, lw.per_source("s", lw.slack(5)), schema=SOURCED)
    assert found == [15, 15, 45, 45]


def test_a_source_closes_its_own_groups_where_the_group_by_contains_it():
    #  epoch   0               1
    #  a       5, 100          a's mark is 100: closes a's [0, 10) in epoch 1
    #  b       5, 20           b's mark is 20: closes b's [0, 10)
    #  c       5               c's mark is 5
    epochs = [[(5, "a"), (100, "a"), (5, "b"), (20, "b"), (5, "c")], [], []]
    progress = lw.per_source("s", lw.ordered())
    found = closings(epochs, progress, schema=SOURCED, keys=("s",))
    assert found[1] == [(0, "a"), (0, "b")]


def test_without_the_source_in_the_group_by_the_minimum_closes_all():
    epochs = [[(5, "a"), (100, "a"), (5, "b"), (20, "b")], [], []]
    found = closings(epochs, lw.per_source("s", lw.ordered()), schema=SOURCED)
    assert found[1] == [(0,)]


def test_a_row_behind_its_own_source_is_late_and_the_same_row_of_a_slower_source_is_not():
    epochs = [[(100, "a"), (20, "b")], [], [(30, "a"), (30, "b")]]
    progress = lw.per_source("s", lw.ordered())
    outcome = run(SOURCED, epochs, Windows(10, 10), progress, COUNT, ("s",))
    assert [(r["t"], r["s"]) for r in outcome.late.to_pylist()] == [(30, "a")]


def test_idle_takes_a_silent_source_out():
    #  second  0        1     2     3     4
    #  a       10       20    30    40    50
    #  b       5        –     –     –     –         idle after 3 seconds of silence
    #  mark    5        5     5     40    50
    epochs = [[(10, "a"), (5, "b")], *[[(t, "a")] for t in (20, 30, 40, 50)]]
    progress = lw.per_source("s", lw.ordered(idle_timeout="3 seconds"))
    assert marks(epochs, progress, schema=SOURCED) == [5, 5, 5, 40, 50]


def test_a_source_that_returns_counts_again_once_it_has_caught_up():
    #  second  0    1    2    3    4        5        6
    #  a       10   20   30   40   –        70       90
    #  b       5    –    –    –    39       60       65
    #  mark    5    5    5    40   40       70?      65 …
    #                              b is behind 40 and does not count; at 60 it has caught up
    epochs = [
        [(10, "a"), (5, "b")], [(20, "a")], [(30, "a")], [(40, "a")],
        [(39, "b")], [(70, "a"), (60, "b")], [(90, "a"), (65, "b")],
    ]  # fmt: skip
    progress = lw.per_source("s", lw.ordered(idle_timeout="3 seconds"))
    assert marks(epochs, progress, schema=SOURCED) == [5, 5, 5, 40, 40, 60, 65]


def test_rows_of_a_returning_source_behind_the_mark_are_late():
    epochs = [[(10, "a"), (5, "b")], [(20, "a")], [(30, "a")], [(40, "a")], [], [(12, "b")]]
    progress = lw.per_source("s", lw.ordered(idle_timeout="3 seconds"))
    outcome = run(SOURCED, epochs, Windows(10, 10), progress, COUNT, ("s",), clock=EVERY_SECOND)
    assert [(r["t"], r["s"]) for r in outcome.late.to_pylist()] == [(12, "b")]


def test_a_source_that_appears_behind_the_mark_holds_nothing_back():
    epochs = [[(100, "a")], [(20, "new"), (110, "a")], [(120, "a")]]
    found = marks(epochs, lw.per_source("s", lw.ordered()), schema=SOURCED)
    assert found == [100, 110, 120]


def test_without_idle_a_silent_source_holds_the_mark_for_ever():
    epochs = [[(10, "a"), (5, "b")], *[[(t, "a")] for t in range(20, 100, 10)]]
    assert set(marks(epochs, lw.per_source("s", lw.ordered()), schema=SOURCED)) == {5}


def test_sources_may_be_numbers_or_booleans_or_null():
    for kind, values in (("int", (1, None)), ("boolean", (True, False))):
        epochs = [[(100, values[0]), (20, values[1])], [(30, values[1])]]
        found = marks(epochs, lw.per_source("s", lw.ordered()), schema=f"t bigint, s {kind}")
        assert found == [20, 30]


@examples(100)
@given(st.data(), sliding(), rows(), st.integers(0, 6), st.none() | st.integers(1, 3))
def test_random_sources_equal_the_oracle(data, windows, stream, span, idle):
    epochs = data.draw(cuts(stream))
    own = data.draw(st.booleans())
    keys = ("b", "a") if own else ("a",)
    pause = None if idle is None else f"{idle} seconds"
    progress = lw.per_source("b", lw.slack(span, idle_timeout=pause))
    outcome = run(SCHEMA, epochs, windows, progress, COUNT, keys, clock=EVERY_SECOND)
    story = simulate(epochs, windows, PerSource("b", span, own, idle))
    assert_accounts(outcome, story)
    assert_finals(outcome, story, windows, keys, NAMED)


# -- lull ------------------------------------------------------------------------------------------

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
TIMED = "t timestamp"


def at(second):
    return (NOON + timedelta(seconds=second),)


def timed_marks(epochs, progress, start=NOON, schema=TIMED):
    feed = lw.feed(schema)
    asked = lw.stream(feed, time="t", watermark=progress).window(range="1 second").agg(**COUNT)
    clock = lw.VirtualClock(start=start, per_epoch="1 second")
    local = LocalEpochs(asked.assembly, clock)
    for epoch in epochs:
        local.run([[feed.table(epoch)]], last=[False])
    lows = [local.log.read(n).standing.ports[0].low for n in range(local.epoch)]
    noon = int(NOON.timestamp())
    return [None if m is None else m // 1_000_000 - noon for m in lows]


def test_a_lull_moves_the_mark_in_step_with_the_clock():
    #  second   0    1    2    3    4    5    6
    #  rows     100  –    –    –    –    –    –        lull 3 s, slack 10 s
    #  mark     90   90   90   100  101  102  103      newest + silence - lull
    progress = lw.slack("10 seconds", idle_timeout="3 seconds")
    found = timed_marks([[at(100)], *[[] for _ in range(6)]], progress)
    assert found == [90, 90, 90, 100, 101, 102, 103]


def test_a_lull_on_the_wall_clock_follows_the_wall_clock_itself():
    #  the clock stands at noon in epoch 0; rows carry wall-clock time
    progress = lw.slack("10 seconds", idle_timeout="3 seconds", clock="wall")
    found = timed_marks([[at(0)], *[[] for _ in range(6)]], progress)
    assert found == [-10, -10, -10, 0, 1, 2, 3]


def test_a_lull_ends_when_rows_come_again():
    progress = lw.slack("10 seconds", idle_timeout="3 seconds")
    found = timed_marks([[at(100)], [], [], [], [], [at(105)], [at(200)]], progress)
    assert found == [90, 90, 90, 100, 101, 101, 190]


def test_a_lull_before_the_first_row_closes_nothing():
    progress = lw.ordered(idle_timeout="1 second")
    assert timed_marks([[], [], [], []], progress) == [None] * 4


def test_a_lull_closes_the_last_windows_before_the_stream_ends():
    feed = lw.feed(TIMED)
    sink = lw.to_memory()
    (
        lw.stream(feed, time="t", watermark=lw.ordered(idle_timeout="2 seconds"))
        .window(range="1 second")
        .agg(**COUNT)
        .run(
            epochs={feed: [[at(0)], *[[] for _ in range(8)]]},
            sink=sink,
            clock=lw.VirtualClock(start=NOON, per_epoch="1 second"),
        )
    )
    #  silence reaches 3 s in epoch 3, the mark is then at +1 s: closed in epoch 4
    assert set(sink.epochs) == {4}


def test_punctuations_are_heard_so_that_a_lull_does_not_run_ahead_of_them():
    #  the stream says every second that it stands at 50: it is slow, not silent
    schema = "t timestamp, last boolean"
    epochs = [[(*at(50), False)], *[[(*at(50), True)] for _ in range(8)]]
    found = timed_marks(epochs, lw.punctuated("last", idle_timeout="3 seconds"), schema=schema)
    assert found[1:] == [50] * 8


def test_after_a_lull_a_source_counts_only_once_it_has_reached_the_mark():
    #  second   0            1 … 5                6               7
    #  a        10           –                    100             200
    #  b        10           –                    11              12
    #  mark     10           idle_timeout: 10 … 13    b (11) is behind 13: a alone moves the mark
    schema = "t timestamp, s string"
    epochs = [[(*at(10), "a"), (*at(10), "b")], *[[] for _ in range(5)]]
    epochs += [[(*at(100), "a"), (*at(11), "b")], [(*at(200), "a"), (*at(12), "b")]]
    progress = lw.per_source("s", lw.ordered(idle_timeout="1 second"), idle_timeout="2 seconds")
    found = timed_marks(epochs, progress, schema=schema)
    assert found[:6] == [10, 10, 10, 11, 12, 13]
    assert found[6:] == [100, 200]


@pytest.mark.parametrize("windows", [Windows(10, 10), Windows(None, 10)])
def test_a_lull_does_not_close_a_window_twice(windows):
    # After the lull has closed windows, rows go on, and then the stream ends.
    feed = lw.feed(TIMED)
    size = lw.unbounded if windows.range is None else "10 seconds"
    outcome = (
        lw.stream(feed, time="t", watermark=lw.ordered(idle_timeout="2 seconds"))
        .window(range=size, slide="10 seconds")
        .agg(**COUNT)
        .run(
            epochs={feed: [[at(0)], *[[] for _ in range(30)], [at(25)], [at(31)]]},
            clock=lw.VirtualClock(start=NOON, per_epoch="1 second"),
        )
    )
    finals(outcome)
    assert outcome.status.balanced
