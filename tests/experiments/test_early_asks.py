"""The arena of early answers: its simulation is exact, and windows are answered in time."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import lowwater as lw
from experiments.arena.early_asks import Asks, AskSimulation
from experiments.arena.early_play import asks_of, play_asks
from experiments.arena.early_report import IN_TIME, POLICY, by_stream, in_all, judge_asks
from experiments.arena.early_streams import BORROWED, SHAPES, ask_stream
from lowwater.early.policies import EarlyBefore


def part(one, slides):
    """The first slides of a stream."""
    stream = one.stream
    mine = stream.ts < stream.ts.min() + slides * stream.slide
    columns = {name: getattr(stream, name)[mine] for name in ("ts", "arrived", "key", "value")}
    return replace(one, stream=replace(stream, **columns))


@pytest.mark.parametrize("policy", [lw.early_before(0.6), lw.early_every("7 seconds")])
@pytest.mark.parametrize("name", ["stall", "disorder"])
def test_the_simulation_requests_and_answers_as_the_engine_does(name, policy):
    one = part(ask_stream(name, 3, 3), 14)
    sim = AskSimulation(one.stream, one.stream.slide, one.pauses)
    simulated, played = sim.run(policy), asks_of(sim, play_asks(sim, policy))
    assert simulated.prods == played.prods
    assert simulated.answers == played.answers


def test_an_answer_counts_near_its_lead_only_and_a_final_in_place_of_one():
    #  epochs    | e-2 | e-1 |  e  | e+1 | e+2 |
    #  lead                  x
    #  counts    no    yes   yes   yes   no      of early answers; of finals, up to e+1
    one = part(ask_stream("silence", 0, 1), 30)
    sim = AskSimulation(one.stream, one.stream.slide, one.pauses)
    lead = one.stream.slide // 2
    epoch = np.searchsorted(sim.ticks, sim.lead_moments(lead), side="right")
    window = int(np.flatnonzero(sim.judged(lead) & (sim.finals > epoch + 3))[5])
    asked = np.zeros(len(sim.ends), np.int64)

    def counts(*after):
        answers = [(window, int(epoch[window]) + step) for step in after]
        return bool(sim.in_time(Asks(asked, answers, []), lead)[window])

    assert [counts(step) for step in (-3, -1, 0, 1, 2)] == [False, True, True, True, False]
    assert counts(-3, 0, 5)
    assert not counts(-3, 2)
    soon = AskSimulation(one.stream, -one.stream.slide, one.pauses)
    assert soon.finals[window] <= epoch[window] + 1
    assert soon.in_time(Asks(asked, [], []), lead)[window]


class Later(EarlyBefore):
    """A faulty policy: it requests windows a third of a slide too late."""

    def due(self, operator, grid, moment, lead):
        return super().due(operator, grid, moment, lead - 1 / 3)


class ByRows(EarlyBefore):
    """A faulty policy: between rows, its event time stands still."""

    def due(self, operator, grid, moment, lead):
        return super().due(operator, grid, replace(moment, event=moment.newest), lead)


@pytest.mark.parametrize("faulty", [Later, ByRows])
def test_faulty_policies_miss_the_target(faulty):
    missed = 0
    for name in SHAPES:
        one = part(ask_stream(name, 0, 1), 60)
        sim, lead = AskSimulation(one.stream, one.stream.slide // 2, one.pauses), 0.5
        before = int(lead * one.stream.slide)
        judged, asks = sim.judged(before), sim.run(faulty(lead))
        missed += sim.in_time(asks, before)[judged].mean() < IN_TIME
    assert missed >= 2


@pytest.mark.parametrize("slides", [1, 3])
@pytest.mark.parametrize("name", [*SHAPES, *BORROWED[:2]])
def test_windows_are_answered_in_time_where_the_dumb_policy_misses_many(name, slides):
    verdicts = judge_asks(part(ask_stream(name, 0, slides), 60))
    ours = [one for one in verdicts if one.policy == POLICY]
    assert [one for one in verdicts if one.fails] == []
    assert max(one.prods for one in ours) <= 3
    dumb = [one for one in verdicts if one.policy == "early_every slide"]
    assert sum(one.in_time for one in dumb) < 0.9 * sum(one.in_time for one in ours)


def test_the_tables_name_streams_and_failures():
    verdicts = judge_asks(part(ask_stream("silence", 20, 1), 20))
    failed = [replace(one, unlawful=2) for one in verdicts]
    text = StringIO()
    console = Console(file=text, width=160)
    console.print(by_stream(failed))
    console.print(in_all(verdicts))
    assert "silence, tumbling" in text.getvalue()
    assert "held out" in text.getvalue()
    assert text.getvalue().count("fails") == 4
