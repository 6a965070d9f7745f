"""Quality targets: how late rows are, which slack follows, what is delivered, and what is said."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.engine.entry import Entry
from lowwater.local.host import LocalEpochs
from lowwater.watermarks.adaptive import monitor
from lowwater.watermarks.adaptive.lateness import EDGES, LatenessHistogram, late_degrees
from lowwater.watermarks.adaptive.monitor import measure, measure_sources, source_lateness
from lowwater.watermarks.adaptive.policies import Quality
from lowwater.watermarks.adaptive.quality_book import total

SCHEMA = "ts timestamp, key bigint"
TIMES = st.lists(st.integers(0, 60), min_size=1, max_size=40)


def rows(seed, n=3_000, seconds=30, late=0.3, by=1_000_000, start=0):
    """Rows in arrival order: some are late, by up to `by` microseconds."""
    rng = np.random.default_rng(seed)
    clock = start + np.sort(rng.integers(0, seconds * 1_000_000, n))
    ticks = np.maximum(clock - rng.integers(0, by, n) * (rng.random(n) < late), 0)
    stamps = pa.array(ticks, pa.timestamp("us", "UTC"))
    return pa.table({"ts": stamps, "key": rng.integers(0, 4, n)})


def cut(table, pieces):
    ends = [i * len(table) // pieces for i in range(pieces + 1)]
    return [table.slice(a, b - a) for a, b in pairwise(ends)]


def streams(n, progress):
    feeds = [lw.feed(SCHEMA) for _ in range(n)]
    return feeds, [lw.stream(f, time="ts", watermark=progress) for f in feeds]


def ran(query, *tables, epochs=60, end=True):
    """Run a query on the local host, every table cut into so many epochs."""
    local = LocalEpochs(query.assembly.with_shards(2), lw.VirtualClock())
    pieces = [cut(t, epochs) for t in tables]
    for blocks in zip(*pieces, strict=True):
        local.run([[b] for b in blocks], last=[False] * len(tables))
    for _ in range(2 if end else 0):
        local.run([[] for _ in tables], last=[True] * len(tables))
    return local


# -- monitor ---------------------------------------------------------------------------------------


@given(TIMES, st.integers(1, 7), st.integers(0, 60))
def test_late_degrees_of_one_block_are_counted_as_they_are(times, granule, newest):
    ticks = np.array(times)
    degrees = late_degrees(ticks, newest)
    found = source_lateness([measure(ticks, degrees, granule)], {None: newest}, granule)
    assert found.degrees[None] == LatenessHistogram.of(degrees, granule)
    assert found.largest[None] == degrees.max()
    assert found.newest[None] == max(newest, *times)


@given(st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=2), min_size=1, max_size=12))
def test_blocks_that_were_read_side_by_side_are_late_by_the_blocks_before_them(blocks):
    """Each block knows its own rows only. Stretches of one row can be put right exactly."""
    told = [measure(np.array(b), late_degrees(np.array(b), None), 1) for b in blocks]
    found = source_lateness(told, {}, 1)
    everything = np.array([t for b in blocks for t in b])
    assert found.degrees[None] == LatenessHistogram.of(late_degrees(everything, None), 1)


@given(st.lists(TIMES, min_size=1, max_size=5), st.integers(1, 5))
def test_no_cut_into_blocks_hides_how_late_the_latest_row_is(blocks, granule):
    told = [measure(np.array(b), late_degrees(np.array(b), None), granule) for b in blocks]
    found = source_lateness(told, {}, granule)
    everything = late_degrees(np.array([t for b in blocks for t in b]), None)
    assert found.degrees[None].total == pytest.approx(len(everything))
    assert found.largest[None] >= everything.max()
    assert found.degrees[None].largest <= EDGES[-1]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), min_size=1, max_size=40))
def test_each_source_is_late_by_its_own_rows(pairs):
    codes, ticks = map(np.array, zip(*pairs, strict=True))
    names, codes = np.unique(codes, return_inverse=True)
    found = source_lateness([measure_sources(names.tolist(), codes, ticks, 1)], {}, 1)
    for at, name in enumerate(names.tolist()):
        mine = late_degrees(ticks[codes == at], None)
        assert found.degrees[name] == LatenessHistogram.of(mine, 1)


# -- tracker ---------------------------------------------------------------------------------------


def pairs_of(mine, other, low, high):
    """Count all pairs, as if no row were ever late."""
    count = 0
    for key in range(4):
        a, b = (
            np.sort(np.asarray(t["ts"].cast(pa.int64()))[np.asarray(t["key"]) == key])
            for t in (mine, other)
        )
        count += (np.searchsorted(b, a + high, "right") - np.searchsorted(b, a + low)).sum()
    return int(count)


ORDERS = st.sampled_from(["free", "time"])


@given(st.integers(0, 2**32), st.integers(2, 8), st.integers(0, 2), st.floats(0.3, 0.99), ORDERS)
def test_pairs_that_came_out_and_pairs_that_late_rows_lost_are_all_pairs(
    seed, epochs, gap, target, order
):
    tables = [rows(seed + i, n=80, seconds=6, by=2_500_000, start=i * gap * 10**6) for i in (0, 1)]
    _, (a, b) = streams(2, Quality(target=target, interval="3 seconds"))
    joined = a.join(b, on="key", band=("-300 ms", "500 ms"), order=order)
    local = ran(joined, *tables, epochs=epochs)
    (one,) = local.log.newest().adapting.pairs
    every = total(one.book.spans)
    assert every.given + every.lost == pairs_of(*tables, -300_000, 500_000)
    assert every.given == local.status().operators["join"]["results"]


@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(1, 4))
def test_rows_in_windows_and_rows_that_missed_them_are_all_there_should_be(seed, epochs, slides):
    table = rows(seed, n=200, seconds=8, by=3_000_000)
    (feed,), (stream,) = streams(1, lw.quality(0.6))
    windows = stream.window(range=f"{slides} seconds", slide="1 second").group_by("key")
    query = windows.agg(n=lw.count())
    local = ran(query, table, epochs=epochs)
    (one,) = local.log.newest().adapting.windows
    every = total(one.book.spans)
    assert every.given + every.lost == slides * len(table)
    out = query.run(epochs={feed: cut(table, epochs)}, host="local")
    assert every.given == sum(out.results["n"].to_pylist())


# -- adapter ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["free", "time", "before"])
def test_a_join_meets_its_target_and_makes_only_late_streams_wait(order):
    mine, other = rows(1, n=4_000, seconds=20), rows(2, n=4_000, seconds=20, late=0.0)
    band = ("-100 milliseconds", "100 milliseconds")
    _, (a, b) = streams(2, lw.quality(0.9))
    if order == "before":  # rows behind the marks of their own streams do not reach the join
        query = a.order().join(b.order(), on="key", band=band)
    else:
        query = a.join(b, on="key", band=band, order=order)
    local = ran(query, mine, other, epochs=70)
    told = local.status().quality["join"]
    results = local.status().operators["join"]["results"]
    assert results / pairs_of(mine, other, -100_000, 100_000) >= 0.9
    assert told.overall >= 0.9
    assert told.kind == ("estimated" if order == "before" else "measured")
    if order != "before":
        assert told.measured == told.overall == results / pairs_of(mine, other, -100_000, 100_000)
    if order == "free":
        assert told.slack["input 2"] == timedelta(0) < told.slack["input 1"]


def changing(seed):
    """Rows that are late by up to 0.1 s, from 8 s on by up to 1 s, from 17 s on by 0.1 s again."""
    spans = [(0, 8, 100_000), (8, 9, 1_000_000), (17, 6, 100_000)]
    parts = [
        rows(seed + begin, n=250 * long, seconds=long, by=by, start=begin * 10**6)
        for begin, long, by in spans
    ]
    return pa.concat_tables(parts)


@pytest.mark.parametrize("kind", ["free", "time"])
def test_when_rows_come_ten_times_as_late_the_target_is_met_again_within_two_seconds(kind):
    _, (a, b) = streams(2, lw.quality(0.95))
    query = a.join(b, on="key", band=("-50 ms", "50 ms"), order=kind)
    local = LocalEpochs(query.assembly.with_shards(2), lw.VirtualClock())
    made, lost, slack = {}, {}, {}
    for blocks in zip(*(cut(changing(seed), 115) for seed in (1, 2)), strict=True):
        local.run([[block] for block in blocks], last=[False] * 2)
        (known,) = local.log.newest().adapting.pairs
        second, every = known.rule.sides[0].newest // 10**6, total(known.book.spans)
        made[second], lost[second] = every.given, every.lost
        slack[second] = max(known.slacks)
    shares = {
        (since, until): (made[until] - made[since])
        / (made[until] - made[since] + lost[until] - lost[since])
        for since, until in [(7, 9), (10, 16)]
    }
    assert shares[7, 9] < 0.95, "the change should cost something"
    assert shares[10, 16] >= 0.95
    assert slack[7] < 100_000
    assert min(slack[t] for t in range(10, 16)) > 400_000
    assert slack[22] < slack[15]


def triples_of(a, b, c, reach, order):
    """Count the rows of three streams that belong together, as if none were ever late."""
    count = 0
    for key in range(4):
        x, y, z = (
            np.sort(np.asarray(t["ts"].cast(pa.int64()))[np.asarray(t["key"]) == key])
            for t in (a, b, c)
        )
        mine, theirs = np.nonzero(np.abs(y - x[:, None]) <= reach)
        at = x[mine] if order == "free" else np.maximum(x[mine], y[theirs])
        count += (np.searchsorted(z, at + reach, "right") - np.searchsorted(z, at - reach)).sum()
    return int(count)


@pytest.mark.parametrize("order", ["free", "time"])
def test_three_streams_meet_a_target_each_with_a_slack_of_its_own(order):
    """Rows of the first are late by up to 1 s, of the second by 0.3 s, of the third never."""
    lateness = [(0.3, 1_000_000), (0.3, 300_000), (0.0, 1)]
    tables = [
        rows(i, n=1_500, seconds=12, late=late, by=by) for i, (late, by) in enumerate(lateness)
    ]
    _, (a, b, c) = streams(3, lw.quality(0.9))
    words = {"on": "key", "band": ("-100 ms", "100 ms"), "order": order}
    local = ran(a.join(b, **words).join(c, **words), *tables, epochs=48)
    status = local.status()
    results = status.operators["join 2"]["results"]
    assert 1 >= results / triples_of(*tables, 100_000, order) >= 0.9
    first, second = status.quality["join"], status.quality["join 2"]
    assert min(first.overall, second.overall) >= 0.9
    assert first.kind == second.kind == "measured"
    assert first.slack.keys() == {"input 1", "input 2"}
    assert second.slack.keys() == {"input 1", "input 2", "input 3"}
    if order == "free":
        assert first.slack["input 1"] > first.slack["input 2"]
        assert second.slack["input 3"] == timedelta(0)


def test_a_controller_chooses_once_in_an_interval():
    _, (a,) = streams(1, lw.pd_controller(0.9))
    query = a.window(range="200 ms").agg(n=lw.count())
    local = LocalEpochs(query.assembly.with_shards(1), lw.VirtualClock())
    chosen = {}
    for block in cut(rows(1, n=3_000, seconds=12), 120):
        local.run([[block]], last=[False])
        (one,) = local.log.newest().adapting.decisions
        chosen.setdefault(one.interval, set()).add(one.slacks)
    assert max(map(len, chosen.values())) == 1


def test_an_interval_in_which_no_window_ended_is_not_judged():
    table = rows(7, n=4_000, seconds=40, by=9_000_000)
    _, (stream,) = streams(1, lw.pd_controller(0.6))
    query = stream.window(range="5 seconds").agg(n=lw.count())
    told = ran(query, table, epochs=120, end=False).status().quality["window"]
    measured = [i.measured for i in told.intervals]
    assert None in measured
    assert 0.0 not in measured
    assert any(m is not None and m < 1 for m in measured)


def test_rows_in_order_are_counted_the_short_way_as_the_long_way(monkeypatch):
    late = rows(8, n=1_000, seconds=10, start=10_000_000)
    table = pa.concat_tables([rows(9, n=1_000, seconds=10, late=0.0), late])
    known = []
    for short in (monitor.all_in_order, lambda *_: None):
        monkeypatch.setattr(monitor, "all_in_order", short)
        _, (stream,) = streams(1, lw.pd_controller(0.9))
        local = ran(stream.window(range="1 second").agg(n=lw.count()), table, end=False)
        known.append(local.log.newest().adapting)
    assert known[0] == known[1]


def test_the_largest_late_degree_is_the_slack():
    table = rows(3)
    _, (stream,) = streams(1, lw.adaptive())
    local = ran(stream.window(range="1 second").agg(n=lw.count()), table, end=False)
    ticks = np.asarray(table["ts"].cast(pa.int64()))
    largest = int(late_degrees(ticks, None).max())
    assert local.status().quality["input 1"].slack["input 1"] == timedelta(microseconds=largest)
    reached = local.log.newest().standing.inputs[0]
    assert reached.marks.low == ticks.max() - largest


def test_each_source_has_a_slack_of_its_own():
    """Rows of source 0 are never late, those of source 3 by up to 3 s."""
    table = rows(4, n=8_000, late=0.0)
    rng = np.random.default_rng(5)
    ticks, keys = np.asarray(table["ts"].cast(pa.int64())), np.asarray(table["key"])
    ticks = np.maximum(ticks - rng.integers(0, 1_000_000, len(ticks)) * keys, 0)
    table = table.set_column(0, "ts", pa.array(ticks, pa.timestamp("us", "UTC")))
    _, (stream,) = streams(1, lw.quality(0.9, by="key"))
    query = stream.window(range="500 ms").group_by("key").agg(n=lw.count())
    local = ran(query, table, epochs=70, end=False)
    told = local.status().quality["window"]
    waits = [told.sources[k] for k in range(4)]
    assert waits == sorted(waits)
    assert waits[0] == timedelta(0)
    assert waits[3] > timedelta(seconds=1)
    assert told.of_sources[0] == 1.0 > told.of_sources[3] >= 0.9


def test_what_is_known_of_late_rows_survives_the_log():
    """An entry that was written and read decides the rest as the one in memory does."""
    table = rows(7)
    outcomes = []
    for restored in (False, True):
        _, (a, b) = streams(2, lw.quality(0.9, by="key"))
        query = a.join(b, on="key", band=("-100 ms", "100 ms"))
        local = LocalEpochs(query.assembly.with_shards(2), lw.VirtualClock())
        for number, block in enumerate(cut(table, 20)):
            local.run([[block], [block]], last=[False, False])
            if restored and number == 11:
                kept = Entry.from_bytes(local.log.newest().to_bytes())
                local.log._entries[kept.epoch] = kept
        outcomes.append(local.log.newest().to_bytes())
    assert outcomes[0] == outcomes[1]


# -- what is said ----------------------------------------------------------------------------------


def windowed(progress, **window):
    _, (stream,) = streams(1, progress)
    return stream.window(**(window or {"range": "1 second"})).agg(n=lw.count())


def joined(progress, **how):
    _, (a, b) = streams(2, progress)
    return a.join(b, on="key", band=("0 seconds", "1 second"), **how)


def test_a_query_says_what_its_target_means():
    text = windowed(lw.quality(0.95)).explain()
    assert "at least 0.95 of rows in time for their windows, over 500 windows" in text
    assert "slack is chosen after every epoch" in text
    text = windowed(lw.pd_controller(0.95)).explain()
    assert "at least 0.95: rows in windows" in text
    assert "chosen every 1 second or, if longer, epoch" in text
    assert "finds the other evicted" in joined(None, quality=0.95).explain()
    assert "when its time is passed" in joined(None, quality=0.95, order="time").explain()
    text = windowed(lw.quality(error=0.01)).explain()
    assert "at least 0.95 of results with at most 0.01 error, by the values of n" in text
    text = windowed(lw.quality(0.9, by_window=True, share=0.8)).explain()
    assert "at least 0.8 of results with at most 0.1 of their rows missing" in text


def test_an_epoch_that_is_longer_than_a_track_is_said():
    local = ran(windowed(lw.pd_controller(0.9)), rows(8), epochs=5, end=False)
    told = local.status().quality["window"]
    assert any("'1 second' is shorter than an epoch" in w for w in told.warnings)
    calm = ran(windowed(lw.pd_controller(0.9)), rows(8), epochs=60, end=False)
    assert calm.status().quality["window"].warnings == ()


def test_streams_that_never_meet_are_said():
    tables = rows(9, n=100), rows(10, n=100, start=10**9)
    told = ran(joined(None, quality=0.9), *tables, epochs=5, end=False).status().quality["join"]
    assert any("not overlapped in time" in w for w in told.warnings)
    assert told.measured is None
    met = ran(joined(None, quality=0.9), tables[0], tables[0], epochs=5, end=False)
    assert not any("overlapped" in w for w in met.status().quality["join"].warnings)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: lw.quality(0), "quality=0 must be a number above 0 and at most 1"),
        (lambda: lw.quality(1.01), "quality=1.01"),
        (lw.quality, "needs either a target"),
        (lambda: lw.quality(0.9, error=0.1), "needs either a target"),
        (lambda: lw.quality(error=0), "error=0 must be"),
        (lambda: lw.quality(error=-1), "error=-1 must be"),
        (lambda: lw.quality(error=0.1, by_window=True), "applies to each result anyway"),
        (lambda: joined(lw.quality(0.9, by_window=True)), "bounds the values of windows"),
        (lambda: lw.quality(error=0.1, share=1.5), "share=1.5"),
        (lambda: lw.pd_controller(2), "target=2 must be"),
        (
            lambda: windowed(lw.pd_controller(0.9, interval="0 seconds")),
            "interval='0 seconds'",
        ),
        (
            lambda: windowed(lw.pd_controller(0.9, granularity="-1 ms")),
            "granularity='-1 ms'",
        ),
        (
            lambda: windowed(lw.pd_controller(0.9, proportional="-1 second")),
            "proportional='-1 second'",
        ),
        (lambda: windowed(lw.quality(0.9), range=lw.rows(3)), "fixed range and slide"),
        (lambda: windowed(lw.quality(0.9), gap="1 second"), "fixed range and slide"),
        (lambda: windowed(lw.quality(0.9, by="none")), "none"),
        (lambda: joined(lw.quality(error=0.1)), "bounds the values of windows"),
        (lambda: joined(lw.slack("1 second"), quality=0.9), "leave watermark= out"),
        (lambda: joined(None, quality=2), "quality=2"),
        (lambda: joined(None, quality="much"), "quality='much'"),
        (lambda: joined(None).explain(), "watermark= is missing"),
        (lambda: streams(1, lw.quality(0.9))[1][0].distinct().explain(), "neither windows nor"),
    ],
)
def test_a_target_that_cannot_be_held_is_refused_when_the_query_is_built(build, told):
    with pytest.raises(lw.SpecError, match=told):
        build()


@pytest.mark.parametrize("option", ["track", "interval", "granularity", "decay", "overall"])
def test_options_that_the_policy_learns_have_gone(option):
    with pytest.raises(
        TypeError, match=rf"quality\({option}=...\) has gone: .*leave {option}= out"
    ):
        lw.quality(0.9, **{option: 1})


def test_the_page_says_what_runs():
    """Every block of docs/quality.md runs, in order."""
    page = (Path(__file__).parents[2] / "docs" / "quality.md").read_text(encoding="utf-8")
    first, second = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    schema = "ts timestamp, segment bigint, speed double"
    names = {"feed": lw.feed(schema), "other": lw.feed(schema)}
    exec(first, names)  # noqa: S102
    for query in ("speeds", "totals", "pairs"):
        assert "quality     at least 0.95" in names[query].explain()
    table = rows(11).rename_columns(["ts", "segment"])
    speed = pa.array(np.ones(len(table)))
    names |= {"query": names["speeds"], "epochs": cut(table.append_column("speed", speed), 10)}
    exec(second, names)  # noqa: S102
    assert names["quality"].kind == "measured"
