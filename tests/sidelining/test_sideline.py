"""Sidelining: rows of a burst wait, the others are on time, and nothing comes out otherwise.

time       0    10    20    30    40
prodded         [10, 20)
rows       xxxxxxxxoooooooooxxxxxxxxx      o: put aside, worked off with what follows
closes         1         .         3  4    window 2 when the last of its rows has been worked off
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.engine.outputs import output_writers
from lowwater.engine.status import Status
from lowwater.intervals import difference
from lowwater.local.host import LocalEpochs, blocks_of, until_the_end
from lowwater.planner.early import prodded
from lowwater.planner.fingerprint import fingerprint
from lowwater.planner.sidelining import sidelined
from lowwater.sidelining.sideliner import Sideliner, _shared, free_interval, newest_time
from lowwater.sinks.sink import Outputs
from tests.reference.plans import Noted
from tests.strategies import examples

SCHEMA = "t timestamp, k int, v int, m boolean"
ZERO = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000


def at(seconds):
    return ZERO + timedelta(seconds=seconds)


def ticks(instant):
    return round((instant - ZERO).total_seconds() * SECOND)


# -- runs with stretches that are put aside at will ------------------------------------------------


@dataclass(frozen=True)
class Forced(Sideliner):
    """Puts aside what a test says: after epoch n, all that is open for `lengths[n]` panes more."""

    lengths: tuple[int, ...] = ()

    def chosen(self, window, prodded, held, known):
        del prodded
        epoch = len(EPOCHS)
        EPOCHS.append(epoch)
        length = self.lengths[epoch % len(self.lengths)] if self.lengths else 0
        newest = newest_time(window, known)
        if not length or newest is None:
            return None
        spec = window.spec
        end = spec.align(newest + length * spec.pane)
        return free_interval(window, end, held, known)


EPOCHS: list[int] = []
"""The epochs in which something was decided; a decision is a function of the log but for this."""


@dataclass
class Played:
    """What came out in each epoch, and what was known after it."""

    finals: list
    late: list
    statuses: list[Status]
    held: list
    local: LocalEpochs

    @property
    def all_finals(self):
        return Counter(map(repr, (row for rows in self.finals for row in rows)))

    @property
    def all_late(self):
        return Counter(map(repr, (row for rows in self.late for row in rows)))


def sidelining(query, lengths=None, **how):
    """Return a query with sidelining, decided by the clock or by a test."""
    asked = sidelined(query.assembly, lw.sideline(**how), lw.early_on_demand())
    if lengths is not None:
        known = asked.sideliner
        forced = Forced(known.how, known.clock, known.windows, known.holds, tuple(lengths))
        asked = replace(asked, sideliner=forced)
    return asked


def play(assembly, given, *, early=None, shards=2, clock=None):
    EPOCHS.clear()
    asked = prodded(assembly, early or lw.early_on_demand(), "raw").with_shards(shards)
    local = LocalEpochs(asked, clock or lw.VirtualClock())
    (way,) = output_writers(asked.flow, prodded=True).values()
    sources = [[s.table(rows) for rows in given[s]] for s in asked.sources]
    played = Played([], [], [], [], local)
    for n, (blocks, last) in enumerate(until_the_end([blocks_of(s) for s in sources])):
        held = local.log.before(n).standing.held
        packets = local.run(blocks, last=last)
        sinks = Outputs(Noted(), Noted(), Noted())
        way.write(n, [p for p in packets if p.kind != "early"], sinks)
        played.finals.append(sinks.results.epochs.get(n, []))
        played.late.append(sinks.late.epochs.get(n, []))
        played.statuses.append(local.status())
        played.held.append(held)
    return played


def aggregates():
    return {
        "n": lw.count(),
        "s": lw.sum("v"),
        "top": lw.max("v"),
        "mid": lw.median("v"),
        "one": lw.first("v"),
        "end": lw.last("v"),
    }


def grouped(size, slide):
    def plan(a, _):
        made = a.where("v >= 0").with_columns(v="v + 1")
        return made.window(range=size, slide=slide).group_by("k").agg(**aggregates())

    return plan


PLANS = {
    "tumbling": grouped("4 seconds", "4 seconds"),
    "sliding": grouped("6 seconds", "2 seconds"),
    "uneven": grouped("5 seconds", "3 seconds"),
    "gaps": grouped("2 seconds", "5 seconds"),
    "no groups": lambda a, _: a.window(range="6 seconds", slide="3 seconds").agg(**aggregates()),
    "union": lambda a, b: (
        a.union(b).window(range="4 seconds", slide="2 seconds").group_by("k").agg(n=lw.count())
    ),
    "windows of windows": lambda a, _: (
        a.window(range="4 seconds", slide="2 seconds")
        .group_by("k")
        .agg(n=lw.count())
        .window(range="8 seconds", on="window")
        .agg(most=lw.max("n"), all=lw.sum("n"))
    ),
}
PROGRESS = {
    "ordered": lw.ordered,
    "slack": lambda: lw.slack("3 seconds"),
    "consistent": lambda: lw.slack("1 second", mode="consistent"),
    "rows": lambda: lw.slack(rows=3),
    "punctuated": lambda: lw.punctuated(when="m"),
    "per source": lambda: lw.per_source("k", lw.slack("1 second", idle_timeout="5 seconds")),
}


def watermark_of(name):
    """What a plan may progress by: where sources close their own groups, nothing is put aside."""
    return st.sampled_from(
        sorted(set(PROGRESS) - (set() if name == "no groups" else {"per source"}))
    )


@st.composite
def epochs(draw):
    """Rows with disorder, cut into epochs; some are empty."""
    now, made = 0, []
    for _ in range(draw(st.integers(1, 8))):
        some = []
        for step, back, key, value, mark in draw(
            st.lists(
                st.tuples(
                    st.sampled_from((0, 1, 1, 2, 4)),
                    st.sampled_from((0, 0, 1, 3, 7)),
                    st.sampled_from((1, 2, None)),
                    st.integers(-1, 9),
                    st.sampled_from((False, False, False, True)),
                ),
                max_size=7,
            )
        ):
            now += step
            some.append((at(now - back), key, value, mark))
        made.append(some)
    return made


def both(name, progress, first, second, lengths, **how):
    """Play a plan without and with sidelining."""
    shards = how.pop("shards", 2)
    feeds = [lw.feed(SCHEMA) for _ in range(2)]
    streams = [lw.stream(f, time="t", watermark=PROGRESS[progress]()) for f in feeds]
    query = PLANS[name](*streams)
    given = dict(zip(feeds, (first, second), strict=True))
    plain = play(query.assembly, given, shards=shards)
    return plain, play(sidelining(query, lengths, **how), given, shards=shards)


FORCED = st.lists(st.sampled_from((0, 0, 1, 2, 5)), min_size=1, max_size=6)


@pytest.mark.parametrize("name", PLANS)
@examples(12)
@given(
    data=st.data(),
    first=epochs(),
    second=epochs(),
    lengths=FORCED,
    every=st.sampled_from((1, 2, 3, 50)),
    delay=st.sampled_from((1, 2, 60)),
    shards=st.integers(1, 3),
)
def test_finals_and_late_rows_are_those_of_a_run_that_puts_nothing_aside(
    name, data, first, second, lengths, every, delay, shards
):
    progress = data.draw(watermark_of(name))
    plain, aside = both(
        name,
        progress,
        first,
        second,
        lengths,
        every=every,
        max_delay=timedelta(seconds=delay),
        shards=shards,
    )
    assert aside.all_finals == plain.all_finals
    assert aside.all_late == plain.all_late
    for status in aside.statuses:
        assert status.balanced
    last = aside.statuses[-1]
    assert last["sidelined"] == 0
    assert last.cells == 0
    assert {t: last[t] for t in last.counts} == {t: plain.statuses[-1][t] for t in last.counts}


@examples(60)
@given(first=epochs(), lengths=FORCED, every=st.sampled_from((1, 3, 50)))
def test_windows_without_a_pane_that_is_put_aside_are_on_time(first, lengths, every):
    plain, aside = both("sliding", "slack", first, [], lengths, every=every)
    held = {(ticks_of.start, ticks_of.end) for now in aside.held for ticks_of in now}
    for n, (expected, found) in enumerate(zip(plain.finals, aside.finals, strict=True)):
        on_time = [row for row in expected if not touches(row, held)]
        assert Counter(map(repr, on_time)) <= Counter(map(repr, found)), n


def touches(row, held):
    start, end = (ticks(row["window"][b]) for b in ("start", "end"))
    return any(a < end and start < b for a, b in held)


@examples(60)
@given(first=epochs(), lengths=FORCED, delay=st.integers(1, 4))
def test_no_row_waits_longer_than_the_delay(first, lengths, delay):
    _, aside = both(
        "tumbling", "slack", first, [], lengths, every=1000, max_delay=timedelta(seconds=delay)
    )
    came: list[int] = []
    for n, status in enumerate(aside.statuses):  # an epoch takes a second
        waiting = status["sidelined"]
        hold = status.operators.get("hold", {})
        came += [n] * (hold.get("admitted", 0) - len(came))
        oldest = came[len(came) - waiting] if waiting else n
        assert n - oldest < delay


# -- bursts that the clock tells -------------------------------------------------------------------


def burst(*, epochs, rows, seconds_per_epoch):
    """Rows in order whose time goes on more slowly, or faster, than the clock."""
    made, now = [], 0.0
    for n in range(epochs):
        step = seconds_per_epoch(n) / rows
        some = []
        for _ in range(rows):
            now += step
            some.append((at(now), 1, 1, False))
        made.append(some)
    return made


def slow_in_the_middle(n):
    """The stream falls behind by four seconds, and catches up."""
    return 0.2 if 6 <= n < 11 else 2.0 if 11 <= n < 15 else 1.0


def test_a_stream_that_falls_behind_has_its_rows_put_aside_after_an_early_result():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.ordered())
    query = stream.window(range="2 seconds", slide="1 second").agg(n=lw.count())
    rows = burst(epochs=25, rows=20, seconds_per_epoch=slow_in_the_middle)
    given = {feed: rows}
    plain = play(query.assembly, given, early=lw.early_every("1 second"))
    aside = play(sidelining(query, every=4), given, early=lw.early_every("1 second"))
    assert max(status["sidelined"] for status in aside.statuses) > 20
    assert aside.all_finals == plain.all_finals
    assert aside.statuses[-1]["sidelined"] == 0
    held = {(h.start, h.end) for now in aside.held for h in now}
    came, expected = (
        {r["wid"]: (n, touches(r, held)) for n, r in numbered(p)} for p in (aside, plain)
    )
    on_time = {wid: n for wid, (n, aside_too) in came.items() if not aside_too}
    waited = {wid: n for wid, (n, aside_too) in came.items() if aside_too}
    assert all(n == expected[wid][0] for wid, n in on_time.items())
    overtaken = [w for w in waited if any(v > w and n < waited[w] for v, n in on_time.items())]
    assert overtaken


def test_rows_that_wait_have_not_arrived():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.ordered())
    query = stream.window(range="4 seconds", slide="1 second").agg(n=lw.count())
    rows = burst(epochs=20, rows=20, seconds_per_epoch=slow_in_the_middle)
    found = query.run(
        epochs={feed: rows},
        early=lw.early_every("1 second"),
        sideline=lw.sideline(every=4),
        estimate="raw",
        clock=lw.VirtualClock(start=ZERO, per_epoch="1 second"),
        host="local",
    ).results.to_pylist()
    final = {r["wid"]: r["n"] for r in found if r["kind"] == "final"}
    early = [r for r in found if r["kind"] == "early"]
    off = [abs(r["n"] / final[r["wid"]] - r["completeness"]) for r in early]
    assert len(early) > 5
    assert sum(off) / len(off) < 0.2


def numbered(played):
    return [(n, row) for n, rows in enumerate(played.finals) for row in rows]


def test_nothing_is_put_aside_while_the_stream_keeps_up():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.slack("1 second"))
    query = stream.window(range="2 seconds", slide="1 second").agg(n=lw.count())
    rows = burst(epochs=12, rows=20, seconds_per_epoch=lambda _: 1.0)
    aside = play(sidelining(query), {feed: rows}, early=lw.early_every("1 second"))
    assert all(status["sidelined"] == 0 for status in aside.statuses)


def test_nothing_is_put_aside_without_an_early_result():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.ordered())
    query = stream.window(range="2 seconds", slide="1 second").agg(n=lw.count())
    rows = burst(epochs=25, rows=20, seconds_per_epoch=slow_in_the_middle)
    aside = play(sidelining(query), {feed: rows}, early=lw.early_on_demand())
    assert all(status["sidelined"] == 0 for status in aside.statuses)


def test_rows_are_put_aside_before_the_steps_and_counted_as_they_come_back():
    """Rows of [0, 8) come after it was put aside; a filter drops half of them when they return."""
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.slack("20 seconds")).where("v > 0")
    query = stream.window(range="4 seconds").agg(n=lw.count())
    rows = [[(1, 1)], [(2, 0), (3, 1)], [(9, 1)] * 6, []]
    rows = [[(at(t), 1, v, None) for t, v in some] for some in rows]
    aside = play(sidelining(query, [2, 0, 0, 0, 0], every=3), {feed: rows})
    assert [s["sidelined"] for s in aside.statuses] == [0, 2, 2, 0, 0]
    assert [s["in"] for s in aside.statuses] == [1, 3, 9, 8, 8]
    assert [(r["n"]) for rows in aside.finals for r in rows] == [2, 6]


def test_a_row_enters_no_window_that_it_had_missed_when_it_came():
    """Windows [0, 4) [2, 6) [4, 8) …; [0, 4) is put aside after the first row, until the end.

    time 3 comes when the mark is 4: it has missed [0, 4), and waits. time 5 comes last, when the
    mark is 6: it has missed [2, 6), which is open still, since rows of [2, 4) wait.
    """
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.ordered())
    query = stream.window(range="4 seconds", slide="2 seconds").agg(n=lw.count())
    times = [[1], [2, 5], [5], [3], [7], [7], [5]]
    given = {feed: [[(at(t), 1, 1, False) for t in some] for some in times]}
    plain = play(query.assembly, given)
    aside = play(sidelining(query, [2] + [0] * 9, every=1000), given)
    assert [s["sidelined"] for s in aside.statuses] == [0, 1, 1, 2, 2, 2, 2, 0]
    counted = {r["wid"]: r["n"] for rows in aside.finals for r in rows}
    assert counted == {-1: 1, 0: 2, 1: 4, 2: 5, 3: 2}
    assert aside.all_finals == plain.all_finals
    assert aside.all_late == plain.all_late
    assert aside.statuses[-1]["partly_late"] == 2


def test_what_waits_is_shared_out_by_what_each_shard_has():
    assert _shared(0, {"0": 5}) == {"0": 0}
    assert _shared(10, {"0": 5, "1": 1}) == {"0": 5, "1": 1}
    assert sum(_shared(7, {"0": 5, "1": 5, "2": 5}).values()) == 7
    assert difference(((0, 9),), ()) == ((0, 9),)


# -- the choice, as it is made ---------------------------------------------------------------------


def made(**words):
    feed = lw.feed("t timestamp, u timestamp, k int, n bigint, m boolean, s timestamp")
    progress = words.pop("watermark", None) or lw.slack("1 second")
    return lw.stream(feed, time=words.pop("time", "t"), watermark=progress), feed


REFUSED = {
    "landmark": (lambda s: s.window(range=lw.unbounded, slide="1 second"), "landmark"),
    "session": (lambda s: s.window(gap="1 second"), "sessions"),
    "rows": (lambda s: s.window(range=lw.rows(4)), "row numbers"),
    "ended by rows": (lambda s: s.window(range="4 seconds", slide=lw.rows(1)), "end at rows"),
    "several": (
        lambda s: s.window(lw.windows(a=("2 seconds", "1 second"), b=("4 seconds", "1 second"))),
        "several windows",
    ),
    "flush": (
        lambda s: s.window(range="1 second", flush=lw.slow_flush(max_delay="2 windows")).group_by(
            "k"
        ),
        "gradually",
    ),
    "distinct": (lambda s: s.distinct("k", within="1 second").window(range="1 second"), "distinct"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_windows_that_cannot_close_before_others_are_refused(name):
    stream, feed = made()
    windowed, why = REFUSED[name]
    query = windowed(stream).agg(n=lw.count())
    with pytest.raises(lw.SpecError, match=f"sideline=.*{why}"):
        query.run(epochs={feed: [[]]}, early=lw.early_on_demand(), sideline=True)


def test_bad_choices_are_refused():
    stream, feed = made()
    query = stream.window(range="1 second").agg(n=lw.count())
    with pytest.raises(lw.SpecError, match="sideline='yes'"):
        query.run(epochs={feed: [[]]}, early=lw.early_on_demand(), sideline="yes")
    with pytest.raises(lw.SpecError, match="early= asks for none"):
        query.run(epochs={feed: [[]]}, sideline=True)
    with pytest.raises(lw.SpecError, match="every=0"):
        lw.sideline(every=0)
    with pytest.raises(lw.SpecError, match="max_delay='0 seconds'"):
        lw.sideline(max_delay="0 seconds")
    numbers, feed = made(time="n", watermark=lw.slack(1))
    with pytest.raises(lw.SpecError, match="numbers"):
        numbers.window(range=4).agg(n=lw.count()).run(
            epochs={feed: [[]]}, early=lw.early_on_demand(), sideline=True
        )
    said, feed = made(watermark=lw.punctuated(when="m", since="s"))
    with pytest.raises(lw.SpecError, match="since="):
        said.window(range="4 seconds").agg(n=lw.count()).run(
            epochs={feed: [[]]}, early=lw.early_on_demand(), sideline=True
        )


def test_a_checkpoint_says_whether_rows_may_be_put_aside():
    stream, _ = made()
    query = stream.window(range="1 second").agg(n=lw.count())
    aside = sidelined(query.assembly, True, lw.early_on_demand())
    slower = sidelined(query.assembly, lw.sideline(every=9), lw.early_on_demand())
    assert fingerprint(aside, 2) != fingerprint(query.assembly, 2)
    assert fingerprint(aside, 2) == fingerprint(slower, 2)


def test_several_queries_put_rows_aside_each_for_itself():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.ordered())
    queries = lw.together(
        short=stream.window(range="1 second").agg(n=lw.count()),
        long=stream.window(range="3 seconds", slide="1 second").group_by("k").agg(n=lw.count()),
    )
    rows = burst(epochs=25, rows=20, seconds_per_epoch=slow_in_the_middle)
    words = {
        "epochs": {feed: rows},
        "clock": lw.VirtualClock(),
        "early": lw.early_every("1 second"),
    }
    plain, aside = queries.run(**words), queries.run(**words, sideline=True)
    for name in ("short", "long"):
        finals = [
            Counter(repr(r) for r in found[name].results.to_pylist() if r["kind"] == "final")
            for found in (plain, aside)
        ]
        assert finals[0] == finals[1]
        assert aside[name].status.balanced
