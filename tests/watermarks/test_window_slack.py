"""The slack for windows: the engine chooses what the rule alone chooses."""

from __future__ import annotations

import numpy as np
import pytest

import lowwater as lw
from experiments.arena.play import play
from experiments.arena.rules import LibraryRule
from experiments.arena.simulate import Simulation
from tests.experiments.test_arena import part

STREAMS = ["exponential", "exponential-sliding", "storms", "late-matches", "dropouts"]


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("target", [0.9, 0.99])
def test_the_engine_waits_and_loses_what_the_rule_alone_does(name, target):
    sim = Simulation(part(name, 40))
    found = sim.incidences
    course = sim.run(LibraryRule(target, sim.stream))
    finals = play(sim.stream, lw.quality(target), found)
    in_time = np.where(course.late, 0, found.count)
    rows = np.bincount(found.window, in_time, minlength=len(found.ends))
    assert finals.rows.tolist() == rows.tolist()
    some = rows > 0
    assert finals.wait[some].tolist() == course.wait[some].tolist()
    assert course.late.any()
