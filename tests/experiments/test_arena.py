"""The arena: its simulation is exact, its constants are constants, and rules keep their targets."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import lowwater as lw
from experiments.arena.clairvoyant import Closings, least_wait
from experiments.arena.constants import Constants
from experiments.arena.families import FAMILIES
from experiments.arena.play import play
from experiments.arena.plots import draw
from experiments.arena.recordings import RECORDINGS
from experiments.arena.report import by_stream, in_the_mean
from experiments.arena.rules import BASELINES, RULES
from experiments.arena.simulate import FixedSlack, Simulation
from experiments.arena.stream import ArenaStream
from experiments.arena.verdict import judge, judge_all, mean_ratio
from experiments.streams.recordings import FOLDER, AbsentError


def part(name, windows, seed=0):
    """The first windows of a stream."""
    whole = FAMILIES[name].stream(seed)
    mine = whole.ts < whole.ts.min() + windows * whole.slide
    columns = {c: getattr(whole, c)[mine] for c in ("ts", "arrived", "key", "value", "matches")}
    return replace(whole, **columns)


@pytest.mark.parametrize(
    "name", ["low-rate", "silences", "exponential-sliding", "clock-steps", "late-matches"]
)
@pytest.mark.parametrize("windows_waited", [0.0, 0.7])
def test_the_simulation_gives_what_the_engine_gives(name, windows_waited):
    sim = Simulation(part(name, 60))
    slack = round(windows_waited * sim.stream.range)
    found = sim.incidences
    finals = play(sim.stream, lw.slack(timedelta(microseconds=slack)), found)
    course = sim.run(FixedSlack(slack))
    in_time = np.where(course.late, 0, found.count)
    rows = np.bincount(found.window, in_time, minlength=len(found.ends))
    assert finals.rows.tolist() == rows.tolist()
    some = rows > 0  # a window whose rows are all late has no final
    assert finals.wait[some].tolist() == course.wait[some].tolist()


def test_a_row_is_in_time_if_the_slack_is_what_it_needs():
    sim = Simulation(part("exponential", 60))
    for slack in (0, sim.stream.range // 3, sim.stream.range):
        course = sim.run(FixedSlack(slack))
        assert (course.late == (sim.incidences.needed > slack)).all()


def test_constants_are_what_the_simulation_gives():
    sim = Simulation(part("bimodal", 100))
    found = sim.incidences
    constants = Constants.of(sim.stream, found, np.ones(len(found.ends), bool))
    assert (np.diff(constants.completeness) > 0).all()
    for place in (0, len(constants.slack) // 2):
        slack, kept = int(constants.slack[place]), constants.completeness[place]
        course = sim.run(FixedSlack(slack))
        assert 1 - found.count[course.late].sum() / found.count.sum() == pytest.approx(kept)
        assert course.wait.mean() == pytest.approx(constants.wait(slack))
        assert constants.least(kept) == slack


@pytest.mark.parametrize("name", ["storms", "uploads", "exponential-sliding", "in-order"])
def test_no_rule_waits_less_than_the_bound(name):
    sim = Simulation(part(name, 80))
    found = sim.incidences
    every = np.ones(len(found.ends), bool)
    constants = Constants.of(sim.stream, found, every)
    for rule in (RULES["tournament"](0.9, sim.stream), FixedSlack(0), FixedSlack(sim.stream.range)):
        course = sim.run(rule)
        kept = 1 - found.count[course.late].sum() / found.count.sum()
        least = least_wait(sim, every, float(kept) - 1e-12)
        assert least <= course.wait.mean() + 1
    assert least_wait(sim, every, 0.0) == pytest.approx(constants.wait(0))


@pytest.mark.parametrize("price", [1.0, 1e4, 1e6, 1e9])
def test_each_window_of_the_bound_closes_where_it_costs_least(price):
    sim = Simulation(part("outages", 40))
    found, cuts = sim.incidences, sim.stream.cuts
    waits, lost = [], []
    for window, end in enumerate(found.ends):
        soonest = np.argmax(sim.stream.newest >= end) + 1 if end <= sim.stream.newest[-1] else 10**9
        options = []
        for epoch in range(min(soonest, len(cuts) - 1), len(cuts)):
            late = found.count[(found.window == window) & (found.epoch > epoch)].sum()
            options.append((cuts[epoch] - end + price * late, cuts[epoch] - end, late))
        _, wait, late = min(options)
        waits.append(wait)
        lost.append(late)
    every = np.ones(len(found.ends), bool)
    assert Closings.of(sim, every).at(price) == (pytest.approx(np.mean(waits)), sum(lost))


def test_a_constant_is_as_good_as_the_best_constant():
    sim = Simulation(part("exponential", 150))
    found = sim.incidences
    slack = Constants.of(sim.stream, found, np.ones(len(found.ends), bool)).slack[40]
    verdict = judge(sim, "fixed", 0.9, sim.run(FixedSlack(float(slack))))
    assert verdict.ratio == pytest.approx(1.0)


@pytest.mark.parametrize("name", FAMILIES)
def test_each_row_of_a_family_arrives_after_it_was_made_and_its_lateness_is_of_use(name):
    stream = FAMILIES[name].stream(3)
    assert (stream.arrived >= stream.ts).all()
    assert len(stream.cuts) < 20_000
    needs = Simulation(stream).incidences.needed
    assert (needs > 0).any() == (name != "in-order")


def test_there_are_24_families_of_both_kinds_at_least():
    kinds = [family.change for family in FAMILIES.values()]
    assert len(kinds) >= 24
    assert min(kinds.count("steady"), kinds.count("changing")) >= 12


def test_baselines_run_over_any_stream():
    stream = part("exponential", 200)
    verdicts = judge_all([stream], BASELINES)
    names = [*BASELINES, "clairvoyant"]
    assert [one.rule for one in verdicts] == [name for name in names for _ in range(3)]
    assert all(one.completeness > 0.8 for one in verdicts)


FIXED = {
    "exponential": 200,
    "zipf-groups": 200,
    "bimodal": 200,
    "storms": 250,
    "regimes": 250,
    "daily-lateness": 300,
    "partial-outages": 250,
}
"""A part of the arena that runs in seconds: streams of seed 0, and their first windows."""


def judged(streams):
    """The verdicts on the rule, without those on the bound of any rule."""
    return [one for one in judge_all(streams, RULES) if one.rule in RULES]


def test_on_a_fixed_part_the_rule_keeps_its_targets_sooner_than_constants():
    verdicts = judged([part(name, windows) for name, windows in FIXED.items()])
    assert [(one.stream, one.target) for one in verdicts if one.fails] == []
    assert all(one.judged for one in verdicts)
    for change, most in (("steady", 1.03), ("changing", 0.7)):
        assert mean_ratio([one for one in verdicts if one.change == change]) <= most


@pytest.mark.experiment
@pytest.mark.parametrize("name", FAMILIES)
def test_the_rule_keeps_its_targets(name):
    verdicts = judged([FAMILIES[name].stream(0)])
    assert [verdict.fails for verdict in verdicts] == [[]] * 3


@pytest.mark.experiment
def test_pictures_of_the_arena_are_drawn(tmp_path):
    verdicts = judge_all([part("exponential", 60), part("storms", 60)], RULES)
    paths = draw(verdicts, "tournament", 0, tmp_path)
    assert [path.name for path in paths] == ["arena-wait.png", "arena-kept.png", "arena-slack.png"]
    assert all(path.stat().st_size > 10_000 for path in paths)


def test_one_row_that_is_years_late_moves_nothing():
    calm = part("exponential", 120)
    at = len(calm.ts) // 2
    old = calm.ts.copy()
    old[at] -= 936 * 86_400 * 1_000_000
    slacks = [
        Simulation(stream).run(RULES["tournament"](0.95, stream)).slack
        for stream in (calm, replace(calm, ts=old))
    ]
    assert slacks[1].max() <= 1.5 * slacks[0].max()


def test_seeds_draw_different_streams_and_only_the_first_are_for_tuning():
    streams = [FAMILIES["pareto"].stream(seed) for seed in (3, 3, 4, 20)]
    assert [stream.split for stream in streams] == ["tuning"] * 3 + ["held out"]
    same = [np.array_equal(streams[0].ts, other.ts) for other in streams[1:]]
    assert same == [True, False, False]


def test_recordings_that_are_absent_say_so(monkeypatch):
    monkeypatch.delenv(FOLDER, raising=False)
    tls, *_ = RECORDINGS
    with pytest.raises(AbsentError, match=FOLDER):
        tls.load()


def test_the_tables_name_what_fails():
    sim = Simulation(part("exponential", 200))
    verdict = judge(sim, "none", 0.99, sim.run(FixedSlack(0)))
    assert verdict.fails == ["short"]
    told = StringIO()
    console = Console(file=told, width=140)
    console.print(by_stream([verdict]))
    console.print(in_the_mean([verdict]))
    assert "0.99: short" in told.getvalue()


def test_epochs_are_where_rows_are_and_one_further():
    stream = ArenaStream.of(
        np.array([5, 6, 100]),
        np.array([7, 8, 105]),
        name="",
        split="tuning",
        change="steady",
        range=10,
        slide=10,
        epoch=10,
    )
    assert stream.cuts.tolist() == [10, 20, 110, 120]
    assert stream.row_epoch.tolist() == [0, 0, 2]
    assert stream.newest.tolist() == [6, 6, 100, 100]
