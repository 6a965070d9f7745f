"""Parameters changed while a query runs: decided at an epoch, kept in the log, replayed from it."""

from __future__ import annotations

import copy
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.engine.controller import Controller
from lowwater.engine.entry import Entry
from lowwater.engine.retune import retuning
from lowwater.local.host import LocalEpochs
from lowwater.query.options import RunOptions

START = datetime(2024, 5, 1, tzinfo=UTC)
EPOCHS, SECONDS = 9, 4
FEED = lw.feed("ts timestamp, k bigint")
CLOCK = lw.VirtualClock(start=START, per_epoch=f"{SECONDS} seconds")

changes = st.fixed_dictionaries(
    {},
    optional={
        "quality": st.sampled_from([0.5, 0.99, 1.0]),
        "aggressiveness": st.sampled_from([0.0, 0.25, 1.0]),
        "max_gap": st.sampled_from([2, 9, "3 seconds", timedelta(seconds=7)]),
    },
).filter(bool)


def rows():
    """The rows of each epoch: six a second, some of them late."""
    random_ = random.Random(3)
    arrivals = sorted(
        (second + random_.expovariate(0.3), START + timedelta(seconds=second), k)
        for second in range(EPOCHS * SECONDS)
        for k in range(6)
    )
    epochs = [[] for _ in range(EPOCHS)]
    for at, ts, k in arrivals:
        epochs[min(int(at // SECONDS), EPOCHS - 1)].append((ts, k % 2))
    return [FEED.table(e) for e in epochs]


ROWS = rows()


def query(quality=0.9, aggressiveness=0.5, max_gap=4, **window):
    progress = lw.quality(quality)
    stream = lw.stream(FEED, time="ts", watermark=progress)
    made = stream.window(**(window or {"range": "1 second"})).agg(n=lw.count())
    shed = lw.shed(share=0.6, max_gap=max_gap)
    prods = lw.early_before(aggressiveness)
    return RunOptions(early=prods, shed=shed).plan(made.assembly).with_shards(2)


def restarted(before, **written):
    """Return what goes on after a crash: state and log as they are on disk, all else anew."""
    local = LocalEpochs(query(**written), CLOCK)
    local.epoch, local.state = before.epoch, copy.deepcopy(before.state)
    for n in range(-1, before.epoch):
        local.log.append(Entry.from_bytes(before.log.read(n).to_bytes()))
    return local


def decided(asked, restarts=(), **written):
    """Return the entries of a run, retuned in some epochs and restarted before others."""
    local = LocalEpochs(query(**written), CLOCK)
    for n, table in enumerate(ROWS):
        if n in restarts:
            local = restarted(local, **written)
        given = [retuning(local.controller, asked[n])] if n in asked else []
        local.run([[table]], last=[n == EPOCHS - 1], asked=given)
    return [local.log.read(n) for n in range(EPOCHS)]


@given(
    st.dictionaries(st.integers(0, EPOCHS - 1), changes, min_size=1, max_size=3),
    st.sets(st.integers(1, EPOCHS - 1), min_size=1, max_size=2),
)
def test_after_a_crash_the_same_is_decided(asked, restarts):
    undisturbed = decided(asked)
    assert [e.to_bytes() for e in decided(asked, restarts)] == [e.to_bytes() for e in undisturbed]
    last = {name: n for n in sorted(asked) for name in asked[n]}
    assert {name: one.epoch for name, one in undisturbed[-1].overrides.items()} == last


@pytest.mark.parametrize("values", [{"quality": 0.5, "max_gap": 2}, {"aggressiveness": 1.0}])
def test_retuned_before_the_first_row_is_as_if_written_so(values):
    retuned, written = decided({0: values}), decided({}, **values)
    assert [(e.control, e.standing, e.accounts) for e in retuned] == [
        (e.control, e.standing, e.accounts) for e in written
    ]


def test_each_parameter_changes_what_it_is_about():
    plain = decided({})

    def slack(entries):
        (window,) = entries[-1].adapting.windows
        return window.one.slack

    tuned = {quality: slack(decided({2: {"quality": quality}})) for quality in (0.5, 1.0)}
    assert tuned[0.5] <= slack(plain) < tuned[1.0]
    long = {"range": "24 seconds", "slide": "12 seconds"}
    early, later = decided({4: {"aggressiveness": 1.0}}, **long), decided({}, **long)
    assert early[:4] == later[:4]
    assert early[4].control != later[4].control
    for gap in (2, 9):
        entries = decided({3: {"max_gap": gap}})
        runs = [
            (end - start) // 1_000_000
            for start, end in entries[-1].standing.dropped.intervals
            if start >= entries[4].standing.inputs[0].newest
        ]
        assert max(runs) == gap


def test_a_restarted_query_keeps_its_values_until_it_is_written_otherwise():
    local = LocalEpochs(query(), CLOCK)
    asked = [retuning(local.controller, {"quality": 0.8, "max_gap": timedelta(seconds=6)})]
    local.run([[ROWS[0]]], last=[False], asked=asked)

    def in_force(**written):
        again = restarted(local, **written)
        found = again.controller.tuned(again.log.before(1).overrides).settings
        again.run([[ROWS[1]]], last=[False])
        assert again.controller.tuned(again.log.before(2).overrides).settings == found
        return found

    kept = {
        "quality": 0.8,
        "aggressiveness": 0.5,
        "max_gap": "6000000 microseconds",
        "share": 0.6,
    }
    assert in_force() == kept
    assert in_force(aggressiveness=0.7) == {**kept, "aggressiveness": 0.7}
    assert in_force(quality=0.95) == {**kept, "quality": 0.95}
    assert in_force(max_gap=5) == {**kept, "max_gap": 5}


def test_the_status_names_the_target_in_force():
    local = LocalEpochs(query(), CLOCK)
    local.run([[ROWS[0]]], last=[False], asked=[retuning(local.controller, {"quality": 0.8})])
    assert local.status().quality["window"].target == 0.8


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "names no parameter to change; this query has aggressiveness=, quality=, max_gap="),
        ({"quality": 1.5}, "quality=1.5 must be a number above 0 and at most 1"),
        ({"quality": "x"}, "quality='x' must be a number"),
        ({"aggressiveness": 2}, "must be from 0 to 1"),
        ({"aggressiveness": "x"}, "retune\\(aggressiveness='x'\\)"),
        ({"max_gap": 0}, "must be a number of results from 1"),
        ({"max_gap": 1}, "share is at most 0.500"),
        ({"max_gap": {"other": 3}}, "must have the same names"),
    ],
)
def test_a_value_that_cannot_be_is_refused(values, words):
    with pytest.raises(lw.SpecError, match=words):
        retuning(LocalEpochs(query(), CLOCK).controller, values)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("quality", "watermark=lw.quality"),
        ("aggressiveness", "early=lw.early_before\\("),
        ("accuracy", "early=lw.early_before\\(accuracy="),
        ("max_gap", "shed=lw.shed"),
        ("latency", "shed=lw.shed\\(latency="),
    ],
)
def test_a_parameter_that_the_query_does_not_have_is_refused(name, words):
    plain = lw.stream(FEED, time="ts", watermark=lw.ordered()).window(range="1 second")
    controller = Controller.of(plain.agg(n=lw.count()).assembly, LocalEpochs(query(), CLOCK).log)
    with pytest.raises(lw.PlanError, match=f"started without .*{words}"):
        retuning(controller, {name: 0.5})


def test_steered_prods_may_be_retuned_and_must_stay_possible():
    made = lw.stream(FEED, time="ts", watermark=lw.ordered()).window(range="1 second")
    asked = RunOptions(early=lw.early_before(accuracy=0.9))
    assembly = asked.plan(made.agg(n=lw.count()).assembly)
    controller = LocalEpochs(assembly.with_shards(1), CLOCK).controller
    assert controller.settings == {"aggressiveness": 1.0, "accuracy": 0.9}
    assert retuning(controller, {"accuracy": 0.99}).values == {"accuracy": 0.99}
    for wrong, words in [({"accuracy": 1.5}, "at most 1"), ({"aggressiveness": 0}, "above 0")]:
        with pytest.raises(lw.SpecError, match=words):
            retuning(controller, wrong)


def test_the_bound_on_latency_is_retuned_and_a_fixed_share_has_none():
    made = lw.stream(FEED, time="ts", watermark=lw.ordered()).window(range="1 second")
    shed = lw.shed(latency="5 seconds")
    assembly = RunOptions(shed=shed).plan(made.agg(n=lw.count()).assembly)
    local = LocalEpochs(assembly.with_shards(1), CLOCK)
    assert local.controller.settings == {
        "max_gap": 10,
        "gives": "latency",
        "latency": "5 seconds",
    }
    asked = [retuning(local.controller, {"latency": timedelta(seconds=9)})]
    local.run([[ROWS[0]]], last=[False], asked=asked)
    tuned = local.controller.tuned(local.log.before(1).overrides)
    assert tuned.settings == {"max_gap": 10, "gives": "latency", "latency": "9 seconds"}
    assert tuned.shedder.how.latency == 9_000_000
    with pytest.raises(lw.SpecError, match="greater than zero"):
        retuning(local.controller, {"latency": "0 seconds"})
    with pytest.raises(lw.PlanError, match="has no latency to change"):
        retuning(LocalEpochs(query(), CLOCK).controller, {"latency": "5 seconds"})
