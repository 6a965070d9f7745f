"""Range punctuation: windows close in stretches that are complete, also behind a hole.

time      0    10    20    30    40
rows      x     hole      x  x  x
said                [20 ......... 40)      windows in it close; those that reach into the hole wait
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.control.watermark import Watermarks
from lowwater.intervals import intersection, union
from lowwater.local.host import LocalEpochs
from tests.strategies import examples

SCHEMA = "t bigint, g int, m boolean, s bigint"


def row(t, g=0):
    return (t, g, False, None)


def said(since, until):
    return (until, None, True, since)


def windows_of(t, size, slide):
    return list(range((t - size) // slide + 1, t // slide + 1))


class Oracle:
    """Row by row: a window is complete if a said stretch, or several together, covers it."""

    def __init__(self, size, slide):
        self.size, self.slide = size, slide
        self.said, self.rows, self.closed = [], Counter(), set()
        self.counts = Counter()

    def covers(self, wid):
        start, end = wid * self.slide, wid * self.slide + self.size
        return all(any(a <= x < b for a, b in self.said) for x in range(start, end))

    def epoch(self, rows):
        """Admit the data, then act on the punctuation that came with it."""
        for t, g, mark, since in rows:
            if mark:
                self.said.append((-1_000 if since is None else since, t))
                continue
            mine = windows_of(t, self.size, self.slide)
            open_ones = [w for w in mine if w not in self.closed]
            self.counts["late"] += bool(mine) and not open_ones
            self.counts["partly_late"] += bool(open_ones) and len(open_ones) < len(mine)
            self.counts["outside"] += not mine
            for w in open_ones:
                self.rows[w, g] += 1
        newly = {w for w in range(-20, 120) if w not in self.closed and self.covers(w)}
        self.closed |= newly
        return {(w, g): n for (w, g), n in self.rows.items() if w in newly}


@st.composite
def streams(draw):
    rows = st.builds(row, st.integers(0, 60), st.integers(0, 2))
    marks = st.builds(
        lambda a, n, whole: said(None if whole else a, a + n),
        st.integers(0, 60),
        st.integers(0, 30),
        st.integers(0, 4).map(lambda n: n == 0),
    )
    one = rows | rows | rows | marks
    return draw(st.lists(st.lists(one, max_size=8), min_size=1, max_size=7))


@examples(120)
@given(streams(), st.sampled_from([(10, 10), (10, 5), (12, 5), (5, 8), (7, 3)]))
def test_windows_in_complete_stretches_close_and_others_wait(epochs, spec):
    size, slide = spec
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.punctuated("m", since="s"))
    query = stream.window(range=size, slide=slide).group_by("g").agg(n=lw.count())
    given_out = []
    sink = lw.to_callback(lambda epoch, table: given_out.append((epoch, table.to_pylist())))
    outcome = query.run(epochs={feed: epochs}, sink=sink, shards=2)
    oracle = Oracle(size, slide)
    expected = [oracle.epoch(rows) for rows in epochs]
    found = [{} for _ in epochs]
    for epoch, rows in given_out:
        if epoch < len(epochs):
            assert not found[epoch].keys() & {(r["wid"], r["g"]) for r in rows}
            found[epoch] |= {(r["wid"], r["g"]): r["n"] for r in rows}
    assert found == expected
    for tally in ("late", "partly_late", "outside"):
        assert outcome.status[tally] == oracle.counts[tally]
    total = Counter()
    for _, rows in given_out:
        for r in rows:
            total[r["wid"], r["g"]] += r["n"]
    assert total == oracle.rows
    assert outcome.status.cells == 0


def test_state_behind_a_complete_stretch_is_let_go():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.punctuated("m", since="s"))
    query = stream.window(range=10).group_by("g").agg(n=lw.count())
    local = LocalEpochs(query.assembly, lw.VirtualClock())
    rows = [row(t, g) for t in range(0, 100, 5) for g in range(5)]
    local.run([[feed.table([*rows, said(20, 100)])]], last=[False])
    # Two windows, before the stretch, are open: 2 windows × 5 groups.
    assert local.status().cells == 10


def test_a_stretch_that_ends_before_it_begins_is_malformed():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.punctuated("m", since="s"))
    outcome = stream.window(range=10).agg(n=lw.count()).run(epochs={feed: [[said(30, 20)]]})
    assert outcome.status["malformed"] == 1
    assert outcome.malformed["reason"].to_pylist() == [
        "a punctuation whose interval ends before it begins"
    ]


def test_windows_that_cannot_close_in_any_order_are_refused():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.punctuated("m", since="s"))
    ranged = stream.window(range=10).agg(n=lw.count()).plan
    marks = Watermarks(17, ranges=((30, 40),))
    assert ranged.usable(0, marks) == Watermarks(10, ranges=((30, 40),))
    with pytest.raises(lw.SpecError, match=r"since='s'.*order of time"):
        stream.window(gap=3).agg(n=lw.count())


def test_by_and_since_do_not_go_together():
    with pytest.raises(lw.SpecError, match=r"by='g', since='s'.*remove by= or since="):
        lw.punctuated("m", by="g", since="s")


stretches = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=4)


@examples(60)
@given(stretches, stretches)
def test_stretches_are_sets_of_points(one, other):
    def points(found):
        return {x for a, b in found for x in range(a, b)}

    assert points(union(one)) == points(one)
    assert points(intersection(union(one), union(other))) == points(one) & points(other)


marks = st.builds(
    lambda low, ranges: Watermarks(low).raised(Watermarks(ranges=union(ranges))),
    st.none() | st.integers(-5, 25),
    stretches,
)


@examples(60)
@given(marks, marks)
def test_marks_of_streams_together_hold_for_both(one, other):
    def points(found):
        return {x for x in range(-10, 30) if any(a <= x < b for a, b in found.complete)}

    assert points(one.raised(other)) == points(one) | points(other)
    assert points(Watermarks.least([one, other])) == points(one) & points(other)
    assert Watermarks.from_json(one.to_json()) == one
