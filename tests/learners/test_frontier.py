"""The frontier of fixed slacks, against brute force and against runs of the query itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import lowwater as lw
from lowwater.engine.clock import RecordedClock
from lowwater.learners.frontier import (
    Frontier,
    NeededSlacks,
    Price,
    RecordedProgress,
    knees,
    prices,
)
from lowwater.sources.arrival_clock import ArrivalEpochs
from lowwater.windows.sliding import Sliding

WINDOWS = st.builds(
    Sliding, range=st.integers(1, 40), slide=st.integers(1, 40), origin=st.integers(-5, 5)
)
ROWS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60)), min_size=1, max_size=40)
"""Rows as (time, delay of the arrival)."""
LENGTHS = st.integers(1, 30)


class Stream:
    """Rows in the order of arrival, and the epochs in which they arrive."""

    def __init__(self, rows, length):
        times = sorted(((t + delay, t) for t, delay in rows), key=lambda row: row[0])
        self.arrived = np.array([a for a, _ in times])
        self.ticks = np.array([t for _, t in times])
        self.epochs = ArrivalEpochs.of([self.arrived], length)
        self.cuts = self.epochs.cuts
        self.progress = RecordedProgress.of(self.ticks, self.arrived, self.cuts)
        self.epoch = self.progress.epoch_of(self.arrived)

    def frontier(self, windows):
        return Frontier(
            NeededSlacks.of(windows, self.ticks, self.epoch, self.progress), self.progress
        )

    def newest(self, epoch):
        """The newest time after an epoch, by a loop; None before the first row."""
        return max(
            (t for t, e in zip(self.ticks, self.epoch, strict=True) if e <= epoch), default=None
        )

    def closes(self, end, slack):
        """The epoch in which a window closes, by a loop: one after the watermark has reached it."""
        for epoch in range(len(self.cuts)):
            newest = self.newest(epoch)
            if newest is not None and newest - slack >= end:
                return min(epoch + 1, len(self.cuts) - 1)
        return len(self.cuts) - 1


def brute_pairs(windows, time):
    """The windows of a row, by trying all ids nearby."""
    near = range(-300, 300)
    return [w for w in near if windows.start(w) <= time < windows.end(w)]


@given(ROWS, LENGTHS, WINDOWS)
@settings(max_examples=60, deadline=None)
def test_a_pair_is_in_time_from_its_needed_slack_on(rows, length, windows):
    stream = Stream(rows, length)
    found = stream.frontier(windows).pairs
    counted = {}
    for window, needed, count in zip(found.window, found.needed, found.rows, strict=True):
        key = (int(found.starts[window]), int(found.ends[window]), int(needed))
        counted[key] = counted.get(key, 0) + int(count)
    expected = {}
    for time, epoch in zip(stream.ticks, stream.epoch, strict=True):
        for w in brute_pairs(windows, time):
            end = windows.end(w)
            before = [stream.newest(m) for m in range(epoch - 1)]
            needed = max([n - end + 1 for n in before if n is not None] + [0])
            key = (windows.start(w), end, needed)
            expected[key] = expected.get(key, 0) + 1
    assert counted == expected


@given(ROWS, LENGTHS, WINDOWS, st.integers(0, 80))
@settings(max_examples=60, deadline=None)
def test_waits_count_from_the_row_that_reached_the_end(rows, length, windows, slack):
    stream = Stream(rows, length)
    expected = []
    ends = sorted({windows.end(w) for t in stream.ticks for w in brute_pairs(windows, t)})
    for end in ends:
        reached = [a for a, t in zip(stream.arrived, stream.ticks, strict=True) if t >= end]
        if reached:
            expected.append(int(stream.cuts[stream.closes(end, slack)]) - min(reached))
    assert sorted(stream.frontier(windows).waits(slack).tolist()) == sorted(expected)


@given(ROWS, LENGTHS, WINDOWS, st.sampled_from([0.5, 0.9, 0.99, 1.0]))
@settings(max_examples=60, deadline=None)
def test_the_slack_of_a_share_is_the_least_that_delivers_it(rows, length, windows, share):
    frontier = Stream(rows, length).frontier(windows)
    slack = frontier.slack(share)
    assert frontier.completeness(slack) >= share - 1e-12 or not frontier.pairs.total
    if slack:
        assert frontier.completeness(slack - 1) < share
    ends = [c for _, c, _ in frontier.points()]
    assert ends == sorted(ends)
    assert ends[-1] == 1.0


@given(ROWS, st.integers(3, 30), WINDOWS, st.integers(0, 80))
@settings(max_examples=15, deadline=None)
def test_the_query_itself_delivers_the_same_share_after_the_same_waits(
    rows, length, windows, slack
):
    stream = Stream(rows, length)
    feed, results, late = lw.feed("t bigint"), lw.to_memory(), lw.to_memory()
    table = pa.table({"t": stream.ticks})
    ends = [0, *stream.epochs.rows(stream.arrived)]
    epochs = [table.slice(a, b - a) for a, b in pairwise(ends)]
    query = (
        lw.stream(feed, time="t", watermark=lw.slack(slack))
        .window(range=windows.range, slide=windows.slide, origin=windows.origin)
        .agg(n=lw.count())
    )
    clock = RecordedClock(stream.cuts)
    query.run(epochs={feed: epochs}, clock=clock, sink=results, late=late, shards=1)
    frontier = stream.frontier(windows)
    lost = sum(
        row["missed"]["last"] - row["missed"]["first"] + 1
        for rows in late.epochs.values()
        for row in rows.to_pylist()
    )
    given = sum(sum(rows["n"].to_pylist()) for rows in results.epochs.values())
    total = frontier.pairs.total
    assert given == total - lost
    assert abs(frontier.completeness(slack) - (given / total if total else 1.0)) < 1e-9
    closed = {
        row["window"]["end"]: int(stream.cuts[min(epoch, len(stream.cuts) - 1)])
        for epoch, rows in results.epochs.items()
        for row in rows.to_pylist()
    }
    for end, at in closed.items():
        assert at == int(stream.cuts[stream.progress.closed(np.array([end]), slack)[0]])


def test_a_union_has_come_as_far_as_its_slowest_stream():
    # cuts        10    20    30
    # a            5    15    25
    # b            -     3    40
    cuts = np.array([10, 20, 30])
    a = RecordedProgress.of(np.array([5, 15, 25]), np.array([5, 15, 25]), cuts)
    b = RecordedProgress.of(np.array([3, 40]), np.array([12, 21]), cuts)
    both = RecordedProgress.least([a, b])
    assert both.newest[1:].tolist() == [3, 25]
    assert both.newest[0] < 0
    assert both.reached(np.array([3, 4, 25, 26])).tolist() == [12, 21, 25, -1]


def test_equal_windows_of_two_streams_are_one():
    windows, cuts = Sliding(range=10), np.array([10, 20, 30, 40])
    ticks = np.array([1, 12, 25])
    progress = RecordedProgress.of(ticks, ticks, cuts)
    one = NeededSlacks.of(windows, ticks, progress.epoch_of(ticks), progress)
    two = NeededSlacks.of(windows, ticks[1:], progress.epoch_of(ticks[1:]), progress)
    both = NeededSlacks.together([one, two])
    assert both.ends.tolist() == [10, 20, 30]
    assert np.bincount(both.window, both.rows).tolist() == [1, 2, 2]


def test_a_knee_is_where_a_little_more_costs_much_more():
    costs = [Price(share, 0, share, mean, mean) for share, mean in ((0.9, 4), (0.99, 6), (1.0, 60))]
    assert knees(costs, shortest=1) == [(costs[1], costs[2])]
    assert knees(costs, shortest=100) == []


@given(ROWS, LENGTHS, WINDOWS)
@settings(max_examples=30, deadline=None)
def test_each_price_delivers_more_than_the_one_before(rows, length, windows):
    known = prices(Stream(rows, length).frontier(windows), plain=lambda slack: -(-slack // 7) * 7)
    assert known[0].slack == 0
    assert known[-1].delivered == 1.0
    assert all(one.delivered >= one.completeness - 1e-12 for one in known)
    assert all(a.delivered < b.completeness for a, b in pairwise(known))


def test_an_empty_stream_has_no_price():
    progress = RecordedProgress.of(np.zeros(0, np.int64), np.zeros(0, np.int64), np.array([10]))
    none = np.zeros(0, np.int64)
    frontier = Frontier(NeededSlacks.of(Sliding(range=5), none, none, progress), progress)
    assert (frontier.completeness(0), frontier.slack(0.9), frontier.mean_wait(0)) == (1.0, 0, 0.0)
    assert prices(frontier, [0.9])[0].mean == 0
