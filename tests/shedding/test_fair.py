"""Fair shares: windows are dropped by class of a key, and classes that ask for little lose nothing.

share      0.5 of 100 rows           equal part of the 50 rows that are left
class a    ##########                10: less than an equal part, nothing is dropped
class b    ##########                10: nothing is dropped
class c    ##############...         80: keeps 30, so 5 of 8 windows are dropped
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowwater as lw
from experiments.streams.overload import Prices, live
from lowwater.control.measures import Measures
from lowwater.engine.clock import SystemClock
from lowwater.engine.entry import Entry
from lowwater.engine.log import MemoryLog
from lowwater.local.host import LocalEpochs
from lowwater.operators.packet import tables
from lowwater.planner.shedding import shedding
from lowwater.shedding.fair import fair_shares
from lowwater.ticks import TICKS_PER_SECOND as SECOND

pytestmark = pytest.mark.filterwarnings("ignore::lowwater.ShedWarning")
SCHEMA = "t bigint, k string, v int"
KEYS = ("hog", "hen", "ant", "bee", "cat", None)


# -- the shares ------------------------------------------------------------------------------------


def filled(rows, share, largest):
    """Return what each class keeps: all classes grow alike until the room is used up."""
    kept = {n: (1 - largest) * count for n, count in rows.items()}
    room = (1 - share) * sum(rows.values()) - sum(kept.values())
    step = sum(rows.values()) / 200_000
    while room > 0:
        low = min((kept[n] for n in rows if kept[n] < rows[n]), default=None)
        if low is None:
            break
        for n in rows:
            if kept[n] < rows[n] and kept[n] <= low:
                grown = min(rows[n], kept[n] + step) - kept[n]
                kept[n] += grown
                room -= grown
    return kept


@settings(max_examples=20, deadline=None)
@given(
    rows=st.dictionaries(st.integers(0, 63), st.integers(1, 900), min_size=1, max_size=5),
    share=st.floats(0, 0.8),
    largest=st.sampled_from([0.8, 0.9, 1.0]),
)
def test_what_classes_keep_is_as_equal_as_what_they_ask_for_allows(rows, share, largest):
    lost = fair_shares(rows, share, largest)
    kept = filled(rows, share, largest)
    for n, count in rows.items():
        assert (1 - lost.get(n, 0.0)) * count == pytest.approx(
            kept[n], abs=1e-4 * sum(rows.values())
        )
    assert sum(lost.get(n, 0.0) * count for n, count in rows.items()) == pytest.approx(
        share * sum(rows.values()), abs=1e-5 * sum(rows.values())
    )


# -- results ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Windows over windows, grouped by `k`: (range, slide) of each level, the lowest first."""

    levels: list[tuple[int, int]]
    renamed: bool

    def query(self, stream):
        at = stream.where("v >= 0").with_columns(w="v + 1")
        at = at.select("t", "v", "w", k="k") if self.renamed else at
        for depth, (size, slide) in enumerate(self.levels):
            windowed = at.window(range=size, slide=slide).group_by("k")
            at = windowed.agg(s=lw.sum("s" if depth else "w"), n=lw.count())
        return at

    def reached(self, t):
        """Return the windows of the last level that a row at `t` counts in."""
        times = [t]
        for size, slide in self.levels:
            wids = {w for at in times for w in range((at - size) // slide + 1, at // slide + 1)}
            times = [w * slide + size - 1 for w in wids]
        return wids


def rows_of(drawn):
    at, rows = 0, []
    for step, back, key, value in drawn:
        at += step
        rows.append((max(0, at - back), KEYS[key] if key < len(KEYS) else "hog", value))
    return rows


def rounded(size):
    """Return a range and a slide without gaps between windows."""
    return size[0], min(size)


PLANS = st.builds(
    Plan,
    st.lists(
        st.tuples(st.integers(1, 12), st.integers(1, 12)).map(rounded), min_size=1, max_size=2
    ),
    st.booleans(),
)
ROWS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 12), st.integers(-1, 9)),
    min_size=40,
    max_size=80,
).map(rows_of)


def cut(rows, size):
    return [rows[i : i + size] for i in range(0, len(rows), size)]


def cells_of(table):
    return {(r["wid"], lw.fair_class(r["k"]), r["k"]): r for r in table.to_pylist()}


@settings(deadline=None)
@given(
    plan=PLANS,
    rows=ROWS,
    gap=st.integers(2, 40),
    share=st.floats(0.05, 0.6),
    slack=st.integers(0, 8),
    size=st.integers(5, 12),
    shards=st.integers(1, 3),
)
def test_what_is_kept_is_exact_and_with_what_is_listed_it_is_everything(
    plan, rows, gap, share, slack, size, shards
):
    feed = lw.feed(SCHEMA)
    query = plan.query(lw.stream(feed, time="t", watermark=lw.slack(slack)))
    epochs = {feed: cut(rows, size)}
    how = lw.shed(max_gap=gap, share=share, fair_by="k")
    found = query.run(epochs=epochs, shed=how, shards=shards)
    exact = query.run(epochs=epochs, shards=shards)
    gone = {(r["wid"], r["class"]) for r in found.dropped.to_pylist()}
    assert len(gone) == len(found.dropped)
    kept, whole = cells_of(found.results), cells_of(exact.results)
    assert all(whole[cell] == row for cell, row in kept.items())
    assert not {cell[:2] for cell in kept} & gone
    assert {cell[:2] for cell in whole} - {cell[:2] for cell in kept} <= gone
    assert all(cell in kept for cell in whole if cell[:2] not in gone)
    assert found.status.balanced
    unread = sum({(wid, lw.fair_class(k)) for wid in plan.reached(t)} <= gone for t, k, _ in rows)
    assert found.status["shed"] == unread


def test_named_windows_are_dropped_by_class_on_common_panes():
    feed = lw.feed(SCHEMA)
    windows = lw.windows(short=(6, 3), long=(12, 6))
    stream = lw.stream(feed, time="t", watermark=lw.slack(2))
    query = stream.window(windows).group_by("k").agg(s=lw.sum("v"))
    epochs = {feed: cut([(t, KEYS[t % 5 if t % 3 else 0], t) for t in range(400)], 12)}
    found = query.run(epochs=epochs, shed=lw.shed(max_gap=12, share=0.4, fair_by="k"))
    exact = query.run(epochs=epochs)

    def cells(out):
        rows = out.results.to_pylist()
        return {(r["window_name"], r["wid"], lw.fair_class(r["k"]), r["k"]): r for r in rows}

    gone = {(r["window_name"], r["wid"], r["class"]) for r in found.dropped.to_pylist()}
    assert cells(found) == {c: r for c, r in cells(exact).items() if c[:3] not in gone}
    assert gone
    assert found.status["shed"] > 0


def test_a_late_row_of_a_dropped_window_is_shed_and_one_of_another_class_is_late():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.ordered())
    query = stream.window(range=10).group_by("k").agg(n=lw.count())
    ordered = cut([(t, "hog" if t % 5 else "hen", 0) for t in range(400)], 20)
    how = lw.shed(max_gap=4, share=0.4, fair_by="k")
    first = query.run(epochs={feed: ordered}, shed=how)
    gone = first.dropped.column("wid").to_pylist()
    assert set(first.dropped.column("class").to_pylist()) == {lw.fair_class("hog")}
    late = [(10 * wid, key, 0) for wid in gone[-6:-2] for key in ("hog", "hen")]
    out = query.run(epochs={feed: [*ordered, late]}, shed=how)
    assert out.late.column("k").to_pylist() == ["hen"] * 4
    assert out.status["shed"] == first.status["shed"] + 4


def test_early_and_final_results_of_other_classes_are_those_of_the_undisturbed_run():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.slack(7))
    query = stream.window(range=10, slide=5).group_by("k").agg(n=lw.count())
    epochs = {feed: cut([(t, "hog" if t % 5 else "hen", 0) for t in range(400)], 7)}

    def ran(shed):
        out = query.run(
            epochs=epochs,
            early=lw.early_every("1 second"),
            estimate="raw",
            shed=shed,
            clock=lw.VirtualClock(),
        )
        return [r for r in out.results.to_pylist() if r["k"] == "hen"], out

    hens, found = ran(lw.shed(max_gap=9, share=0.4, fair_by="k"))
    undisturbed, _ = ran(None)
    values = [[{c: r[c] for c in ("wid", "n", "kind")} for r in one] for one in (hens, undisturbed)]
    assert values[0] == values[1]
    assert {r["kind"] for r in hens} == {"early", "final"}
    gone = {r["wid"] for r in found.dropped.to_pylist()}
    assert gone
    assert not gone & {r["wid"] for r in found.results.to_pylist() if r["k"] == "hog"}


# -- the log ---------------------------------------------------------------------------------------


class Forgetful(MemoryLog):
    """Keeps entries as they are written to a disk."""

    def read(self, epoch):
        kept = super().read(epoch)
        return None if kept is None else Entry.from_bytes(kept.to_bytes())


def restarted(query, feed, rows, keys, *, often):
    """Run epochs of `rows`, each with its key of `keys`; return all results and the drop plans.

    The run restarts if the key changes; with `often`, before each epoch, from what the log says.
    """
    log, results = Forgetful() if often else MemoryLog(), []
    epochs, last = None, None
    for block, key in zip(rows, keys, strict=True):
        if epochs is None or key != last or often:
            how = lw.shed(max_gap=3, share=0.4, fair_by=key)
            state, number = (None, 0) if epochs is None else (epochs.state, epochs.epoch)
            epochs = LocalEpochs(shedding(query.assembly, how), SystemClock())
            epochs.log = epochs.controller.log = log
            epochs.controller.begin(0)
            epochs.state, epochs.epoch = state or epochs.state, number
        for table in tables(epochs.run([[feed.table(block)]], last=[False]), "results"):
            results += table.to_pylist()
        entry = log.read(epochs.epoch - 1)
        assert epochs.controller.decide(epochs.epoch - 1, Measures(), 99) == entry
        last = key
    return results, [log.before(n).standing.dropped for n in range(1, len(rows))]


@pytest.mark.parametrize("then", ["k", None, "j"])
def test_a_restart_drops_what_the_log_has_and_decides_the_same(then):
    """With another key, or none, from the middle on: what has begun stays dropped."""
    feed = lw.feed("t bigint, k string, j string")
    stream = lw.stream(feed, time="t", watermark=lw.slack(3))
    query = stream.window(range=4).group_by("k", "j").agg(n=lw.count())
    rows = cut([(t, "hog" if t % 5 else "hen", "fox" if t % 3 else "cat") for t in range(600)], 25)
    keys = ["k" if n < 12 else then for n in range(len(rows))]
    results, plans = restarted(query, feed, rows, keys, often=False)
    again, same = restarted(query, feed, rows, keys, often=True)
    assert plans == same
    assert results == again
    exact = query.run(epochs={feed: rows}).results.to_pylist()
    assert all(row in exact for row in results)
    assert {one.column for plan in plans for one in plan.classes} == {"k", then} - {None}
    assert bool(plans[-1].intervals) == (then is None)
    ended = [r for r in exact if r["window"]["end"] <= 590]
    assert len(results) < len(ended)


# -- shares under load -----------------------------------------------------------------------------


def test_under_load_the_tenant_that_asks_for_most_loses_and_results_stay_young():
    """The machine can do 200 rows a second; hog sends 400 a second, hen and ant 20 each."""
    keys = np.array(["hog"] * 20 + ["hen", "ant"])
    arrivals = ((np.arange(40 * 440) + 0.5) / 440 * SECOND).astype(np.int64)
    column = keys[np.arange(len(arrivals)) % len(keys)]
    feed = lw.feed("ts timestamp, k string")
    stream = lw.stream(feed, time="ts", watermark=lw.ordered())
    query = stream.window(range="250 milliseconds").group_by("k").agg(n=lw.count())
    how = lw.shed(latency="5 seconds", gives="max_gap", fair_by="k")
    prices = Prices(epoch=200_000, row=5_000.0, shed=20.0)
    found = live(query, arrivals, prices, how, until=40 * SECOND, keys=column)
    late = found.ages[np.array(found.ends) > 15 * SECOND]
    assert late.max() < 5
    lost = Counter(found.lost)
    assert set(lost) == {"hog"}
    busy = [n for n, at in enumerate(found.at) if at > 20 * SECOND]
    kept = 1 - sum(found.shed[n] for n in busy) / sum(found.rows[n] for n in busy)
    length = np.mean([found.length[n] for n in busy])
    assert kept == pytest.approx((1 - prices.epoch / length) / 2.2, rel=0.15)


def test_below_the_load_no_class_loses_a_window():
    arrivals = ((np.arange(20 * 100) + 0.5) / 100 * SECOND).astype(np.int64)
    feed = lw.feed("ts timestamp, k string")
    stream = lw.stream(feed, time="ts", watermark=lw.ordered())
    query = stream.window(range="250 milliseconds").group_by("k").agg(n=lw.count())
    how = lw.shed(latency="5 seconds", fair_by="k")
    prices = Prices(epoch=200_000, row=5_000.0, shed=20.0)
    keys = np.array(["hog", "hog", "hen"])[np.arange(len(arrivals)) % 3]
    found = live(query, arrivals, prices, how, until=20 * SECOND, keys=keys)
    assert sum(found.shed) == 0


# -- refused ---------------------------------------------------------------------------------------


def refused(query, key="k"):
    with pytest.raises(lw.SpecError) as error:
        query.explain(shed=lw.shed(share=0.3, max_gap=5, fair_by=key))
    assert f"fair_by={key!r}" in str(error.value)
    return str(error.value)


def test_a_key_that_a_row_does_not_have_when_it_comes_in_is_refused():
    stream = lw.stream(lw.feed(SCHEMA), time="t", watermark=lw.slack(3))
    assert "add group_by('k')" in refused(stream.window(range=4).agg(n=lw.count()))
    computed = stream.with_columns(k="upper(k)").window(range=4).group_by("k").agg(n=lw.count())
    assert "name a column of the stream itself" in refused(computed)
    above = stream.window(range=4).group_by("k").agg(n=lw.count())
    assert "add group_by('k')" in refused(above.window(range=8).agg(n=lw.sum("n")))
    distinct = stream.distinct("k").window(range=4).group_by("k").agg(n=lw.count())
    assert "leave fair_by= out" in refused(distinct)


def test_a_key_that_is_not_a_name_and_filled_gaps_are_refused():
    with pytest.raises(lw.SpecError, match="fair_by=3"):
        lw.shed(share=0.3, fair_by=3)
    with pytest.raises(lw.SpecError, match=r"fair_by='k', fill='linear'"):
        lw.shed(share=0.3, fair_by="k", fill="linear")


def test_explain_names_the_key():
    stream = lw.stream(lw.feed(SCHEMA), time="t", watermark=lw.slack(3))
    query = stream.window(range=4).group_by("k").agg(n=lw.count())
    text = query.explain(shed=lw.shed(share=0.3, max_gap=5, fair_by="k"))
    assert "in fair shares by 64 classes of k" in text
