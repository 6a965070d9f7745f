"""The slack rule of a join: one price for the pairs of both sides, a slack for each."""

from __future__ import annotations

import numpy as np
import pytest

from lowwater.learners.slack_bins import SlackBins
from lowwater.watermarks.adaptive.pair_rule import PairRule
from lowwater.watermarks.adaptive.tournament import SlackNews

UNIT = 1_000


def played(rule, needs, epochs=600, pairs=50, seed=1, units=1):
    """Play a rule with pairs whose needs `needs(side, rng, n)` draws; return slacks and losses."""
    rng, bins = np.random.default_rng(seed), SlackBins.of(UNIT)
    memory, in_force = rule.begin(2), [(UNIT, UNIT)] * 3
    slacks, lost = [], []
    for epoch in range(1, epochs):
        newest, news, gone = epoch * units * UNIT, [], np.zeros(pairs, bool)
        for side in (0, 1):
            needed = np.maximum(needs(side, rng, pairs, epoch), 0)
            late = needed > in_force[-2][side]
            gone |= late
            counts = bins.count(needed, np.ones(pairs, np.int64))
            before = max(newest - 2 * units * UNIT, 0)
            news.append(SlackNews(newest, before, counts, float(late.sum())))
        memory = rule.step(memory, news)
        in_force.append(tuple(side.slack for side in memory.sides))
        slacks.append(in_force[-1])
        lost.append(gone.mean())
    return np.array(slacks), np.array(lost)


def exponential(*means):
    return lambda side, rng, n, _: rng.exponential(means[side], n).astype(np.int64)


@pytest.mark.parametrize("target", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("means", [(2_000, 2_000), (4_000, 400), (0, 3_000)])
def test_both_sides_together_meet_the_target(target, means):
    _, lost = played(PairRule(target, UNIT), exponential(*means))
    assert 1 - lost[100:].mean() >= 0.995 * target


def test_a_side_in_order_has_no_slack_and_the_other_side_waits_little_more_than_a_constant():
    slacks, lost = played(PairRule(0.9, UNIT), exponential(0, 3_000))
    assert (slacks[20:, 0] == 0).all()
    assert 0.01 < lost[100:].mean() <= 0.1
    constant = -3_000 * np.log(lost[100:].mean())
    assert slacks[100:, 1].mean() <= 1.15 * constant


def test_the_sum_of_the_slacks_is_that_of_the_best_constants():
    """With one price, the later side waits longer: equal slacks would cost more."""
    slacks, lost = played(PairRule(0.9, UNIT), exponential(4_000, 400))
    share = 1 - lost[100:].mean()
    tried = np.arange(0, 30_000, 50)
    apart = np.exp(-tried / 4_000)[:, None] + np.exp(-tried / 400)[None, :]
    cost = tried[:, None] + tried[None, :]
    best = cost[1 - apart >= share - 0.005].min()
    assert slacks[100:].sum(axis=1).mean() <= 1.25 * best


def test_when_pairs_need_less_again_the_slacks_fall():
    def needs(side, rng, n, epoch):
        return rng.exponential(4_000 if 100 < epoch < 200 else 200, n).astype(np.int64)

    slacks, _ = played(PairRule(0.95, UNIT), needs, epochs=900)
    assert slacks[150:200].mean() > 4_000
    assert slacks[-50:].mean() < 2_000


@pytest.mark.parametrize("target", [0.9, 0.95])
def test_a_join_with_a_pair_in_ten_units_of_time_remembers_enough_of_them(target):
    """Each epoch is ten units, so 500 units would hold 50 pairs."""

    def needs(side, rng, n, epoch):
        return rng.exponential(4_000, n).astype(np.int64)

    slacks, lost = played(PairRule(target, UNIT), needs, epochs=2_000, pairs=1, units=10)
    assert 1 - lost[300:].mean() >= 0.995 * target
    best = -4_000 * np.log((1 - target) / 2)
    assert slacks[300:].mean() <= 1.5 * best


def test_a_unit_without_pairs_does_not_count_for_long():
    rule = PairRule(0.9, UNIT)
    memory = rule.begin(2)
    for epoch in range(1, 1_000):
        pairs = ((0, 4),) if epoch <= 100 else ()
        news = SlackNews(epoch * UNIT, epoch * UNIT - 2 * UNIT, pairs)
        memory = rule.step(memory, [news, news])
        if epoch == 100:
            known = memory.sides[0].windows
    assert known <= memory.sides[0].windows <= known + 20
    assert memory.sides[0].given > 300
