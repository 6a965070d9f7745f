"""The arena of early answers: its simulation is exact, and windows are answered in time."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

import lowwater as lw
from experiments.arena.early_asks import AskSimulation
from experiments.arena.early_play import asks_of, play_asks
from experiments.arena.early_report import POLICY, by_stream, in_all, judge_asks
from experiments.arena.early_streams import BORROWED, SHAPES, ask_stream


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
    assert simulated.answered.tolist() == played.answered.tolist()


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
