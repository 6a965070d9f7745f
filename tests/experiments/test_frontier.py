"""The library's frontier of a recorded stream agrees with the arena's simulation, row by row."""

from __future__ import annotations

import pytest

from experiments.arena.families import FAMILIES
from experiments.arena.simulate import FixedSlack, Simulation
from lowwater.learners.frontier import Frontier, NeededSlacks, RecordedProgress
from lowwater.sources.arrival_clock import ArrivalEpochs
from lowwater.windows.sliding import Sliding


@pytest.mark.parametrize("name", ["low-rate", "silences", "exponential-sliding", "clock-steps"])
def test_a_fixed_slack_loses_the_same_rows(name):
    stream = FAMILIES[name].stream(0)
    cuts = ArrivalEpochs.of([stream.arrived], stream.epoch).cuts
    progress = RecordedProgress.of(stream.ts, stream.arrived, cuts)
    windows = Sliding(range=stream.range, slide=stream.slide)
    epoch = progress.epoch_of(stream.arrived)
    frontier = Frontier(NeededSlacks.of(windows, stream.ts, epoch, progress), progress)
    simulation = Simulation(stream)
    count = simulation.incidences.count
    assert frontier.pairs.total == count.sum()
    for slack in (0, stream.range // 3, 2 * stream.range):
        late = simulation.run(FixedSlack(slack)).late
        share = 1 - count[late].sum() / count.sum()
        assert frontier.completeness(slack) == pytest.approx(share, abs=1e-12)
