"""Laws of the slack rule, on streams that are drawn for them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from experiments.arena.families import FAMILIES
from experiments.arena.families.family import drawn, poisson
from experiments.arena.rules import LibraryRule
from experiments.arena.simulate import Simulation
from lowwater.watermarks.adaptive.tournament import SlackNews, Tournament

SECOND = 1_000_000


@cache
def simulation(name, seed=1):
    return Simulation(FAMILIES[name].stream(seed))


def kept(sim, target):
    """The share of rows in time, and the slacks."""
    course = sim.run(LibraryRule(target, sim.stream))
    count = sim.incidences.count
    return 1 - count[course.late].sum() / count.sum(), course.slack


def steady(delay, *, windows=1_200, rate=5.0, seed=1):
    """A stream of windows of 10 seconds and epochs of 2; `delay` draws the delays of n rows."""
    random = np.random.default_rng(seed)
    times = poisson(random, rate, windows * 10)
    return Simulation(drawn(random, times, delay(random, len(times)), range=10.0, epoch=2.0))


@pytest.mark.parametrize("name", ["storms", "outages", "uploads", "late-values"])
def test_a_more_patient_target_loses_no_more(name):
    sim = simulation(name)
    shares = [kept(sim, target)[0] for target in (0.8, 0.9, 0.97, 0.995)]
    assert (np.diff(shares) >= -0.001).all(), shares


@pytest.mark.parametrize("seed", range(5))
def test_times_that_are_a_thousand_times_as_long_give_slacks_a_thousand_times_as_long(seed):
    random = np.random.default_rng(seed)
    small, large = (Tournament(0.9, range, range) for range in (256_000, 256_000_000))
    memories, newest, slacks = [small.begin(), large.begin()], [0, 0], []
    for _ in range(400):
        advance = int(random.integers(0, 256_000))
        needed = tuple({0: 20, int(random.integers(1, 150)): 3}.items())
        step = []
        for at, (rule, unit) in enumerate(((small, 1), (large, 1_000))):
            reference, newest[at] = newest[at], newest[at] + advance * unit
            news = SlackNews(newest[at], reference, needed, 1.0)
            memories[at], slack = rule.step(memories[at], news)
            step.append(slack / unit)
        slacks.append(step)
    a, b = np.array(slacks).T
    assert len(set(a)) > 2
    # Edges of bins are whole ticks, so the shorter ones are a little less exact.
    assert np.mean(np.abs(a - b) <= 0.002 * a + 1) > 0.98


@pytest.mark.parametrize("target", [0.9, 0.99])
def test_one_row_that_is_936_days_late_moves_nothing(target):
    sim = steady(lambda random, n: random.exponential(3.0, n))
    stream = sim.stream
    old = stream.ts.copy()
    old[len(old) // 2] -= 936 * 86_400 * SECOND
    slacks = [kept(one, target)[1] for one in (sim, Simulation(replace(stream, ts=old)))]
    moved = np.abs(slacks[1] - slacks[0])
    assert moved.max() <= stream.range
    assert moved.mean() <= 0.02 * slacks[0].mean() + 1


@pytest.mark.parametrize("target", [0.9, 0.95])
def test_feedback_that_comes_a_hundred_windows_late_makes_no_oscillation(target):
    sim = steady(lambda random, n: random.exponential(1_000 / np.log(1 / (1 - target)), n))
    share, slacks = kept(sim, target)
    settled = slacks[len(slacks) // 2 : -len(slacks) // 10] / sim.stream.range
    assert 70 <= settled.mean() <= 140  # the best constant needs about 100 windows
    assert settled.std() <= 0.1 * settled.mean()
    assert share >= 0.995 * target


def test_a_long_calm_does_not_wind_the_rule_up():
    """Delays become long after 50 or after 800 calm windows: the answer is the same."""

    def first_slacks(calm):
        random = np.random.default_rng(4)
        times = poisson(random, 20.0, (calm + 60) * 10)
        since = times - calm * 10
        late = np.where(since > 0, random.exponential(20.0, len(times)), 0.1)
        sim = Simulation(drawn(random, times, late, range=10.0, epoch=2.0))
        # The horizon of 500 windows has more rows after the longer calm, hence a high target.
        _, slacks = kept(sim, 0.99)
        after = np.flatnonzero(sim.stream.newest >= (1_700_000_000 + calm * 10) * SECOND)
        return slacks[after[: 30 * 5]] / sim.stream.range

    short, long = first_slacks(50), first_slacks(800)
    reached = [np.flatnonzero(slacks >= 3.0)[0] for slacks in (short, long)]
    assert reached[1] <= reached[0] + 15  # three windows of five epochs


def test_a_debt_that_cannot_be_repaid_buys_no_endless_wait():
    """A third of the first rows is lost for good; what the target needs later stays bounded."""
    random = np.random.default_rng(5)
    times = poisson(random, np.where(np.arange(4_000) < 1_000, 50.0, 2.0), 4_000)
    burst = (times < 1_000) & (times > 500)
    slow = random.uniform(size=len(times)) < np.where(burst, 0.6, 0.01)
    late = np.where(slow, random.uniform(400, 600, len(times)), random.exponential(2, len(times)))
    sim = Simulation(drawn(random, times, late, range=10.0, epoch=2.0))
    _, slacks = kept(sim, 0.9)
    assert slacks.max() <= 65 * sim.stream.range  # no row needs more


@pytest.mark.parametrize("target", [0.5, 0.9, 0.999])
def test_the_warm_up_waits_one_range(target):
    sim = steady(lambda _, n: np.full(n, 0.1), windows=30)
    _, slacks = kept(sim, target)
    assert (slacks[:10] == sim.stream.range).all()
    assert slacks[-10:].max() == 0
