"""The law of early answers: every window is requested in time, none before it begins.

A window that holds a row at its lead moment has an answer at the end of the epoch after that
moment, or its final. The lead moment is found by brute force over rows and epochs
(`experiments/arena/early_asks.py`); that module runs the policies alone, which the last tests
compare with the engine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater as lw
from experiments.arena.early_asks import AskSimulation
from experiments.arena.early_play import asks_of, play_asks
from experiments.arena.stream import ArenaStream
from lowwater.ticks import TICKS_PER_SECOND as SECOND
from tests.strategies import examples

BEGIN = 1_700_000_000
MOST_ASKS = 3


@dataclass(frozen=True)
class Part:
    """A part of a stream: for `length` seconds, `rate` rows a second that are late by `delay`.

    In a stall, rows arrive together at the end of the part.
    """

    length: int
    rate: float
    delay: float = 0.2
    stall: bool = False


def stream_of(parts, *, slide=10, slides=1, epoch=1.0, groups=3, seed=0):
    """A stream of all parts, one after the other."""
    random, at, times, arrivals = np.random.default_rng(seed), 0.0, [], []
    for part in parts:
        ts = at + np.sort(random.uniform(0, part.length, random.poisson(part.rate * part.length)))
        late = random.exponential(part.delay, len(ts))
        at += part.length
        times.append(ts)
        arrivals.append(np.full(len(ts), at) if part.stall else ts + late)
    ts, arrived = (
        ((BEGIN + np.concatenate(some)) * SECOND).astype(np.int64) for some in (times, arrivals)
    )
    return ArenaStream.of(
        ts,
        np.maximum(arrived, ts),
        name="",
        split="tuning",
        change="changing",
        key=random.integers(0, groups, len(ts)),
        range=slide * slides * SECOND,
        slide=slide * SECOND,
        epoch=round(epoch * SECOND),
    )


def pauses_of(*seconds):
    return tuple(((BEGIN + a) * SECOND, (BEGIN + b) * SECOND) for a, b in seconds)


def shares(sim, policy, lead, asks=None):
    """The shares of windows with rows at their lead that are answered, and answered in time."""
    asks = sim.run(policy) if asks is None else asks
    judged = sim.judged(round(lead * sim.stream.slide))
    return sim.in_time(asks, round(lead * sim.stream.slide))[judged].mean(), judged.sum()


lengths = st.integers(3, 60)
parts = st.lists(
    st.one_of(
        st.builds(Part, lengths, st.sampled_from([0.3, 2.0, 20.0]), st.sampled_from([0.2, 3, 15])),
        st.builds(Part, lengths, st.just(0.0)),
        st.builds(Part, lengths, st.sampled_from([1.0, 10.0]), stall=st.just(True)),
    ),
    min_size=2,
    max_size=8,
)


@examples(60)
@given(
    parts=parts,
    slides=st.integers(1, 4),
    epoch=st.sampled_from([0.5, 1.0, 3.0]),
    share=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.8, 1.0]),
    slack=st.sampled_from([0, 4, 30]),
    paused=st.lists(st.tuples(st.integers(40, 200), st.integers(3, 60)), max_size=1),
    restarts=st.sets(st.integers(1, 200), max_size=2),
    seed=st.integers(0, 1_000),
)
def test_every_window_is_answered_in_time(
    parts, slides, epoch, share, slack, paused, restarts, seed
):
    stream = stream_of([Part(30, 5.0), *parts], slides=slides, epoch=epoch, seed=seed)
    pauses = pauses_of(*((a, a + b) for a, b in paused))
    sim = AskSimulation(stream, slack * SECOND, pauses)
    asks = sim.run(lw.early_before(share), restarts)
    lead = int(share * stream.slide)
    judged, in_time = sim.judged(lead), sim.in_time(asks, lead)
    assert in_time[judged].all(), np.flatnonzero(judged & ~in_time)
    assert sim.unlawful(asks) == 0
    assert asks.asked.mean() <= MOST_ASKS
    assert len(asks.prods) <= MOST_ASKS * len(sim.ends)
    if restarts:
        assert asks.prods == sim.run(lw.early_before(share)).prods


STEADY = Part(60, 20.0)
HARD = {
    "an epoch of 60 s": ([STEADY] * 6, pauses_of((100, 160))),
    "silence 50/25 s": ([Part(50, 20.0), Part(25, 0.0)] * 5, ()),
    "uploads every 12 s": ([Part(12, 20.0, stall=True)] * 30, ()),
    "a stall": ([STEADY, STEADY, Part(45, 20.0, stall=True), STEADY, STEADY], ()),
}


@pytest.mark.parametrize("slides", [1, 3])
@pytest.mark.parametrize("name", HARD)
def test_after_pauses_silences_and_uploads_windows_are_requested_in_time(name, slides):
    rows, pauses = HARD[name]
    sim = AskSimulation(stream_of(rows, slides=slides), 5 * SECOND, pauses)
    for share in (0.1, 0.3, 0.6):
        in_time, judged = shares(sim, lw.early_before(share), share)
        assert in_time == 1.0
        assert judged >= 10
    dumb, _ = shares(sim, lw.early_every("10 seconds"), 0.3)
    assert dumb < 0.9


@pytest.mark.parametrize("name", HARD)
def test_the_engine_requests_in_time_what_the_policy_requests(name):
    rows, pauses = HARD[name]
    stream = stream_of([Part(p.length, p.rate / 4, p.delay, p.stall) for p in rows][:20], slides=2)
    sim = AskSimulation(stream, 5 * SECOND, pauses)
    played = play_asks(sim, lw.early_before(0.3), restarts=(70, 71, 120))
    asks = asks_of(sim, played)
    assert shares(sim, None, 0.3, asks)[0] == 1.0
    assert asks.prods == sim.run(lw.early_before(0.3)).prods
    assert no_early_row_after_its_final(played)
    each = Counter(end for epoch in played for end in epoch.early)
    assert set(each.values()) == {1}


def no_early_row_after_its_final(played):
    final = set()
    for epoch in played:
        final |= set(epoch.final)
        if final & set(epoch.early):
            return False
    return True


def test_in_a_silence_the_clock_requests_windows_and_each_costs_two_epochs():
    sim = AskSimulation(stream_of([Part(30, 5.0), Part(200, 0.0), Part(30, 5.0)], slides=3), SECOND)
    played = play_asks(sim, lw.early_before(0.2))
    silent = [epoch for epoch in played if 34 <= epoch.tick <= 220]
    assert [epoch.rows for epoch in silent] == [0] * len(silent)
    assert len({end for epoch in silent for end in epoch.early}) == 2
    assert len(silent) == 4
