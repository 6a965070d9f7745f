"""The load shedder: results stay young, no more is shed than that needs, and it ends by itself.

The machine is simulated: an epoch takes 0.2 s, and a row 5 ms, so that it can do 200 rows a second.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

import lowwater as lw
from experiments.streams.overload import Prices, live
from lowwater.control.context import InputProgress
from lowwater.control.drop import DropPlan
from lowwater.control.measures import EpochMeasure, InputMeasure, Measures
from lowwater.control.report import EpochReport
from lowwater.control.watermark import Watermarks
from lowwater.shedding.drop_geometry import Params, Root, Slots
from lowwater.shedding.load_model import Bound, CostMemory, Costs, Epoch, ExpectedLoad, learn
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
    feed = lw.feed("ts timestamp")
    stream = lw.stream(feed, time="ts", watermark=lw.ordered())
    query = stream.window(range=range).agg(n=lw.count())
    return live(query, np.concatenate(arrivals).astype(np.int64), PRICES, shed, until=start)


@pytest.mark.parametrize("load", [2, 5])
def test_under_load_results_stay_young_and_as_many_come_as_the_costs_allow(load):
    found = lived((30, 200 * load))
    assert found.ages.max() < 5
    kept = 1 - sum(found.shed[5:]) / sum(found.rows[5:])
    length = np.mean(found.length[5:])
    allowed = (1 - PRICES.epoch / length) / load
    assert kept == pytest.approx(allowed, rel=0.1)


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


def test_costs_are_learned_from_epochs():
    memory, random = CostMemory(), np.random.default_rng(1)
    for _ in range(40):
        kept, shed, results = (int(n) for n in random.integers(0, 2_000, 3))
        took = 100_000 + 50 * kept + 3 * shed + 20 * results + random.normal(0, 500)
        memory, costs = learn(memory, Epoch(took, took, kept, shed, results))
    assert costs.fixed == pytest.approx(100_000, rel=0.05)
    assert costs.kept == pytest.approx(50, rel=0.05)
    assert costs.shed == pytest.approx(3, rel=0.3)
    assert costs.result == pytest.approx(20, rel=0.1)


def test_overlapping_windows_are_left_out_in_runs_long_enough_to_spare_rows():
    bound = Bound(Params(4 * SECOND, SECOND), 20, 50 * SECOND)
    epoch = Epoch(SECOND, SECOND, 100, 0)
    need = bound.needs(Costs(0, 20_000, 0, 0), ExpectedLoad(100 / SECOND, 0.01), epoch)
    spared = bound.params.spared(need.run) / ((need.run + 1) * SECOND)
    assert spared >= 0.5
    assert need.share * bound.early(need.run) == pytest.approx(0.5, abs=0.01)
    assert need.load == pytest.approx(2)


def test_where_no_row_can_be_dropped_early_the_work_behind_windows_is_what_counts():
    bound = Bound(Params(100, 1), 10, 50 * SECOND)
    epoch = Epoch(SECOND, SECOND, 100, 0)
    need = bound.needs(Costs(0, 1, 0, 1), ExpectedLoad(0.625, 1.0), epoch)
    assert need.share == pytest.approx(0.4)  # 25 % too fast, half of the work behind the windows
    assert not bound.needs(Costs(0, 2, 0, 0.1), ExpectedLoad(0.625, 1.0), epoch).reachable


def test_queries_are_shut_down_costliest_first_if_the_bound_is_out_of_reach():
    roots = tuple(Root(n, Sliding(range="1 second"), 0, 1, name) for n, name in enumerate("ab"))
    shedder = LoadShedder(BOUND, roots, Slots.of(roots), {0: 2})
    memory, dropped, told = shedder.begin(), DropPlan(), []
    for n in range(1, 30):
        marks = Watermarks(n * SECOND)
        counts = {0: {"in": 900}, 1: {"in": 1_000}}
        rows = 1_000 if n < 20 else 10
        block, epoch = InputMeasure(0, rows, counts=counts), EpochMeasure(took=rows * 10_000)
        measured = Measures((block,), epoch=(epoch,))
        known = EpochReport(
            [InputProgress(marks, n * SECOND)],
            measured,
            n * SECOND,
            ports=(marks, marks),
            dropped=dropped,
        )
        memory, dropped = shedder.advance(memory, known)
        told += [(news.reason, news.operator) for news in memory.news]
        if n == 19:
            assert list(memory.load.closed) == [1]
            assert dropped.of(0) != dropped.of(1)
    assert ("closed", 1) in told
    assert not memory.load.closed  # rows come slowly again
