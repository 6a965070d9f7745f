"""The arena of load: nothing is dropped while the work fits; otherwise results stay in time.

The machine is simulated, so every figure is the same in each run.
"""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from experiments.arena.load.families import FAMILIES
from experiments.arena.load.machine import LoadStream, play
from experiments.arena.load.planner import Planner
from experiments.arena.load.report import CALM, LoadVerdict, by_family, by_stream
from experiments.arena.load.shedders import FollowingShedder, LibraryShedder, NoShedder
from lowwater.ticks import TICKS_PER_SECOND as SECOND

LATENCY = 10 * SECOND


def stream(bursts, *, range=1.0, fixed=0.02, slack=0.0, **given):
    """Return a stream of bursts (start, length, work), in bounds on latency, of rows in order."""
    row = LATENCY / 400
    times = [
        (start + length * (np.arange(n := int(work * LATENCY / row)) + 0.5) / max(n, 1)) * LATENCY
        for start, length, work in bursts
    ]
    # Rows now and then, which cost next to nothing, let windows close.
    ticks = np.arange(0, 20, 0.02) * LATENCY
    arrived = np.sort(np.concatenate([*times, ticks])).astype(np.int64)
    return LoadStream(
        "",
        arrived,
        arrived,
        round(range * LATENCY / 10),
        round(slack * LATENCY),
        LATENCY,
        fixed * LATENCY,
        row,
        0.02 * row,
        **given,
    )


BURSTS = st.lists(
    st.tuples(st.floats(0, 18), st.floats(0, 2), st.floats(0, 0.7)), min_size=0, max_size=12
)


@settings(suppress_health_check=[HealthCheck.filter_too_much], deadline=None, max_examples=25)
@given(
    bursts=BURSTS,
    range=st.floats(0.1, 8),
    fixed=st.floats(0.001, 0.05),
    slack=st.sampled_from([0.0, 0.5, 3.0]),
    warm_up=st.lists(st.floats(0, 2), max_size=4),
)
@example(bursts=[], range=1.0, fixed=0.03125, slack=0.0, warm_up=[1.0, 0.5, 0.5])
def test_nothing_is_dropped_below_four_fifths_of_the_load(bursts, range, fixed, slack, warm_up):
    extra = tuple(LATENCY * one for one in sorted(warm_up, reverse=True))
    given_ = stream(bursts, range=range, fixed=fixed, slack=slack, warm_up=extra)
    assume(given_.load() < CALM)
    assert not play(given_, LibraryShedder(given_)).dropped.any()


@settings(suppress_health_check=[HealthCheck.filter_too_much], deadline=None, max_examples=25)
@given(bursts=BURSTS, range=st.floats(0.1, 8), fixed=st.floats(0.001, 0.05))
def test_results_are_in_time_without_shedding_below_the_full_load(bursts, range, fixed):
    """Three epochs never take longer than the work that arrives within the bound."""
    given_ = stream(bursts, range=range, fixed=fixed)
    assume(given_.load() < 1)
    assert play(given_, NoShedder()).over == 0


@settings(deadline=None, max_examples=10)
@given(
    bursts=st.lists(st.tuples(st.floats(0, 18), st.floats(0, 3), st.floats(0, 20)), max_size=4),
    range=st.floats(0.1, 8),
    seed=st.integers(0, 9),
)
def test_a_window_that_has_begun_is_never_dropped(bursts, range, seed):
    given_ = replace(stream(bursts, range=range), uneven=0.02 * seed)
    for gives in ("latency", "max_gap"):
        play(given_, LibraryShedder(given_, gives))  # raises if one is


@pytest.mark.parametrize("name", ["step", "ramp", "overload"])
def test_results_are_in_time_whatever_the_load(name):
    given_ = FAMILIES[name].stream(3)
    found = play(given_, LibraryShedder(given_))
    assert found.over <= 0.02
    assert play(given_, NoShedder()).over > 0.3
    planned = Planner(given_).course()
    assert planned.over == 0
    assert found.lost <= planned.lost + 0.1


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_a_spike_makes_windows_late_that_only_a_planner_who_foresees_it_has_in_time(seed):
    spikes = FAMILIES["spikes"].stream(seed)
    foreseen, unforeseen = Planner(spikes).course(), Planner(spikes, foresees=False).course()
    found = play(spikes, LibraryShedder(spikes))
    assert foreseen.over == 0
    assert unforeseen.over > 0.01
    assert found.over <= unforeseen.over + 0.02
    # Whoever does not foresee drops no window before the machine is behind.
    first = int(np.argmax(unforeseen.dropped))
    calm = [e for e in unforeseen.epochs if e.end <= first * spikes.range]
    assert calm[-1].waiting * spikes.row > 0.1 * spikes.latency


def test_a_planner_who_does_not_foresee_plans_the_same_where_the_load_rises_slowly():
    given_ = FAMILIES["overload"].stream(3)
    assert Planner(given_, foresees=False).course().over == Planner(given_).course().over == 0


def test_the_gap_is_kept_if_latency_gives_and_latency_if_the_gap_gives():
    given_ = stream([(2, 10, 150)], range=0.5)
    results = {}
    for gives in ("latency", "max_gap"):
        found = play(given_, LibraryShedder(given_, gives, max_gap=4))
        runs = np.diff(np.flatnonzero(~found.dropped)) - 1
        results[gives] = runs.max(), found.over
    assert results["latency"][0] <= 4
    assert results["latency"][1] > 0.3
    assert results["max_gap"][0] > 4
    assert results["max_gap"][1] <= 0.05


def test_slack_and_warm_up_are_load_only_to_a_shedder_that_follows():
    for name in ("warm-up", "calm-square"):
        given_ = replace(FAMILIES[name].stream(3), slack=0) if name == "warm-up" else None
        given_ = given_ or FAMILIES[name].stream(3)
        assert play(given_, FollowingShedder(given_)).dropped.any()
        assert not play(given_, LibraryShedder(given_)).dropped.any()


@settings(deadline=None, max_examples=20)
@given(
    bursts=BURSTS,
    pauses=st.lists(st.tuples(st.floats(0, 15), st.floats(0.01, 1.5)), max_size=3),
    seed=st.integers(0, 99),
)
def test_the_load_with_pauses_is_that_of_the_busiest_interval(bursts, pauses, seed):
    spans, at = [], 0.0
    for start, length in pauses:
        at += start
        spans.append((round(at * LATENCY), round((at + length) * LATENCY)))
        at += length
    given_ = stream(bursts, pauses=tuple(spans))
    assert given_.busy() >= given_.load() - 1e-9

    def loaded(since):
        until = since + LATENCY
        rows = ((given_.arrived >= since) & (given_.arrived <= until)).sum()
        off = sum(max(0, min(until, b) - max(since, a)) for a, b in spans)
        return (rows * given_.row + off + 3 * given_.fixed) / LATENCY

    random = np.random.default_rng(seed)
    some = [*random.integers(0, 20 * LATENCY, 50).tolist(), *(a for a, _ in spans)]
    some += given_.arrived[random.integers(0, len(given_.arrived), 50)].tolist()
    some += [b - LATENCY for _, b in spans]
    assert max(map(loaded, some)) <= given_.busy() + 1e-9
    if not spans:
        assert given_.busy() == pytest.approx(given_.load(), abs=2 * given_.row / LATENCY)


@pytest.mark.parametrize("name", ["sleep", "restart", "naps"])
def test_a_pause_is_load_and_what_is_dropped_after_it_does_not_break_the_law(name):
    """Rows of several bounds wait after a long pause, so the work does not fit."""
    given_ = FAMILIES[name].stream(1)
    assert given_.load() < CALM
    longest = max(end - start for start, end in given_.pauses)
    assert given_.busy() >= min(longest, given_.latency) / given_.latency
    if name == "naps":
        assert not play(given_, LibraryShedder(given_)).dropped.any()


def test_the_tables_have_a_line_for_each_stream_and_family():
    given_ = stream([(2, 4, 8)])
    course = play(given_, LibraryShedder(given_))
    family = FAMILIES["step"]
    verdicts = [
        LoadVerdict(family, n, given_.load(), given_.busy(), course, course, course, course)
        for n in (1, 2)
    ]
    console = Console(file=StringIO(), width=140)
    console.print(by_stream(verdicts))
    console.print(by_family(verdicts))
    assert console.file.getvalue().count("step") == 3
