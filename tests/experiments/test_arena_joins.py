"""The arena of joins: its simulation beside the join that runs, and a fixed part of its table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from experiments.arena.joins import chain
from experiments.arena.joins.families import EPOCH, FAMILIES, JoinStream
from experiments.arena.joins.hindsight import changes, constant, two_constants
from experiments.arena.joins.report import JoinVerdict, judge, mean_ratio, pairs_of
from experiments.arena.joins.simulate import Pairs, play
from lowwater.local.host import LocalEpochs

PART = [(name, 0.95) for name in ("one-late", "both-late", "low-rates", "outages", "drift")]
PART += [("low-rates", 0.99)]


@pytest.fixture(scope="module")
def part() -> list[JoinVerdict]:
    return [judge(name, 3, target) for name, target in PART]


def test_there_are_at_least_eight_families():
    assert len(FAMILIES) >= 8
    assert {one.change for one in FAMILIES.values()} == {"steady", "changing"}


def test_the_rule_fails_nowhere_on_a_fixed_part(part):
    assert [(one.family, one.fails) for one in part if one.fails] == []


def test_one_price_costs_no_more_than_equal_constants_of_both_sides(part):
    assert mean_ratio([one for one in part if one.change == "steady"]) <= 1.15
    assert mean_ratio([one for one in part if one.change == "changing"]) <= 0.8


def test_two_constants_are_the_cheapest_that_make_as_many_pairs():
    streams = tuple(shortened(one, 80 * EPOCH) for one in FAMILIES["both-late"].streams(2))
    pairs = Pairs.of(streams, 500_000)
    every = np.ones(pairs.epoch.shape[1], bool)
    mine, theirs = two_constants(pairs, 0.8, every)
    assert (pairs.needed <= [[mine], [theirs]]).all(axis=0).mean() >= 0.8
    grid = [np.unique(side) for side in pairs.needed]
    counts = np.zeros([len(side) for side in grid])
    np.add.at(counts, tuple(map(np.searchsorted, grid, pairs.needed)), 1)
    enough = counts.cumsum(axis=0).cumsum(axis=1) >= 0.8 * len(every)
    least = (grid[0][:, None] + grid[1])[enough].min()
    assert least <= mine + theirs <= min(1.02 * least, 2 * constant(pairs, 0.8, every))


def test_a_regime_is_found_where_delays_change():
    found = changes(pairs_of("regimes", 1))
    assert 4 <= len(found) <= 24
    assert changes(pairs_of("both-late", 1)) == []


def test_several_streams_in_a_row_have_the_target_together():
    verdict = chain.judge(3, 0, 0.9)
    assert not verdict.fails
    assert verdict.constant < verdict.completeness + 0.03, "a constant with this wait is no better"
    assert np.prod(verdict.each) == pytest.approx(verdict.completeness, abs=0.03)


def shortened(stream, ticks):
    some = stream.arrived < ticks
    return JoinStream(stream.ts[some], stream.arrived[some], stream.key[some])


@pytest.mark.parametrize("family", ["one-late", "drift"])
def test_the_simulation_makes_the_pairs_that_the_join_makes(family):
    """Epoch by epoch, slacks are the same, and so is the number of pairs in the end."""
    streams = tuple(shortened(one, 60 * EPOCH) for one in FAMILIES[family].streams(0))
    pairs = Pairs.of(streams, 500_000)
    course = play(pairs, 0.9)
    feeds = [lw.feed("ts timestamp, key bigint") for _ in streams]
    a, b = (lw.stream(feed, time="ts", watermark=lw.quality(0.9)) for feed in feeds)
    joined = a.join(b, on="key", band=("-500 milliseconds", "500 milliseconds"))
    local = LocalEpochs(joined.assembly.with_shards(1), lw.VirtualClock())
    for epoch in range(60):
        blocks = []
        for one in streams:
            now = one.arrived // EPOCH == epoch
            ts = pa.array(one.ts[now], pa.timestamp("us", "UTC"))
            blocks.append([pa.table({"ts": ts, "key": one.key[now]})])
        local.run(blocks, last=[False, False])
    results = local.status().operators["join"]["results"]
    assert results == int(np.count_nonzero(course.made))
    assert results < len(course.made)
