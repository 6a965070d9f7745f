"""Shedding: whole windows are left out, all others are exact, and no gap is too long.

windows    |--0--|--1--|--2--|--3--|--4--|--5--|      max_gap = 2
decided      begun  drop  drop  keep  drop            before they begin, rows are at 0
rows       xxx xx    .  .  .. .  xx xx   . .          of 1, 2 and 4: shed before any step
out           0                 3           5
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import lcm
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.control.measures import Measures
from lowwater.engine.clock import SystemClock
from lowwater.engine.entry import Entry
from lowwater.engine.log import MemoryLog
from lowwater.local.host import LocalEpochs
from lowwater.planner.shedding import shedding
from lowwater.shedding.coin import Place, Rule, decide
from lowwater.shedding.drop_geometry import Params, Root, Slots
from lowwater.windows.sliding import Sliding

pytestmark = pytest.mark.filterwarnings("ignore::lowwater.ShedWarning")
SCHEMA = "t bigint, k int, v int"


# -- plans, and which results each row can reach ---------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """Windows over a stream, by name: (range, slide) of each level, the lowest first."""

    levels: dict[str, list[tuple[int, int]]]

    def queries(self, stream):
        made = {}
        for name, stack in self.levels.items():
            at, column = stream, "v"
            for depth, (size, slide) in enumerate(stack):
                windowed = at.window(range=size, slide=slide)
                keys = ["k"] if depth == 0 else []
                at = windowed.group_by(*keys).agg(s=lw.sum(column), n=lw.count())
                column = "s"
            made[name] = at
        return lw.together(**made)

    def reached(self, name, t):
        """Return the windows of a query that a row at `t` counts in, level by level."""
        times = [t]
        for size, slide in self.levels[name]:
            wids = {w for at in times for w in range((at - size) // slide + 1, at // slide + 1)}
            times = [w * slide + size - 1 for w in wids]
        return wids


def rows_of(drawn):
    at, rows = 0, []
    for n, (step, back, key, value) in enumerate(drawn):
        at += step
        rows.append((max(0, at - back), key, value if n % 7 else -9))
    return rows


SIZES = st.tuples(st.integers(1, 12), st.integers(1, 12))
STACKS = st.lists(SIZES, min_size=1, max_size=2)
PLANS = st.dictionaries(st.sampled_from("ab"), STACKS, min_size=1, max_size=2).map(Plan)
ROWS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 12), st.integers(0, 2), st.integers(-3, 9)),
    min_size=30,
    max_size=60,
).map(rows_of)


def cut(rows, size):
    return [rows[i : i + size] for i in range(0, len(rows), size)]


def shed_by(gap, p):
    return lw.shed(max_gap=gap, share=min(p, gap / (gap + 1)))


def by_window(outcome):
    return {tuple(r[c] for c in ("wid", "k") if c in r): r for r in outcome.results.to_pylist()}


def longest_run(wids):
    """Return the longest run of whole numbers."""
    steps = [b - a == 1 for a, b in pairwise(sorted(set(wids)))]
    runs = [len(list(same)) + 1 for together, same in groupby(steps) if together]
    return max([*runs, 1 if wids else 0])


@given(
    plan=PLANS,
    rows=ROWS,
    gap=st.integers(1, 40),
    p=st.floats(0.05, 0.95),
    slack=st.integers(0, 8),
    size=st.integers(5, 12),
)
def test_what_is_delivered_is_exact_and_rows_that_reach_nothing_else_are_shed(
    plan, rows, gap, p, slack, size
):
    feed = lw.feed(SCHEMA)
    asked = plan.queries(lw.stream(feed, time="t", watermark=lw.slack(slack)))
    epochs = {feed: cut(rows, size)}
    try:
        found = asked.run(epochs=epochs, shed=shed_by(gap, p), shards=1)
    except lw.SpecError:
        assume(False)
    exact = asked.run(epochs=epochs, shards=1)
    shed = {name: set(out.dropped.column("wid").to_pylist()) for name, out in found.items()}
    for name, out in found.items():
        kept, whole = by_window(out), by_window(exact[name])
        assert all(whole[cell] == row for cell, row in kept.items())
        assert {c[0] for c in whole} - {c[0] for c in kept} <= shed[name]
        assert not {c[0] for c in kept} & shed[name]
        assert longest_run(shed[name]) <= gap
        assert out.status.balanced
        assert missed_at_first(out, plan.levels[name]) <= missed_at_first(
            exact[name], plan.levels[name]
        )
    front = {tuple(plan.levels[name][:1]) for name in plan.levels}
    if len(front) == len(plan.levels):  # each query reads the stream by itself
        for name, out in found.items():
            read = [plan.reached(name, t) for t, *_ in rows]
            must = sum(bool(wids) and wids <= shed[name] for wids in read)
            may = sum(wids <= shed[name] for wids in read)  # some reach nothing in any case
            assert must <= out.status["shed"] <= may


def missed_at_first(out, stack):
    """Return the late rows of the windows that are nearest to the stream, as often as they came."""
    late = out.late
    if len(stack) > 1 and len(late.column_names) and "operator" in late.column_names:
        late = [r["window"] for r in late.to_pylist() if r["operator"] == "window"]
    else:
        late = late.to_pylist()
    return Counter((r["t"], r["k"], r["v"]) for r in late if r is not None and "t" in r)


LISTED = lw.aggregate("v", init=list, incr=lambda kept, v: [*kept, v], final=str, returns="string")
OTHERS = {
    "windows of several names": lambda s, _: s.window(lw.windows(short=(6, 3), long=(12, 6))).agg(
        n=lw.count(), s=lw.sum("v")
    ),
    "kept per window": lambda s, _: s.window(range=6, slide=3).agg(all=LISTED),
    "union": lambda s, o: s.union(o).window(range=6).group_by("k").agg(s=lw.sum("v")),
    "inner join": lambda s, o: (
        s.join(o, on="k", band=(-2, 3), time="max").window(range=6).agg(n=lw.count())
    ),
    "in order": lambda s, _: s.order().window(range=6).agg(m=lw.median("v")),
    "distinct": lambda s, _: s.distinct("k").window(range=6, slide=3).agg(s=lw.sum("v")),
    "sources close groups": lambda s, _: (
        s.window(range=6, slide=3).group_by("k").agg(s=lw.sum("v"))
    ),
}


@pytest.mark.parametrize("plan", OTHERS)
def test_what_is_delivered_is_exact_whatever_the_operators(plan):
    random = Random(plan)
    feeds = [lw.feed(SCHEMA) for _ in range(2)]
    slack = lw.slack(4)
    progress = lw.per_source("k", slack) if plan.startswith("sources") else slack
    query = OTHERS[plan](*(lw.stream(f, time="t", watermark=progress) for f in feeds))
    read = feeds[: len(query.assembly.sources)]
    epochs = {
        feed: cut([(t + random.randint(0, 5), random.randint(0, 2), t) for t in range(260)], 13)
        for feed in read
    }
    exact, found = (query.run(epochs=epochs, shed=how) for how in (None, shed_by(24, 0.6)))
    kept, whole = found.results.to_pylist(), exact.results.to_pylist()
    assert all(row in whole for row in kept)
    named = [c for c in ("window_name", "wid") if c in found.dropped.column_names]
    shed = {tuple(r[c] for c in named) for r in found.dropped.to_pylist()}
    assert {tuple(r[c] for c in named) for r in whole if r not in kept} <= shed
    assert found.status["shed"] > 0
    assert found.status.balanced


# -- the rules -------------------------------------------------------------------------------------


def pipeline(*stages):
    """Return ω and δ of windows over windows, the lowest first."""
    return Params(sum(s.size for s in stages) - (len(stages) - 1), stages[-1].slide)


def fan_out(*branches):
    """Return ω and δ of windows that share a stream and start together."""
    slide = lcm(*(b.slide for b in branches))
    return Params(slide + max(b.size - b.slide for b in branches), slide)


def test_sizes_and_slides_are_those_of_the_papers_examples():
    below, left, right = Params(4, 1), Params(3, 2), Params(3, 3)
    assert pipeline(left, right) == Params(5, 3)
    assert fan_out(left, right) == Params(7, 6)
    assert pipeline(below, fan_out(left, right)) == Params(10, 6)
    assert fan_out(pipeline(below, left), pipeline(below, right)) == Params(10, 6)
    roots = [
        Root(n, Sliding(range=p.size, slide=p.slide), 3, 6) for n, p in enumerate((left, right))
    ]
    assert Slots.of(roots).params == Params(10, 6)
    assert Slots.of(roots).gap(roots) == 2  # of 6 results each, one slot is 3 and 2


@given(
    p=st.floats(0, 0.99),
    most=st.integers(1, 12),
    batch=st.integers(1, 12),
    seed=st.integers(0, 99),
)
def test_both_the_share_and_the_longest_run_hold(p, most, batch, seed):
    rule = Rule(min(p, most / (most + 1)), min(batch, most), most, seed)
    dropped = [dropped for _, dropped in decide(Place(-50), rule, 3_950)]
    assert longest_run([n for n, dropped in enumerate(dropped) if dropped]) <= most
    assert abs(sum(dropped) / len(dropped) - rule.share) < 0.02


def test_decisions_change_with_the_share_from_where_they_stand_and_never_make_a_run_longer():
    place, slots = Place(0), []
    for n in range(400):
        rule = Rule((0.2, 0.9, 0.0, 0.75)[n % 4], 3, 3, seed=5)
        for after, dropped in decide(place, rule, 7 * (n + 1)):
            place = after
            slots.append(dropped)
    assert longest_run([n for n, dropped in enumerate(slots) if dropped]) == 3


# -- in the log ------------------------------------------------------------------------------------


class Forgetful(MemoryLog):
    """Keeps entries as they are written to a disk."""

    def read(self, epoch):
        kept = super().read(epoch)
        return None if kept is None else Entry.from_bytes(kept.to_bytes())


def test_an_epoch_that_is_run_again_decides_the_same():
    feed = lw.feed(SCHEMA)
    query = lw.stream(feed, time="t", watermark=lw.slack(3)).window(range=4).agg(n=lw.count())
    rows = [(t, 0, 1) for t in range(600)]
    logs = []
    for again in (False, True):
        made = shedding(query.assembly, lw.shed(max_gap=3, share=0.5))
        epochs = LocalEpochs(made, SystemClock())
        epochs.log = epochs.controller.log = Forgetful() if again else MemoryLog()
        epochs.controller.begin(0)
        for block in cut(rows, 25):
            epochs.run([[feed.table(block)]], last=[False])
            if again:  # as after a crash: what stands is not decided anew
                entry = epochs.log.read(epochs.epoch - 1)
                assert epochs.controller.decide(epochs.epoch - 1, Measures(), 99) == entry
        logs.append([epochs.log.before(n).standing.dropped for n in range(1, 25)])
    assert logs[0] == logs[1]
    assert any(logs[0])


# -- what is told ----------------------------------------------------------------------------------


def test_rows_are_shed_before_the_steps_of_the_stream():
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.ordered()).where("v > 0")
    query = stream.window(range=10).agg(n=lw.count())
    epochs = {feed: cut([(t, 0, 0) for t in range(400)], 20)}
    out = query.run(epochs=epochs, shed=lw.shed(max_gap=4, share=0.5))
    # No row passes the filter, so all that is counted was shed before it.
    assert out.status["in"] == out.status["shed"] == 10 * len(out.dropped)
    assert out.status.dropped["windows"] == len(out.dropped)
    assert set(out.dropped.column("reason").to_pylist()) == {"share= was given"}
    assert "before where v > 0" in query.explain(shed=lw.shed(max_gap=4, share=0.5))


def test_a_late_row_of_a_window_that_was_left_out_is_shed_and_not_late():
    feed = lw.feed(SCHEMA)
    query = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10).agg(n=lw.count())
    ordered = cut([(t, 0, 0) for t in range(400)], 20)
    first = query.run(epochs={feed: ordered}, shed=lw.shed(max_gap=4, share=0.5))
    gone = first.dropped.column("wid").to_pylist()
    late = [(10 * wid, 0, 0) for wid in gone] + [(5, 0, 0)]
    out = query.run(epochs={feed: [*ordered, late]}, shed=lw.shed(max_gap=4, share=0.5))
    assert out.late.column("t").to_pylist() == [5]
    assert out.status["shed"] == first.status["shed"] + len(gone)


def test_early_results_are_never_of_windows_that_are_left_out():
    feed = lw.feed(SCHEMA)
    query = lw.stream(feed, time="t", watermark=lw.slack(7)).window(range=10, slide=5)
    epochs = {feed: cut([(t, 0, 0) for t in range(400)], 7)}
    out = query.agg(n=lw.count()).run(
        epochs=epochs,
        early=lw.early_every("1 second"),
        shed=lw.shed(max_gap=9, share=0.6),
        clock=lw.VirtualClock(),
    )
    early = {r["wid"] for r in out.results.to_pylist() if r["kind"] == "early"}
    final = {r["wid"] for r in out.results.to_pylist() if r["kind"] == "final"}
    assert early
    assert early <= final
    assert not final & set(out.dropped.column("wid").to_pylist())


def test_gaps_are_filled_on_a_line_with_what_it_may_be_off_by():
    feed = lw.feed(SCHEMA)
    query = lw.stream(feed, time="t", watermark=lw.ordered()).window(range=10).group_by("k")
    rows = [(t, k, t // 10 * (3 if k else 7)) for t in range(600) for k in (0, 1)]
    epochs = {feed: cut(rows, 60)}
    how = lw.shed(max_gap=3, share=0.5, fill="linear")
    out = query.agg(v=lw.max("v")).where("v <> 9").run(epochs=epochs, shed=how)
    whole = query.agg(v=lw.max("v")).where("v <> 9").run(epochs=epochs)
    found = {(r["wid"], r["k"]): r for r in out.results.to_pylist()}
    exact = {(r["wid"], r["k"]): r["v"] for r in whole.results.to_pylist()}
    gone = set(out.dropped.column("wid").to_pylist())
    last = max(wid for wid, _ in found if wid not in gone)
    assert {cell for cell in exact if cell[0] <= last} == set(found)
    for (wid, key), row in found.items():
        assert row["v"] == exact[wid, key]  # these values are on a line
        assert row["kind"] == ("filled" if wid in gone else "final")
        assert wid in gone or row["low"] is row["high"] is None
        if wid in gone and row["low"]["v"] is not None:
            assert row["low"]["v"] <= row["v"] <= row["high"]["v"]
            assert row["high"]["v"] - row["low"]["v"] < 1e-9 or wid < min(gone) + 8
            assert row["settled"]["v"] == 1 or wid < min(gone) + 8
    steps = [(t, 0, (t // 10) % 2) for t in range(600)]
    out = query.agg(v=lw.max("v")).run(epochs={feed: cut(steps, 30)}, shed=how)
    filled = [r for r in out.results.to_pylist() if r["kind"] == "filled"][5:]
    assert all(0.4 < r["high"]["v"] - r["low"]["v"] < 4 for r in filled)
    assert all(r["low"]["v"] <= r["v"] <= r["high"]["v"] for r in filled)
    assert all(r["settled"]["v"] < 1 for r in filled)


# -- what is refused -------------------------------------------------------------------------------


def stream_of(schema="t bigint, k int, v int"):
    return lw.stream(lw.feed(schema), time="t", watermark=lw.ordered())


BY_HAND = lw.shed(max_gap=5, share=0.5)
REFUSED = {
    "count rows": lambda s: s.window(range=lw.rows(5), on=lw.arrival).agg(n=lw.count()),
    "or they have no end; take": lambda s: s.window(range=lw.unbounded, slide=5).agg(n=lw.count()),
    "rows determine where these windows lie": lambda s: s.window(gap=5).agg(n=lw.count()),
    "take a fixed range and slide": lambda s: s.window(range=5, slide=lw.rows(1)).agg(n=lw.count()),
    "allowed_lateness": lambda s: s.window(range=5, allowed_lateness=5).agg(n=lw.count()),
    "a join that keeps rows without a partner": lambda s: (
        s.join(stream_of(), on="k", band=(0, 3), how="left").window(range=5).agg(n=lw.count())
    ),
    "distinct(within=...)": lambda s: s.distinct("k", within=3).window(range=5).agg(n=lw.count()),
    "but this query emits rows": lambda s: s.where("v > 0"),
    "emits the rows of join()": lambda s: s.join(stream_of(), on="k", band=(0, 3)),
}


@pytest.mark.parametrize("told", REFUSED)
def test_what_cannot_be_shed_is_refused_when_the_query_is_built(told):
    with pytest.raises(lw.SpecError) as refused:
        REFUSED[told](stream_of()).explain(shed=BY_HAND)
    assert told in str(refused.value)


def test_gaps_and_shares_that_allow_nothing_are_refused_with_those_that_would():
    query = stream_of().window(range=10).agg(n=lw.count())
    with pytest.raises(lw.SpecError, match=r"share is at most 0\.667"):
        query.explain(shed=lw.shed(max_gap=2, share=0.7))
    both = lw.together(a=query, b=stream_of().window(range=15).agg(n=lw.count()))
    with pytest.raises(lw.SpecError, match="a 3, b 2"):
        both.explain(shed=lw.shed(max_gap=2, share=0.1))
    with pytest.raises(lw.SpecError, match="same names; 'c'"):
        both.explain(shed=lw.shed(max_gap={"a": 3, "b": 2, "c": 1}, share=0.1))
    with pytest.raises(lw.SpecError, match="windows lie over numbers"):
        query.explain(shed=lw.shed(latency="5 seconds"))
    with pytest.raises(lw.SpecError, match="one of the two"):
        lw.shed(max_gap=3)


def test_a_gap_too_short_to_spare_rows_is_told_with_one_that_would_help():
    query = stream_of().window(range=10, slide=2).agg(n=lw.count())
    with pytest.warns(lw.ShedWarning, match="max_gap from 5 for results"):
        query.explain(shed=lw.shed(max_gap=4, share=0.5))


# -- state -----------------------------------------------------------------------------------------


def test_windows_are_dropped_so_that_the_state_fits():
    """Slack keeps many windows open; each has a state for every key."""
    feed = lw.feed(SCHEMA)
    stream = lw.stream(feed, time="t", watermark=lw.slack(200))
    query = stream.window(range=10).group_by("k").agg(s=lw.sum("v"), m=lw.max("v"))
    rows = [(t, 17 * t + k, t) for t in range(1_200) for k in range(6)]

    def played(shed):
        epochs = LocalEpochs(shedding(query.assembly, shed).with_shards(2), lw.VirtualClock())
        sizes = []
        for block in cut(rows, 60):
            epochs.run([[feed.table(block)]], last=[False])
            sizes.append(epochs.status().state_bytes)
        return max(sizes[60:]), epochs.status()

    whole, _ = played(None)
    bounded, status = played(lw.shed(memory=whole // 3, max_gap=10))
    assert bounded < 1.1 * whole // 3
    assert status.dropped["share"] > 0.5
    assert status.dropped["windows"] > 20
    roomy, status = played(lw.shed(memory=2 * whole, max_gap=10))
    assert (roomy, status.dropped["windows"]) == (whole, 0)


def test_windows_dropped_for_the_state_are_listed_with_this_reason():
    feed = lw.feed(SCHEMA)
    query = lw.stream(feed, time="t", watermark=lw.slack(50)).window(range=10).agg(n=lw.count())
    epochs = {feed: cut([(t, 0, 1) for t in range(900)], 30)}
    shed = lw.shed(memory=1, max_gap=3)
    out = query.run(epochs=epochs, shed=shed, shards=1)
    assert set(out.dropped.column("reason").to_pylist()) == {"the state was too large"}
    assert longest_run(out.dropped.column("wid").to_pylist()) == 3
    assert "state of at most 1 bytes" in query.explain(shed=shed)


@pytest.mark.parametrize("memory", ["0 GB", "-1", "many", 0, 1.5, "4 GHz"])
def test_a_size_that_is_none_is_refused(memory):
    with pytest.raises(lw.SpecError, match="is not a size"):
        lw.shed(memory=memory)


def test_weights_that_fit_no_query_are_refused():
    query = stream_of().window(range=10).agg(n=lw.count())
    both = lw.together(a=query, b=stream_of().window(range=10).agg(n=lw.count()))
    both.explain(shed=lw.shed(share=0.1, weights={"a": 2}))
    with pytest.raises(lw.SpecError, match="no query has the name 'c'"):
        both.explain(shed=lw.shed(share=0.1, weights={"c": 2}))
    with pytest.raises(lw.SpecError, match="must be a number above 0"):
        lw.shed(share=0.1, weights={"a": 0})
