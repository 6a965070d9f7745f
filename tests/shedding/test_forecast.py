"""The forecast: what a machine would do in the next epochs, without running them.

read   |-- newest --|......waiting......| now ---- rate ---->
slots  | -2 | -1 |  0  |  1  |  2  |  3 |  4  |
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lowwater.shedding.arrivals import Rate
from lowwater.shedding.choice import Search
from lowwater.shedding.coin import Place
from lowwater.shedding.costs import Costs
from lowwater.shedding.drop_geometry import Root, Slots
from lowwater.shedding.forecast import Outlook
from lowwater.windows.sliding import Sliding

SIZE = 100
ROOT = Root(0, Sliding(range=SIZE), 0, 10)
SLOTS = Slots.of([ROOT])
CALM = Outlook(
    slots=SLOTS,
    first=SLOTS.first_after(999),
    first_end=SLOTS.first_end([ROOT]),
    newest=999,
    event=1_199.0,
    speed=1.0,
    slack=0,
    behind=0.0,
    waiting=100,
    rate=Rate(0.5),
    costs=Costs(10, 1.0, 0.0, 0.0),
    results=0.0,
    dropped=(),
    closed=900,
    latency=500.0,
)
BUSY = replace(CALM, waiting=600, rate=Rate(3.0))


def choice(outlook, most=None):
    return Search(outlook, Place(outlook.first), most, seed=0).choice()


def test_ages_count_from_the_row_that_could_close_the_window():
    ages, end = CALM.ages(CALM.with_share(0.0))
    assert end == 110  # a fixed cost of 10, and 100 rows
    known = dict(zip(CALM.numbers.tolist(), ages.tolist(), strict=True))
    # The last begun window ends at 1000, 199 ago; the row after it waits: two epochs more.
    last = CALM.first - 1
    assert known[last] == pytest.approx(199 + 110 + 10 + 55, abs=2)
    assert known[last + 1] == pytest.approx(known[last] - SIZE, abs=2)
    late = replace(CALM, slack=150)
    slower = dict(
        zip(late.numbers.tolist(), late.ages(late.with_share(0.0))[0].tolist(), strict=True)
    )
    assert slower[last] < known[last]  # slack makes no result older


def test_nothing_is_dropped_if_all_is_in_time_and_most_under_a_high_load():
    assert choice(CALM).share == 0
    assert 0.5 < choice(BUSY).share <= 1


def test_a_longer_bound_and_dropped_windows_make_fewer_results_late():
    late = [BUSY.late(BUSY.with_share(share)).sum() for share in (0.0, 0.5, 1.0)]
    assert late == sorted(late, reverse=True)
    patient = replace(BUSY, latency=1_500.0)
    assert patient.late(patient.with_share(0.0)).sum() <= late[0]
    assert choice(patient).share < choice(BUSY).share


def test_what_limits_is_named():
    assert choice(CALM).limit is None
    assert choice(replace(BUSY, waiting=5_000, rate=Rate(25.0)), most=1).limit == "max_gap"
    begun = replace(
        CALM, newest=1_050, first=SLOTS.first_after(1_050), waiting=4_000, event=1_099.0
    )
    found = choice(begun)
    assert found.limit == "begun"


def test_overlapping_windows_are_dropped_in_runs_long_enough_to_skip_rows():
    root = Root(0, Sliding(range=4 * SIZE, slide=SIZE), 0, 20)
    slots = Slots.of([root])
    busy = replace(BUSY, slots=slots, first_end=slots.first_end([root]), latency=2_000.0)
    found = choice(replace(busy, first=slots.first_after(busy.newest), rate=Rate(8.0)), most=20)
    assert found.share > 0
    assert found.run >= 2 * slots.params.overlap
    assert np.isfinite(busy.ages(busy.with_share(0.0))[0]).all()
