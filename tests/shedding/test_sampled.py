"""Sampled rows: a share of the rows of a pane is read, and sums are weighted by its inverse.

panes      |---0---|---1---|---2---|---3---|
one in         1       2       1       2         fixed before the pane begins, and logged
rows        x x x x  x . . x x x x x . x x .     . is chosen by a hash of its place, and shed
count          4     2·2=4     4     2·2=4       unbiased, whatever the rows are
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowwater as lw
from experiments.streams.overload import Prices, live
from lowwater.engine.clock import SystemClock
from lowwater.engine.entry import Entry
from lowwater.engine.log import MemoryLog
from lowwater.local.host import LocalEpochs
from lowwater.operators.packet import tables
from lowwater.planner.shedding import shedding
from lowwater.shedding.sample import POWERS, power
from lowwater.ticks import TICKS_PER_SECOND as SECOND

SCHEMA = "t bigint, k int, v int"
SLACK = 4
WORD = 2**64 - 1


def mixed(number):
    """Return a hash of a whole number (splitmix64), digit by digit."""
    number = (number + 0x9E3779B97F4A7C15) & WORD
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & WORD
    return number ^ (number >> 31)


def weight_of(plan, t, seq, place):
    """Return the weight of a row under a drop plan; 0 if the row is left out."""
    for one in plan.samples:
        if one.start <= t < one.end:
            hashed = mixed(place ^ mixed(seq ^ mixed(plan.salt)))
            chosen = hashed >> (64 - POWERS) < 2 ** (POWERS - one.power)
            return 2**one.power if chosen else 0
    return 1


def rate_at(plans, t):
    """Return the inverse of the rate at a time, which no plan changes for a fixed share."""
    known = (one for plan in plans for one in plan.samples)
    return max((2**one.power for one in known if one.start <= t < one.end), default=1)


def windows_of(t, size, slide):
    return range((t - size) // slide + 1, t // slide + 1)


class Forgetful(MemoryLog):
    """Keeps entries as they are written to a disk."""

    def read(self, epoch):
        kept = super().read(epoch)
        return None if kept is None else Entry.from_bytes(kept.to_bytes())


def ran(query, feed, epochs, how, log=None, before=None, *, ends=True):
    """Run epochs one by one; return (results, drop plans in force by epoch, the runner).

    If the stream `ends`, it does so with the last epoch, and one more closes all windows.
    """
    runner = LocalEpochs(shedding(query.assembly, how), SystemClock())
    log = log or MemoryLog()
    runner.log = runner.controller.log = log
    runner.controller.begin(0)
    if before is not None:
        runner.state, runner.epoch = before.state, before.epoch
    results, plans = [], []
    more = [[]] if ends else []
    for n, rows in enumerate([*epochs, *more]):
        plans.append(log.before(runner.epoch).standing.dropped)
        packets = runner.run([[feed.table(rows)]], last=[ends and n >= len(epochs) - 1])
        results += [row for table in tables(packets, "results") for row in table.to_pylist()]
    return results, plans, runner


def rows_of(drawn):
    at, rows = 0, []
    for step, back, key, value in drawn:
        at += step
        rows.append((max(0, at - min(back, SLACK)), key, value))
    return rows


ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 2), st.integers(-9, 9)),
    min_size=60,
    max_size=150,
).map(rows_of)


@settings(deadline=None, max_examples=30)
@given(
    rows=ROWS,
    size=st.integers(1, 12),
    slide=st.integers(1, 12),
    share=st.floats(0.05, 0.95),
    cut=st.integers(5, 12),
    seed=st.integers(0, 9),
)
def test_results_are_the_weighted_sums_over_the_rows_that_the_hash_chooses(
    rows, size, slide, share, cut, seed
):
    slide = min(slide, size)
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.slack(SLACK))
    windows = stream.where("v > -9").window(range=size, slide=slide).group_by("k")
    query = windows.agg(n=lw.count(), s=lw.sum("v"), a=lw.avg("v"))
    epochs = [rows[i : i + cut] for i in range(0, len(rows), cut)]
    how = lw.shed(share=share, kind="sampled", seed=seed)
    found, plans, runner = ran(query, feed, epochs, how)

    counted, weighted, summed = (defaultdict(int) for _ in range(3))
    shed = 0
    for plan, block in zip(plans, [*epochs, []], strict=True):
        for place, (t, k, v) in enumerate(block):
            weight = weight_of(plan, t, 0, place)
            shed += not weight
            for wid in windows_of(t, size, slide) if v > -9 and weight else ():
                counted[wid, k] += 1
                weighted[wid, k] += weight
                summed[wid, k] += weight * v
    assert {(r["wid"], r["k"]): (r["n"], r["s"]) for r in found} == {
        cell: (weighted[cell], summed[cell]) for cell in counted
    }
    for row in found:
        cell = row["wid"], row["k"]
        share = counted[cell] / weighted[cell]
        if share == 1:  # a sampled pane of which no row was read may have had rows
            start = row["wid"] * slide
            share = np.mean([1 / rate_at(plans, t) for t in range(start, start + size)])
        assert row["sampled"] == pytest.approx(share)
        assert row["a"] == pytest.approx(summed[cell] / weighted[cell])
    assert runner.status()["shed"] == shed
    assert runner.status().balanced


def test_the_rate_of_a_pane_is_fixed_before_its_first_row_comes():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.slack(SLACK))
    query = stream.window(range=10, slide=5).agg(n=lw.count())
    epochs = [
        [(t + n % 3, 0, 1) for t in range(at, at + 25)] for n, at in enumerate(range(0, 800, 25))
    ]
    _, plans, _ = ran(query, feed, epochs, lw.shed(share=0.6, kind="sampled"))
    known = {}
    for plan, block in zip(plans, [*epochs, []], strict=True):
        rates = {s: one.power for one in plan.samples for s in range(one.start, one.end)}
        for t, *_ in block:
            assert known.setdefault(t // 5, rates.get(t, 0)) == rates.get(t, 0)
    assert {1, 2} <= set(known.values())


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8, 0.97])
def test_the_slots_together_read_the_share_that_is_asked_for(share):
    read = [2.0 ** -power(1 - share, slot, 3) for slot in range(2_000)]
    assert np.mean(read) == pytest.approx(1 - share, abs=0.005)


def test_sums_and_counts_are_unbiased():
    """Each of 100 seeds estimates the same sums; their mean is within four standard errors."""
    feed = lw.feed("t bigint, k int, x double")
    stream = lw.stream(feed, time="t", watermark=lw.ordered())
    query = stream.window(range=20).agg(n=lw.count(), s=lw.sum("x"))
    random = np.random.default_rng(5)
    rows = [(t // 4, 0, float(x)) for t, x in enumerate(random.lognormal(1, 1, 480))]
    epochs = {feed: [rows[i : i + 48] for i in range(0, len(rows), 48)]}
    exact = {r["wid"]: r for r in query.run(epochs=epochs).results.to_pylist()}
    found = defaultdict(lambda: defaultdict(list))
    for seed in range(100):
        out = query.run(epochs=epochs, shed=lw.shed(share=0.55, kind="sampled", seed=seed))
        for row in out.results.to_pylist():
            for name in ("n", "s"):
                found[row["wid"]][name].append(row[name])
    sampled = 0
    for wid, each in found.items():
        for name, values in each.items():
            error = np.std(values) / np.sqrt(len(values))
            sampled += error > 0
            assert abs(np.mean(values) - exact[wid][name]) <= 4 * error + 1e-9
    assert sampled >= 6


def test_early_results_are_estimates_too_and_late_rows_are_judged_as_ever():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.slack(7))
    query = stream.window(range=40, slide=20).agg(n=lw.count())
    rows = [(t // 5, 0, 0) for t in range(4_000)]
    epochs = {feed: [*(rows[i : i + 100] for i in range(0, 4_000, 100)), [(5, 0, 0)]]}
    how = lw.shed(share=0.5, kind="sampled")
    out = query.run(
        epochs=epochs, early=lw.early_every("1 second"), shed=how, clock=lw.VirtualClock()
    )
    found = out.results.to_pylist()
    early = [r for r in found if r["kind"] == "early"]
    assert early
    assert all(0 < r["sampled"] <= 1 for r in found)
    full = [r["n"] for r in found if r["kind"] == "final" and 0 < r["wid"] < 38]
    assert np.mean(full) == pytest.approx(200, rel=0.05)
    assert out.late.column("t").to_pylist() == [5]
    assert len(out.dropped) == 0


# -- the log ---------------------------------------------------------------------------------------


def test_a_restart_reads_the_same_rows():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.slack(SLACK))
    query = stream.window(range=10, slide=5).group_by("k").agg(n=lw.count(), s=lw.sum("v"))
    epochs = [[(t, t % 2, t) for t in range(at, at + 25)] for at in range(0, 600, 25)]
    how = lw.shed(share=0.5, kind="sampled")
    whole = ran(query, feed, epochs, how, ends=False)
    log, runner, results = Forgetful(), None, []
    for block in epochs:
        again, _, runner = ran(query, feed, [block], how, log, runner, ends=False)
        results += again
    assert len(results) > 100
    assert results == whole[0]


@pytest.mark.parametrize(("one", "other"), [("windows", "sampled"), ("sampled", "windows")])
def test_a_run_that_goes_on_with_the_other_kind_lists_and_weighs_what_has_begun(one, other):
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.slack(SLACK))
    query = stream.window(range=10).agg(n=lw.count())
    epochs = [[(t // 2, 0, 1) for t in range(at, at + 50)] for at in range(0, 1_200, 50)]
    log, runner, results, news = Forgetful(), None, [], set()
    for n, block in enumerate(epochs):
        how = lw.shed(share=0.5, max_gap=4, kind=one if n < 12 else other)
        again, _, runner = ran(query, feed, [block], how, log, runner, ends=False)
        results += again
        entry = log.before(runner.epoch)
        news |= {wid for s in entry.shed.news for wid in range(s.start // 10, s.end // 10)}
    emitted = {r["wid"] for r in results}
    assert not emitted & news
    assert set(range(50)) <= emitted | news
    assert news
    assert all(r["n"] == 20 for r in results if r.get("sampled", 1.0) == 1.0 and one == "windows")


# -- under load ------------------------------------------------------------------------------------

PRICES = Prices(epoch=200_000, row=5_000.0, shed=20.0)
BOUND = lw.shed(latency="5 seconds", kind="sampled")


def lived(*stretches, shed=BOUND):
    """Run so many seconds at so many rows a second, one stretch after the other."""
    arrivals, start = [], 0
    for seconds, rate in stretches:
        arrivals.append(start + (np.arange(seconds * rate) + 0.5) / rate * SECOND)
        start += seconds * SECOND
    feed = lw.feed("ts timestamp")
    stream = lw.stream(feed, time="ts", watermark=lw.ordered())
    query = stream.window(range="250 milliseconds").agg(n=lw.count())
    every = np.concatenate(arrivals).astype(np.int64)
    return live(query, every, PRICES, shed, until=start)


@pytest.mark.parametrize("load", [2, 5])
def test_under_load_results_stay_young_and_no_window_is_missing(load):
    found = lived((10, 100), (30, 200 * load))
    assert found.ages.max() < 5
    ends = sorted(set(found.ends))
    assert {b - a for a, b in pairwise(ends)} == {SECOND // 4}
    busy = [n for n, at in enumerate(found.at) if at > 15 * SECOND]
    kept = 1 - sum(found.shed[n] for n in busy) / sum(found.rows[n] for n in busy)
    allowed = (1 - PRICES.epoch / np.mean([found.length[n] for n in busy])) / load
    assert kept == pytest.approx(allowed, rel=0.15)


def test_a_stream_that_the_machine_can_keep_up_with_is_read_as_a_whole():
    assert sum(lived((20, 150)).shed) == 0


# -- refused ---------------------------------------------------------------------------------------


def refused(query):
    with pytest.raises(lw.SpecError) as error:
        query.explain(shed=lw.shed(share=0.3, kind="sampled"))
    assert "kind='sampled'" in str(error.value)
    return str(error.value)


def test_what_cannot_be_estimated_by_weights_is_refused():
    stream = lw.stream(lw.feed(SCHEMA), time="t", watermark=lw.slack(3))
    windows = stream.window(range=4).group_by("k")
    assert "of 'm': results are estimated" in refused(windows.agg(n=lw.count(), m=lw.max("v")))
    assert "of 'd': results are estimated" in refused(windows.agg(d=lw.count_distinct("v")))
    above = windows.agg(n=lw.count()).window(range=8).agg(n=lw.sum("n"))
    assert "put the windows on the stream itself" in refused(above)
    joined = stream.join(stream, on="k", band=(-1, 1), time="max").window(range=4)
    assert "put the windows on the stream itself" in refused(joined.agg(n=lw.count()))


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"fair_by": "k"}, "fair_by='k'"),
        ({"memory": "1 GB"}, "memory=1"),
        ({"fill": "linear"}, "fill"),
    ],
)
def test_options_of_dropped_windows_are_refused(more, name):
    with pytest.raises(lw.SpecError, match=name):
        lw.shed(latency="5 seconds", kind="sampled", **more)
    with pytest.raises(lw.SpecError, match="kind='rows'"):
        lw.shed(latency="5 seconds", kind="rows")


def test_explain_and_the_results_name_the_share_that_is_read():
    stream = lw.stream(lw.feed(SCHEMA), time="t", watermark=lw.slack(3))
    query = stream.window(range=4).agg(n=lw.count()).where("n > 0").select("window", "n")
    text = query.explain(shed=lw.shed(share=0.3, kind="sampled"))
    assert "shed        rows: a share of 0.3; at least one in 64 is read" in text
    feed = query.assembly.sources[0]
    out = query.run(
        epochs={feed: [[(t, 0, 0) for t in range(40)]]}, shed=lw.shed(share=0.3, kind="sampled")
    )
    assert out.results.column_names == ["window", "n", "sampled"]
