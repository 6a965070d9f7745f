"""A machine that has little to do drops nothing, however long windows wait and however it starts.

Slack and waiting are not work, and the slow first epochs of a run are not load.
"""

from __future__ import annotations

import numpy as np
import pytest

import lowwater as lw
from experiments.arena.live import Outage, Prices, live
from experiments.arena.stream import ArenaStream
from lowwater.query.options import RunOptions
from lowwater.ticks import TICKS_PER_SECOND as SECOND

BEGIN = 1_700_000_000 * SECOND
SLACKS = {
    "a slack near the bound": lw.slack("4.5 seconds"),
    "a slack beyond the bound": lw.slack("20 seconds"),
    "adaptive": lw.adaptive(),
    "quality": lw.quality(0.99),
}
STARTS = {
    "warm": (),
    "cold": (3 * SECOND, SECOND, SECOND // 2, SECOND // 4),
    "very cold": (12 * SECOND, 4 * SECOND, SECOND),
}


def stream(seconds=120, rate=30):
    """Rows that are late by up to 4 seconds, in windows of 2 seconds and epochs of 0.3."""
    random = np.random.default_rng(5)
    ts = BEGIN + np.sort(random.integers(0, seconds * SECOND, seconds * rate))
    late = np.minimum(random.exponential(0.8, len(ts)), 4) * SECOND
    named = {"name": "idle", "split": "tuning", "change": "steady", "epoch": 3 * SECOND // 10}
    return ArenaStream.of(
        ts, ts + late.astype(np.int64), range=2 * SECOND, slide=2 * SECOND, **named
    )


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("slack", SLACKS)
def test_an_idle_machine_drops_nothing(slack, start):
    """The load is below 0.1; a bound of 5 seconds is near the slack, or below it."""
    rows = stream()
    prices = Prices(epoch=SECOND // 100, row=200, shed=10, warm_up=STARTS[start])
    shed = RunOptions(shed=lw.shed(latency="5 seconds", gives="max_gap"))
    restart = [] if start == "warm" else [Outage(BEGIN + 60 * SECOND, BEGIN + 61 * SECOND)]
    answers = live(rows, shed, watermark=SLACKS[slack], prices=prices, outages=restart)
    assert not answers.dropped
    assert answers.status["shed"] == 0
    assert answers.status.dropped["windows"] == 0
    assert answers.status.dropped["load"] < 0.1
    assert len(answers.finals) > 45
