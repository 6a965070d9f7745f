"""The arena of joins: its simulation beside the join that runs, and a fixed part of its table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from experiments.arena.joins.families import EPOCH, FAMILIES, JoinStream
from experiments.arena.joins.report import JoinVerdict, judge, mean_ratio
from experiments.arena.joins.simulate import Pairs, play
from lowwater.local.host import LocalEpochs

PART = [(name, 0.95) for name in ("one-late", "both-late", "low-rates", "outages", "drift")]


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
