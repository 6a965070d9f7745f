"""Rows without a partner that leave little by little: the same rows, a bounded while later."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.dataflow.run_operator import step
from lowwater.operators.batch import DEAD, LATE_DEGREE, TICK
from lowwater.operators.join.band import Band, SameWindow
from lowwater.operators.join.kernel import JoinKernel
from lowwater.operators.join.plan import JoinPlan
from lowwater.operators.kernel import META
from lowwater.operators.operator import GradualFlush
from lowwater.operators.packet import unpacked
from lowwater.operators.row_store import TARGET_ROWS
from lowwater.planner.fingerprint import fingerprint
from lowwater.ticks import END
from lowwater.windows.axis import Axis
from tests.operators.join.test_join import (
    REACH,
    Naive,
    check_state,
    epochs,
    partners,
    plan_of,
    plans,
    row,
    static_join,
)
from tests.operators.row_kernels import Runner, bag, packets_of, said_of, small_buckets
from tests.strategies import examples

outer = plans.filter(lambda plan: plan.how != "inner")
slow = st.integers(1, 25).map(GradualFlush)
lazy = st.builds(GradualFlush, st.integers(1, 25), st.one_of(st.integers(0, 12), st.just(1000)))


@st.composite
def flows(draw):
    """Streams that go on, their marks following: many rows wait, some come late."""
    drawn, out = random.Random(draw(st.integers(0, 2**16))), []
    for n in range(drawn.randint(3, 12)):
        ports = [drawn.randint(0, 1) for _ in range(drawn.randint(0, 9))]
        at = [5 * n - REACH + drawn.randint(-6, 6) for _ in ports]
        keys = [drawn.randint(0, 14) for _ in ports]
        numbers = range(len(ports))
        made = [
            (p, row(p, t, k, 9 * n + i))
            for p, t, k, i in zip(ports, at, keys, numbers, strict=True)
        ]
        marks = [drawn.choice([None, 5 * n - REACH + drawn.randint(-9, 3)]) for _ in (0, 1)]
        out.append((made, marks))
    return out


# -- against the definition -----------------------------------------------------------------------


class Waiting:
    """The rows that have not left although they could."""

    def __init__(self, plan):
        self.plan, self.rows = plan, []

    def check_queues(self, runner, gone):
        """Hold them against what is kept: those that left are not behind any that waits."""
        for port in (0, 1):
            times = [[t for p, t in map(self.at, rows) if p == port] for rows in (self.rows, gone)]
            kept = [r[TICK] for r in runner.queued(self.plan.ports + port)]
            assert kept == sorted(times[0])
            assert max(times[1], default=-99) <= min(kept, default=99)

    def at(self, result):
        """Of which side a row is, and its time."""
        port = 0 if self.plan.how == "anti" or result["u"] is None else 1
        return port, result["u" if port else "t"]

    def last(self, result):
        """The last time on the other side that a partner could have had, and which side it is."""
        port, time = self.at(result)
        return 1 - port, partners(self.plan.band, port, time)[-1]

    def left(self, results, pairs):
        """Take away what left, which is each row at most once, besides all pairs."""
        rest = bag(results)
        rest.subtract(bag(pairs))
        assert min(rest.values(), default=0) >= 0, "a pair has to wait"
        gone = [r for r in self.rows if rest[repr(sorted(r.items()))]]
        assert bag(gone) == +rest, "a row left that may not, or twice"
        self.rows = [r for r in self.rows if not rest[repr(sorted(r.items()))]]
        return gone


def since(mark, last):
    """How far a mark is beyond the one at which a row could have left."""
    return -1 if mark is None else mark - (last + 1)


@examples(80)
@given(
    outer, st.one_of(slow, lazy), st.one_of(flows(), epochs()), st.integers(1, 3), st.integers(1, 5)
)
def test_rows_leave_within_the_delay_and_nothing_else_changes(plan, smooth, stream, cuts, bucket):
    smoothed = pickle.loads(pickle.dumps(replace(plan, flush=smooth)))
    runner, naive, waiting = Runner(smoothed, JoinKernel, cuts), Naive(plan), Waiting(plan)
    with small_buckets(bucket):
        for epoch in [*stream, ([], [END, END])]:
            said = runner.run(epoch)
            pairs, alone, late, counts = naive.run(epoch)
            assert {n: said.measures[n] for n in counts} == counts
            assert Counter((p, r["id"], r["admitted"]) for p, r in said.late) == Counter(
                (p, r["id"], admitted) for p, r, admitted in late
            )
            check_state(runner, naive)  # what may join is what may join without
            waiting.rows += alone
            gone = waiting.left(said.results, pairs)
            waiting.check_queues(runner, gone)
            if smooth.room is None:
                assert by_time(said.results[len(pairs) :])
            delays = [since(naive.marks[p], last) for p, last in map(waiting.last, waiting.rows)]
            assert max(delays, default=0) < smooth.delay
            check_room(smooth, plan.shards, said, [(naive.marks, waiting.last(r)) for r in gone])
    assert waiting.rows == []
    assert list(runner.state) == ["meta"]


def by_time(alone):
    """Whether rows of each side are in the order of their time."""
    sides = [[r["t"] for r in alone if r.get("u") is None], [r.get("u") for r in alone]]
    return all(t == sorted(t) for t in ([u for u in side if u is not None] for side in sides))


def check_room(smooth, shards, said, gone):
    """A lazy flush gives out before half the delay is over what there is no room for."""
    if smooth.room is None:
        return
    early = any(since(marks[p], last) < smooth.delay // 2 for marks, (p, last) in gone)
    kept, room = said.measures["cells"], smooth.room // shards
    assert not early or kept + len(gone) > room


@examples(40)
@given(outer, lazy, flows())
def test_a_lazy_flush_keeps_no_row_waiting_for_which_there_is_no_room(plan, smooth, stream):
    runner = Runner(replace(plan, flush=smooth), JoinKernel)
    with small_buckets():
        for epoch in stream:
            kept = runner.run(epoch).measures["cells"]
            waits = sum(len(runner.queued(plan.ports + port)) for port in (0, 1))
            assert not waits or kept <= smooth.room // plan.shards


@examples(40)
@given(outer, slow, st.one_of(flows(), epochs(dead=False)), st.data())
def test_no_result_is_behind_the_marks_of_results_before_it(plan, smooth, stream, data):
    rows = rest = [r for made, _ in stream for r in made]
    plan = replace(plan, flush=smooth)
    runner, results, told = Runner(plan, JoinKernel), [], [None, None]
    while rest:
        n = data.draw(st.integers(1, len(rest)))
        now, rest = rest[:n], rest[n:]
        sure = [min((r[TICK] for p, r in rest if p == port), default=END) for port in (0, 1)]
        marks = [data.draw(st.sampled_from([None, mark])) for mark in sure]
        known = plan.progress(*told)
        came = runner.run((now, marks)).results
        assert all(behind(plan, known, r) == [] for r in came)
        told = [old if new is None else new for old, new in zip(told, marks, strict=True)]
        results += came
    results += runner.run(([], [END, END])).results
    assert bag(results) == bag(static_join(plan, rows))


def behind(plan, marks, result):
    """On which times a result is behind the marks of results."""
    times = {"self": result["t"], "other": result.get("u")}
    present = [t for t in times.values() if t is not None]
    if plan.how != "anti":
        times |= {"min": min(present), "max": max(present)}
    return [n for n, t in times.items() if t is not None and t < (marks[n] or -(2**63))]


# -- how evenly -----------------------------------------------------------------------------------

SIDE = pa.schema([("t", pa.int64()), ("k", pa.float64()), ("c", pa.string())])


def plan_for(band, how="left", on=(("k", "k"),), flush=None, shards=1):
    axes = (Axis("t", pa.int64()), Axis("t", pa.int64()))
    plan = JoinPlan((SIDE, SIDE), axes, on, band, how, shards=shards)
    return replace(plan, flush=flush or GradualFlush(32))


def lonely(t, k):
    return (0, {"t": t, "k": k, "c": str(k), TICK: t, LATE_DEGREE: 0, DEAD: False})


def play(plan, stream):
    """Run epochs; yield how many results each has, and what it changes in state."""
    state = {}
    for epoch in stream:
        done = step(plan, 0, state, packets_of(plan, epoch, 1))
        yield len(said_of(plan, done.emissions).results), done.changes
        state = {n: c for n, c in {**state, **done.changes}.items() if c is not None}


def burst(keys, **words):
    """Run a join in which the rows of a window [0, 100) have no partner; return who leaves when."""
    rows, marks = [lonely(t, k) for t, k in keys], range(98, 137, 2)
    stream = [(rows, [None, None]), *(([], [None, m]) for m in marks)]
    sizes = [n for n, _ in play(plan_for(SameWindow(100), **words), stream)]
    return {mark: n for mark, n in zip([None, *marks], sizes, strict=True) if n}


SPREAD = {
    "one time": ([(7, k) for k in range(1600)], (("k", "k"),)),
    "text": ([(n % 100, n) for n in range(1600)], (("c", "c"),)),
    "no key": ([(n % 100, None) for n in range(1600)], (("k", "k"),)),
    "no keys": ([(n % 100, n) for n in range(1600)], ()),
    "one key": ([(n % 100, 5.0) for n in range(1600)], (("k", "k"),)),
}


@pytest.mark.parametrize("bucket", [TARGET_ROWS, 300, 7])
@pytest.mark.parametrize("shape", SPREAD)
def test_rows_that_a_mark_sets_free_leave_evenly(shape, bucket):
    #  mark   98  100 ········ 130  132        window [0, 100), all have left 32 ticks after it
    rows, on = SPREAD[shape]
    with small_buckets(bucket, portion=1000):
        assert burst(rows, on=on) == dict.fromkeys(range(102, 133, 2), 100)


def test_a_mark_that_moves_further_lets_more_rows_go():
    rows, marks = [lonely(n % 100, n) for n in range(1600)], [100, 101, 109, 125, 131, 140]
    stream = [(rows, [None, None]), *(([], [None, m]) for m in marks)]
    sizes = [n for n, _ in play(plan_for(SameWindow(100)), stream)]
    assert sizes == [0, 0, 50, 400, 800, 300, 50]
    late = [(rows, [None, None]), ([], [None, 108]), ([], [None, 132])]
    assert [n for n, _ in play(plan_for(SameWindow(100)), late)] == [0, 400, 1200]


def test_rows_are_neither_read_nor_written_because_their_window_is_complete():
    rows = [lonely(n % 100, n) for n in range(1600)]
    stream = [(rows, [None, None]), *(([], [None, m]) for m in range(98, 137, 2))]
    with small_buckets(160, portion=1000):
        _, *after = [changes for _, changes in play(plan_for(SameWindow(100)), stream)]
    written = {name for changes in after for name, content in changes.items() if content}
    assert written == {META}
    # Ten buckets, one after the other, and at most one in an epoch.
    assert [sum(c is None for c in changes.values()) for changes in after].count(1) == 10


def test_of_a_bucket_that_is_cut_the_larger_part_stays_where_it_is():
    rows = [lonely(t, t) for t in range(130)]
    stream = [(rows, [None, None]), ([], [None, 100])]
    _, changes = list(play(plan_for(SameWindow(100)), stream))[1]
    sizes = {
        name: None if c is None else len(unpacked(c))
        for name, c in changes.items()
        if name.startswith("rows") and not name.endswith("flags")
    }
    assert sizes == {"rows/0/1": 30}
    stream = [([lonely(t, t) for t in range(70, 170)], [None, None]), ([], [None, 100])]
    _, changes = list(play(plan_for(SameWindow(100)), stream))[1]
    sizes = {
        name: None if c is None else len(unpacked(c))
        for name, c in changes.items()
        if name.startswith("rows") and not name.endswith("flags")
    }
    assert sizes == {"rows/0/0": None, "rows/0/1": 70, "rows/2/0": 30}


@pytest.mark.parametrize(
    ("band", "bucket", "delay"),
    [(SameWindow(20), TARGET_ROWS, 25), (SameWindow(20), 150, 60), (Band(-2, 3), 150, 10)],
)
def test_rows_of_a_steady_stream_leave_as_fast_as_they_come(band, bucket, delay):
    stream = [([lonely(t, n) for n in range(40)], [t, t]) for t in range(200)]
    with small_buckets(bucket, portion=1000):
        sizes = [n for n, _ in play(plan_for(band, flush=GradualFlush(delay)), stream)]
    # A window that waits shorter than the next one takes leaves faster, and then nothing does.
    fastest = 40 * max(1, getattr(band, "size", 0) / delay)
    assert max(sizes) <= 1.1 * fastest
    assert sum(sizes) >= 40 * (200 - 25 - delay)


def test_a_lazy_flush_waits_for_the_second_half_of_the_delay():
    gone = burst([(7, k) for k in range(1600)], flush=GradualFlush(32, 5000))
    assert gone == dict.fromkeys(range(118, 133, 2), 200)


def test_a_lazy_flush_lets_no_row_go_early_with_older_ones_of_its_bucket():
    rows = [lonely(n % 20, n) for n in range(200)]
    plan = plan_for(Band(0, 0), flush=GradualFlush(20, 5000))
    # At 20 half the delay is over for the rows up to 9, which the first one hurries on.
    assert [n for n, _ in play(plan, [(rows, [None, None]), ([], [None, 20])])] == [0, 100]


def test_a_lazy_flush_makes_just_the_room_it_needs():
    gone = burst([(7, k) for k in range(1600)], flush=GradualFlush(32, 1200))
    assert gone == {100: 400, **dict.fromkeys(range(118, 133, 2), 150)}
    shared = burst([(7, k) for k in range(1600)], flush=GradualFlush(32, 2400), shards=2)
    assert shared == gone


def test_room_is_made_alike_however_rows_lie_in_state():
    rows = [(n % 40, n) for n in range(300)]
    gone = burst(rows, flush=GradualFlush(32, 130))
    assert gone[100] == 170
    with small_buckets(10):
        assert burst(rows, flush=GradualFlush(32, 130)) == gone


def test_the_end_of_the_stream_lets_go_what_would_be_due_after_it():
    far = 2**61 - 1
    plan = plan_of((("k", "k"),), Band(-far, far), "full", "max")
    plan = replace(plan, flush=GradualFlush(far))
    rows = [(p, row(p, t, 2 + p, n)) for n in range(40) for p in (0, 1) for t in (far, far - n)]
    runner = Runner(plan, JoinKernel)
    before = len(runner.run((rows, [END - 1, END - 1])).results)
    assert before <= 2  # the first of each side; there is time for the others
    assert before + len(runner.run(([], [END, END])).results) == len(rows)
    assert list(runner.state) == ["meta"]
    assert set(plan.progress(END, END).values()) == {END}


# -- queries --------------------------------------------------------------------------------------

SCHEMA = "t bigint, k int"


def joined(flush, band=(-2, 3), how="left", slack=3, mode="generous", **words):
    feeds = [lw.feed(SCHEMA) for _ in range(2)]
    a, b = (lw.stream(f, time="t", watermark=lw.slack(slack, mode=mode)) for f in feeds)
    return feeds, a.join(b, on="k", band=band, how=how, flush=flush, **words)


def disordered(data, slack):
    """Rows of both streams, at most `slack` out of order, in epochs."""
    drawn = random.Random(data.draw(st.integers(0, 2**16)))
    count, epochs = drawn.randint(10, 60), drawn.randint(1, 12)
    streams = [[[] for _ in range(epochs)] for _ in (0, 1)]
    for n in range(count):
        for side in streams:
            if drawn.random() < 0.7:
                at = n + drawn.randint(0, slack)
                side[n * epochs // count].append((at, drawn.randint(0, 4)))
    return streams


flushes = st.one_of(
    st.integers(1, 20).map(lambda n: lw.slow_flush(max_delay=n)),
    st.builds(
        lambda n, keep: lw.lazy_flush(max_delay=n, keep=keep),
        st.integers(1, 20),
        st.integers(0, 9),
    ),
)
asked = st.sampled_from([(-2, 3), (0, 0), lw.same_window(5), lw.same_window(4, origin=3)])


def told(query, feeds, streams):
    """What came of a query: results, late rows and all counts."""
    outcome = query.run(epochs=dict(zip(feeds, streams, strict=True)), host="local", shards=2)
    counts = {name: dict(kept) for name, kept in outcome.status.operators.items()}
    return bag(outcome.results.to_pylist()), bag(outcome.late.to_pylist()), counts, outcome.status


@examples(40)
@given(st.data(), flushes, asked, st.sampled_from(["left", "right", "full", "anti"]))
def test_a_smooth_join_gives_the_rows_of_the_plain_one(data, flush, band, how):
    mode = data.draw(st.sampled_from(["generous", "consistent"]))
    streams, slack = disordered(data, 6), data.draw(st.integers(0, 6))
    (rows, late, counts, _), (smooth, same_late, same_counts, status) = (
        told(stream, feeds, streams)
        for feeds, stream in (joined(f, band, how, slack, mode) for f in (None, flush))
    )
    assert (smooth, same_late, same_counts) == (rows, late, counts)
    assert status.cells == status.state_bytes == 0


@pytest.mark.parametrize("mode", ["generous", "consistent"])
def test_a_mark_that_lets_rows_go_makes_no_row_late(mode):
    #  other   16 ─── 11: mark 16 lies within [10, 20), and lets rows of [0, 10) go
    feeds, stream = joined(lw.slow_flush(max_delay=8), lw.same_window(10), slack=0, mode=mode)
    mine, theirs = [[(12, 1)], [], []], [[(16, 9)], [(17, 9)], [(11, 1)]]
    rows, late, *_ = told(stream, feeds, (mine, theirs))
    assert not late
    assert rows == bag([{"t": 12, "k": 1, "t_other": 11}])


@examples(40)
@given(st.data(), flushes, asked, st.sampled_from(["left", "right", "full", "anti"]))
def test_no_row_that_waited_is_late_for_a_window_above(data, flush, band, how):
    streams = disordered(data, 4)
    found = []
    for smooth in (None, flush):
        feeds, stream = joined(smooth, band, how, slack=4)
        query = stream.window(range=6, slide=2).group_by("k").agg(n=lw.count())
        found.append(told(query, feeds, streams))
    (rows, _, _, _), (smooth_rows, late, counts, status) = found
    assert smooth_rows == rows
    assert not late
    assert sum(c.get("late", 0) + c.get("partly_late", 0) for c in counts.values()) == 0
    assert status.cells == 0


def epochs_of(flush, band):
    """How many rows without a partner leave in each epoch, one for each tick of the mark."""
    feeds, stream = joined(flush, band, slack=0)
    alone = [(5, k) for k in range(400)]
    a = [alone, *([(t, -1)] for t in range(6, 60))]
    b = [[], *([(t, -1)] for t in range(6, 60))]
    sink = lw.to_memory()
    stream.run(epochs=dict(zip(feeds, (a, b), strict=True)), host="local", sink=sink)
    counts = {e: sum(r["k"] >= 0 for r in t.to_pylist()) for e, t in sink.epochs.items()}
    return {e: n for e, n in counts.items() if n}


@pytest.mark.parametrize("band", [(-2, 3), lw.same_window(10)])
def test_rows_that_are_complete_at_once_leave_over_many_epochs(band):
    assert list(epochs_of(None, band).values()) == [400]
    (at,) = epochs_of(None, band)
    slow = epochs_of(lw.slow_flush(max_delay=12), band)
    assert sorted(slow) == list(range(at + 1, at + 13))
    assert max(slow.values()) <= 36  # a third of 100, or one row more in each shard
    assert sum(slow.values()) == 400
    lazy = epochs_of(lw.lazy_flush(max_delay=12, keep=10_000), band)
    assert sorted(lazy) == list(range(at + 7, at + 13))
    full = epochs_of(lw.lazy_flush(max_delay=12, keep=100), band)
    assert min(full) == at
    assert full[at] > 300


def test_a_delay_may_be_told_in_windows():
    slow = epochs_of(lw.slow_flush(max_delay="2 windows"), lw.same_window(10))
    assert max(slow) - min(slow) + 1 == len(slow) == 20
    _, stream = joined(lw.slow_flush(max_delay="1.5 windows"), lw.same_window(10))
    assert stream.node.plan.flush == GradualFlush(15)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"how": "inner"}, "an inner join has none: its pairs are emitted as they meet"),
        ({"flush": 5}, r"flush=5 is not .*; give lw.slow_flush\(\.\.\.\) or lw.lazy_flush"),
        ({"flush": lw.slow_flush(max_delay="2 windows")}, "this join has no windows to count"),
        ({"flush": lw.slow_flush(max_delay=0)}, "max_delay=0 must be greater than zero"),
        ({"order": "time"}, "flush= and order='time' contradict each other"),
    ],
)
def test_what_cannot_be_smooth_is_refused_with_its_remedy(words, message):
    with pytest.raises(lw.SpecError, match=message):
        joined(**{"flush": lw.slow_flush(max_delay=4), **words})


def test_explain_says_how_rows_without_a_partner_leave():
    _, stream = joined(lw.slow_flush(max_delay=7))
    assert "unmatched   rows leave little by little, within 7" in stream.explain()
    _, stream = joined(lw.lazy_flush(max_delay=7, keep=20))
    said = "unmatched   rows leave when more than 20 are kept, at the latest after 7"
    assert said in stream.explain()
    assert "unmatched" not in joined(None)[1].explain()


def test_a_checkpoint_belongs_to_one_way_of_giving_out():
    def digest(flush):
        return fingerprint(joined(flush)[1].assembly, 2)["digest"]

    ways = [None, lw.slow_flush(max_delay=4), lw.slow_flush(max_delay=5)]
    ways += [lw.lazy_flush(max_delay=4, keep=n) for n in (1, 2)]
    assert len({digest(way) for way in ways}) == len(ways)
