"""Weights: of several queries, those with less weight lose windows first.

weight 1   ####          two queries of 10 rows, 8 of which do not fit: 12 are left, and an equal
weight 3   ##########    weight would be worth 6 for each; a third of 10 for the first is 3.3
"""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowwater as lw
from lowwater.codec import decode, encode
from lowwater.engine.entry import Entry
from lowwater.local.host import LocalEpochs
from lowwater.planner.shedding import shedding
from lowwater.shedding.fair import fair_shares
from lowwater.shedding.shed_memory import ShedMemory

pytestmark = pytest.mark.filterwarnings("ignore::lowwater.ShedWarning")
FEED = lw.feed("t bigint, v int")


def filled(rows, share, largest, weights):
    """Return what each query keeps: all grow by their weights until the room is used up."""
    kept = {n: (1 - largest) * count for n, count in rows.items()}
    room = (1 - share) * sum(rows.values()) - sum(kept.values())
    step = sum(rows.values()) / 100_000
    while room > 0:
        open_ones = [n for n in rows if kept[n] < rows[n]]
        if not open_ones:
            break
        low = min(kept[n] / weights[n] for n in open_ones)
        for n in open_ones:
            if kept[n] / weights[n] <= low:
                grown = min(rows[n], kept[n] + step * weights[n]) - kept[n]
                kept[n] += grown
                room -= grown
    return kept


@settings(max_examples=15, deadline=None)
@given(
    rows=st.dictionaries(st.integers(0, 4), st.integers(1, 900), min_size=1, max_size=4),
    share=st.floats(0, 0.8),
    largest=st.sampled_from([0.8, 0.9, 1.0]),
    weights=st.lists(st.sampled_from([0.5, 1.0, 3.0, 10.0]), min_size=5, max_size=5),
)
def test_what_queries_keep_is_in_proportion_to_their_weights(rows, share, largest, weights):
    by_query = dict(enumerate(weights))
    lost = fair_shares(rows, share, largest, by_query)
    kept = filled(rows, share, largest, by_query)
    for n, count in rows.items():
        left = (1 - lost.get(n, 0.0)) * count
        assert left == pytest.approx(kept[n], abs=2e-3 * sum(rows.values()))


def together(weights, **shed):
    stream = lw.stream(FEED, time="t", watermark=lw.slack(5))
    board = stream.window(range=10).agg(n=lw.count(), s=lw.sum("v"))
    audit = stream.window(range=20, slide=10).agg(n=lw.count())
    run = lw.together(board=board, audit=audit)
    return run, lw.shed(weights=weights, max_gap=20, **shed)


EPOCHS = [[(t, t % 7) for t in range(n, n + 40)] for n in range(0, 4_000, 40)]


@pytest.mark.parametrize(
    ("weights", "share", "board", "audit"),
    [
        ({"board": 3}, 0.2, 0.0, 0.4),
        ({"audit": 3}, 0.2, 0.4, 0.0),
        ({"board": 3}, 0.5, 0.25, 0.75),
        ({"board": 10, "audit": 1}, 0.4, 0.0, 0.8),
    ],
)
def test_the_lighter_query_loses_windows_first_and_what_is_left_is_exact(
    weights, share, board, audit
):
    """Both queries read all rows, so each asks for half of the work."""
    run, shed = together(weights, share=share)
    found = run.run(epochs={FEED: EPOCHS}, shed=shed)
    exact = run.run(epochs={FEED: EPOCHS})
    for name, lost in (("board", board), ("audit", audit)):
        gone = set(found[name].dropped.column("wid").to_pylist())
        kept = {row["wid"]: row for row in found[name].results.to_pylist()}
        whole = {row["wid"]: row for row in exact[name].results.to_pylist()}
        assert kept == {wid: row for wid, row in whole.items() if wid not in gone}
        assert len(gone) / len(whole) == pytest.approx(lost, abs=0.08)
        told = found[name].status.dropped
        # A drop is listed in the epoch after it became final.
        assert abs(told["windows_of"].get(name, 0) - len(gone)) <= 8
        assert told["queries"].get(name, 0.0) == pytest.approx(lost, abs=0.03)
    assert found["board"].status.balanced
    text = run.explain(shed=shed)
    first, last = ("audit", "board") if "board" in weights else ("board", "audit")
    assert f"by weight: {first} first, {last} last" in text


def test_equal_weights_are_as_none():
    run, plain = together({}, share=0.3)
    _, equal = together({"board": 2, "audit": 2}, share=0.3)
    found = [run.run(epochs={FEED: EPOCHS}, shed=how) for how in (plain, equal)]
    for name in ("board", "audit"):
        assert found[0][name].dropped == found[1][name].dropped
        assert "queries" not in found[1][name].status.dropped


@settings(max_examples=4, deadline=None)
@given(st.sets(st.integers(3, 40), min_size=1, max_size=3))
def test_after_a_restart_the_same_windows_are_dropped(restarts):
    run, shed = together({"board": 3}, share=0.3)
    plan = shedding(run.assembly, shed).with_shards(2)

    def decided(stops):
        local = LocalEpochs(plan, lw.VirtualClock())
        for n, rows in enumerate(EPOCHS[:42]):
            if n in stops:
                before, local = local, LocalEpochs(plan, lw.VirtualClock())
                local.epoch, local.state = before.epoch, copy.deepcopy(before.state)
                for m in range(-1, before.epoch):
                    local.log.append(Entry.from_bytes(before.log.read(m).to_bytes()))
            local.run([[FEED.table(rows)]], last=[False])
        return local

    once, often = decided(()), decided(restarts)
    assert once.log.newest().to_bytes() == often.log.newest().to_bytes()
    memory = once.log.newest().shed
    assert decode(ShedMemory, encode(memory)) == memory
