"""Recurring batches of late rows, and shortfalls of arrivals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.learners.late_batches import OVERDUE, LateBatches
from lowwater.learners.shortfall import Shortfall


def after(times, *, until, step=100, late=30):
    batches = LateBatches()
    for newest in range(0, until, step):
        some = late if newest in times else 0
        batches = batches.plus(newest, some, passed=step / 1_000, shortest=1_000)
    return batches


@given(st.integers(25, 60), st.integers(3, 6))
def test_the_next_of_regular_batches_is_expected_after_the_same_distance(steps, number):
    distance = steps * 100
    batches = after({distance * n for n in range(1, number + 1)}, until=distance * number + 100)
    assert batches.expected == distance * (number + 1)


def test_a_batch_that_does_not_come_ends_the_expectation():
    times = {5_000, 10_000, 15_000}
    assert after(times, until=15_000 + int(5_000 * OVERDUE)).expected == 20_000
    assert after(times, until=15_200 + int(5_000 * OVERDUE)).expected is None


def test_irregular_batches_are_not_expected():
    assert after({5_000, 8_000, 15_000}, until=16_000).expected is None


def test_a_batch_may_take_several_epochs():
    times = {n + more for n in (5_000, 10_000, 15_000) for more in (0, 100)}
    batches = after(times, until=16_000)
    assert (batches.last, batches.expected) == (15_100, 20_000)


@given(st.lists(st.floats(0, 200), max_size=50))
def test_rows_are_missing_only_where_fewer_arrive_than_usual(arrivals):
    short = Shortfall()
    for epoch, rows in enumerate(arrivals):
        short = short.plus(epoch, rows, usual=100.0)
    assert short.missing >= 0
    assert short.missing <= sum(max(90.0 - rows, 0) for rows in arrivals) + 0.1
    if all(rows >= 90 for rows in arrivals):
        assert not short.certain(100.0)


@pytest.mark.parametrize(("missing", "certain"), [(39.0, False), (41.0, True)])
def test_four_standard_deviations_are_more_than_chance(missing, certain):
    assert Shortfall(missing, 0).certain(rate=100.0) == certain
