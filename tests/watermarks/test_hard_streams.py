"""Streams on which a fixed slack is easy to choose in hindsight, and hard to learn."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.arena.families import FAMILIES
from experiments.arena.rules import RULES
from experiments.arena.simulate import Simulation
from experiments.arena.stream import ArenaStream
from experiments.arena.verdict import KEPT, judge
from lowwater.ticks import TICKS_PER_SECOND as SECOND


def verdict(stream, target):
    sim = Simulation(stream)
    return judge(sim, "tournament", target, sim.run(RULES["tournament"](target, stream)))


@pytest.mark.parametrize("target", [0.9, 0.95, 0.99])
def test_devices_that_upload_every_five_minutes_are_waited_for_as_long_as_they_need(target):
    """15 % of the devices; a rule that forgets them in each calm loses all of their rows."""
    one = verdict(FAMILIES["uploads"].stream(3), target)
    assert one.kept >= KEPT
    assert one.wait <= 1.1 * one.best_wait


def sparse(delays):
    """10 rows a second in windows of 10 seconds, with `delays` in seconds."""
    random = np.random.default_rng(1)
    ts = 1_700_000_000 * SECOND + np.sort(random.integers(0, 1_500 * SECOND, 15_000))
    late = (delays(random, len(ts)) * SECOND).astype(np.int64)
    named = {"name": "sparse", "split": "tuning", "change": "steady", "epoch": SECOND}
    return ArenaStream.of(ts, ts + late, range=10 * SECOND, slide=10 * SECOND, **named)


@pytest.mark.parametrize(
    "delays",
    [
        lambda random, n: random.exponential(1.0, n),
        lambda random, n: 0.5 * random.pareto(1.5, n),
        lambda random, n: 0.2 * random.lognormal(0, 2, n),
    ],
    ids=["exponential", "pareto", "lognormal"],
)
def test_few_rows_and_a_heavy_tail_cause_no_long_wait(delays):
    """A late row of few is much of a window; the wait stays that of the best constant."""
    one = verdict(sparse(delays), 0.95)
    assert one.kept >= KEPT
    assert one.wait <= max(1.5 * one.best_wait, one.best_wait + SECOND)
    assert one.wait <= 15 * SECOND
