"""The load shedder: results stay young, no more is shed than that needs, and it ends by itself.

The machine is simulated: an epoch takes 0.2 s, and a row 5 ms, so that it can do 200 rows a second.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lowwater as lw
from experiments.streams.overload import Prices, live
from lowwater.control.context import InputProgress
from lowwater.control.drop import DropPlan
from lowwater.control.measures import EpochMeasure, InputMeasure, Measures
from lowwater.control.report import EpochReport
from lowwater.control.watermark import Watermarks
from lowwater.shedding.drop_geometry import Root, Slots
from lowwater.shedding.shedder import LoadShedder
from lowwater.ticks import TICKS_PER_SECOND as SECOND
from lowwater.windows.sliding import Sliding

PRICES = Prices(epoch=200_000, row=5_000.0, shed=20.0)
BOUND = lw.shed(latency="5 seconds", max_gap=10)


def lived(*stretches, shed=BOUND, range="250 milliseconds"):
    """Run so many seconds at so many rows a second, one stretch after the other."""
    arrivals, start = [], 0
    for seconds, rate in stretches:
        arrivals.append(start + (np.arange(seconds * rate) + 0.5) / rate * SECOND)
        start += seconds * SECOND
    return played(np.concatenate(arrivals).astype(np.int64), shed, range, until=start)


def played(arrivals, shed, range, until):
    """Run a count over windows of a stream that arrives at the given times."""
    feed = lw.feed("ts timestamp")
    stream = lw.stream(feed, time="ts", watermark=lw.ordered())
    query = stream.window(range=range).agg(n=lw.count())
    return live(query, arrivals, PRICES, shed, until=until)


@pytest.mark.parametrize("load", [2, 5])
def test_under_load_results_stay_young_and_as_many_come_as_the_costs_allow(load):
    found = lived((10, 100), (30, 200 * load))
    assert found.ages.max() < 5
    busy = [n for n, at in enumerate(found.at) if at > 15 * SECOND]
    kept = 1 - sum(found.shed[n] for n in busy) / sum(found.rows[n] for n in busy)
    length = np.mean([found.length[n] for n in busy])
    allowed = (1 - PRICES.epoch / length) / load
    assert kept == pytest.approx(allowed, rel=0.1)


@pytest.mark.parametrize("load", [2, 5])
def test_a_start_into_overload_drops_once_costs_are_known(load):
    how = lw.shed(latency="5 seconds", max_gap=10, gives="max_gap")
    found = lived((30, 200 * load), shed=how)
    late = found.ages[np.array(found.ends) > 10 * SECOND]
    assert late.max() < 5


def test_without_shedding_results_grow_older_without_end():
    found = lived((30, 400), shed=None)
    assert found.ages[-1] > 20


def test_after_a_burst_shedding_ends_by_itself_and_does_not_come_back():
    found = lived((10, 100), (10, 600), (20, 100))
    on = [shedding for shedding, _ in groupby(p > 0 for p in found.p)]
    assert on == [False, True, False]
    over = next(at for at, p in zip(reversed(found.at), reversed(found.p), strict=True) if p)
    assert over < 25 * SECOND
    assert found.ages[-1] < 2


def test_a_stream_that_the_machine_can_keep_up_with_loses_nothing():
    assert sum(lived((20, 150)).shed) == 0


@settings(max_examples=8, deadline=None)
@given(
    bursts=st.lists(st.tuples(st.floats(0, 11), st.floats(0, 1), st.integers(1, 600)), max_size=4),
    length=st.sampled_from(["100 milliseconds", "1 second", "7 seconds"]),
)
def test_below_four_fifths_of_the_load_lowwater_drops_nothing(bursts, length):
    """The load is the work of 5 seconds, and the fixed costs of three epochs, by 5 seconds."""
    even = np.arange(0, 12, 0.1)
    times = [start + span * np.linspace(0, 1, rows) for start, span, rows in bursts]
    arrivals = np.sort(np.concatenate([even, *times]))
    most = (np.searchsorted(arrivals, arrivals + 5, "right") - np.arange(len(arrivals))).max()
    assume(most * PRICES.row + 3 * PRICES.epoch < 0.8 * 5 * SECOND)
    found = played((arrivals * SECOND).astype(np.int64), BOUND, length, until=12 * SECOND)
    assert sum(found.shed) == 0
    assert max(found.p) == 0


@pytest.mark.parametrize(("weights", "first"), [({}, 1), ({"b": 5}, 0)])
def test_queries_are_shut_down_costliest_first_if_the_bound_is_out_of_reach(weights, first):
    spec = Sliding(range="1 second")
    roots = tuple(Root(n, spec, 0, 1, name, name) for n, name in enumerate("ab"))
    how = lw.shed(latency="5 seconds", max_gap=10, weights=weights)
    shedder = LoadShedder(how, roots, Slots.of(roots), {0: 2})
    memory, dropped, told, now, waiting = shedder.begin(), DropPlan(), [], 0, 0
    for n in range(1, 40):
        rows = (900 + 200 * (n % 2)) if n < 30 else 10
        took = 100_000 + rows * 1_000
        waiting = waiting + 4 * rows if n < 30 else 0
        now += took
        marks = Watermarks(now)
        counts = {0: {"in": 900}, 1: {"in": 1_000}}
        blocks = InputMeasure(0, rows, counts=counts), InputMeasure(0, waiting=waiting)
        measured = Measures(blocks, epoch=(EpochMeasure(took=took, run=n - 1),))
        known = EpochReport(
            [InputProgress(marks, now)], measured, now, ports=(marks, marks), dropped=dropped
        )
        memory, dropped = shedder.advance(memory, known)
        told += [(news.reason, news.operator) for news in memory.news]
        if n == 15:
            assert memory.load.choice.limit == "max_gap"
            assert list(memory.load.closed) == [first]
            assert dropped.of(0) != dropped.of(1)
    assert ("closed", first) in told
    assert not memory.load.closed  # rows come slowly again
