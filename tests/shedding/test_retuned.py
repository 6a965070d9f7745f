"""Settings of load shedding that change while a query runs, for windows that have not begun."""

from __future__ import annotations

import pytest

import lowwater as lw
from lowwater.engine.entry import Entry
from lowwater.engine.retune import retuning
from lowwater.local.host import LocalEpochs
from lowwater.planner.shedding import shedding

SCHEMA = "t bigint, k string, v int"
FEED = lw.feed(SCHEMA)
KEYS = ("hog", "hog", "hog", "hog", "ant", "bee")
EPOCHS, STEP = 60, 40


def query(shed, *, slack=0):
    stream = lw.stream(FEED, time="t", watermark=lw.slack(slack))
    windowed = stream.window(range=10).group_by("k").agg(s=lw.sum("v"))
    return shedding(windowed.assembly, shed).with_shards(2)


def played(shed, asked, *, slack=0, restart=None):
    """Return the run after epochs of 40 ticks; `asked` are new values, by epoch."""
    local = LocalEpochs(query(shed, slack=slack), lw.VirtualClock())
    for n in range(EPOCHS):
        if n == restart:
            again = LocalEpochs(query(shed, slack=slack), lw.VirtualClock())
            for m in range(-1, local.epoch):
                again.log.append(Entry.from_bytes(local.log.read(m).to_bytes()))
            again.epoch, again.state = local.epoch, local.state
            local = again
        given = [retuning(local.controller, asked[n])] if n in asked else []
        rows = [(t, k, t) for t in range(n * STEP, (n + 1) * STEP) for k in KEYS]
        local.run([[FEED.table(rows)]], last=[False], asked=given)
    return local


def dropped_after(local, epoch):
    """Return the dropped windows that began after an epoch, as a share of all."""
    intervals = local.log.newest().standing.dropped.intervals
    first, last = (epoch + 2) * STEP, EPOCHS * STEP
    inside = [(max(a, first), min(b, last)) for a, b in intervals]
    return sum(max(0, b - a) for a, b in inside) / (last - first)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.6])
def test_a_share_that_is_retuned_holds_for_windows_that_have_not_begun(share):
    shed = lw.shed(share=0.5, max_gap=5)
    plain, tuned = played(shed, {}), played(shed, {10: {"share": share}})
    before = [played_.log.read(10).standing.dropped for played_ in (plain, tuned)]
    begun = [[i for i in one.intervals if i[1] <= 10 * STEP] for one in before]
    assert begun[0] == begun[1]
    assert dropped_after(plain, 10) == pytest.approx(0.5, abs=0.08)
    assert dropped_after(tuned, 10) == pytest.approx(share, abs=0.08)


def test_a_size_that_is_retuned_bounds_the_state():
    whole = played(lw.shed(memory="1 GB"), {}, slack=200).status()
    size = whole.state_bytes // 2
    tuned = played(lw.shed(memory="1 GB"), {8: {"memory": size}}, slack=200).status()
    assert whole.dropped["windows"] == 0
    assert tuned.dropped["windows"] > 0
    assert tuned.state_bytes < 0.75 * whole.state_bytes


def test_the_bound_that_gives_way_can_be_retuned():
    """One byte asks for all windows; while the gap must be kept, every third one stays."""
    shed = lw.shed(memory=1, max_gap=2)
    local = played(shed, {15: {"gives": "max_gap"}})
    intervals = local.log.newest().standing.dropped.intervals
    runs = [(b - a) // 10 for a, b in intervals if b <= 15 * STEP]
    assert max(runs) == 2
    assert dropped_after(local, 16) == 1.0


@pytest.mark.parametrize("restart", [None, 12, 17])
def test_classes_keep_what_they_have_lost(restart):
    shed = lw.shed(share=0.25, max_gap=5, fair_by="k")
    asked = {12: {"share": 0.45}}
    local = played(shed, asked, restart=restart)
    hog = lw.fair_class("hog")
    before, after = (local.log.read(n).shed.fair for n in (11, 13))
    assert before.windows[hog] > 0
    assert after.windows[hog] >= before.windows[hog]
    assert set(local.status().dropped["classes"]) == {hog}
    # The share of all rows that is dropped: two thirds of them are of the class.
    newest, old = (local.log.read(n).shed.fair.windows[hog] for n in (EPOCHS - 1, 15))
    lost = (newest - old) / ((EPOCHS - 16) * STEP // 10)
    assert lost * 4 / 6 == pytest.approx(0.45, abs=0.05)


@pytest.mark.parametrize(
    ("shed", "values", "words"),
    [
        (lw.shed(share=0.5), {"share": 1.5}, r"shed\(share=1.5\) must be a share"),
        (lw.shed(share=0.5, max_gap=2), {"share": 0.9}, "share is at most 0.667"),
        (lw.shed(share=0.5), {"memory": "1 GB"}, r"started without shed=lw.shed\(memory=...\)"),
        (lw.shed(memory=9), {"memory": "no"}, r"shed\(memory='no'\) is not a size"),
        (lw.shed(memory=9), {"gives": "rows"}, r"shed\(gives='rows'\) is unknown"),
        (lw.shed(memory=9, weights={"results": 2}), {"weights": {"x": 1}}, "no query has the name"),
        (lw.shed(memory=9, weights={"results": 2}), {"weights": 3}, "weights by query"),
    ],
)
def test_values_that_do_not_fit_are_refused(shed, values, words):
    local = LocalEpochs(query(shed), lw.VirtualClock())
    with pytest.raises(lw.LowwaterError, match=words):
        retuning(local.controller, values)
