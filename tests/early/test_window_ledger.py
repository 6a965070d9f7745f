"""The ledger: which windows a policy has requested, and which of them have no answer yet."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lowwater.codec import decode, encode
from lowwater.early.window_ends import WindowEnds
from lowwater.early.window_ledger import MOST_RUNS, WindowLedger, WindowRun
from lowwater.windows.landmark import Landmark
from lowwater.windows.sliding import Sliding
from tests.strategies import examples

GRID = WindowEnds((Sliding(range=20, slide=10),))


def answered(ledger, *ends, event=0, now=0, length=4):
    return ledger.answered(ends, GRID, event=event, now=now, length=length)


def waiting(ledger):
    return [(run.since, run.upto) for run in ledger.waiting]


def test_a_window_without_an_answer_is_requested_again_once_rows_may_be_in_it():
    """
    requested  30 40 50 60
    answered         50
    rows at        35
    """
    ledger, early = answered(WindowLedger().requested(20, 60, now=0), 50, event=38)
    assert early == []
    assert waiting(ledger.requested(60, 60, now=0)) == []
    ledger = ledger.reached(((35, 36),), GRID)
    assert waiting(ledger.requested(60, 60, now=0)) == [(35, 49)]


def test_an_answer_to_a_second_prod_shows_that_the_first_came_too_early():
    ledger, _ = answered(WindowLedger().requested(20, 40, now=0), event=21)
    ledger = ledger.reached(((25, 26),), GRID).requested(40, 40, now=0)
    assert answered(ledger, 30, 40)[1] == [30 - 21, 40 - 21]


def test_prods_that_find_nothing_wait_longer_each_time():
    ledger, times = WindowLedger().requested(0, 10, now=0), [0]
    for now in range(1, 60):
        if ledger.waiting:
            ledger, _ = answered(ledger, now=now)
        ledger = ledger.reached(((5, 6),), GRID).requested(10, 10, now)
        if ledger.waiting:
            times.append(now)
    assert times == [0, 1, 6, 19, 48]


def test_windows_with_finals_leave_the_ledger():
    ledger, _ = answered(WindowLedger().requested(0, 100, now=0))
    assert ledger.above(40).empty[0].since == 40
    assert ledger.above(100).empty == ()


def test_a_landmark_window_is_reached_by_every_row_before_its_end():
    grid = WindowEnds((Landmark(slide=10),))
    ledger, _ = WindowLedger().requested(0, 30, now=0).answered((), grid, event=0, now=0, length=1)
    assert waiting(ledger.reached(((12, 13),), grid).requested(30, 30, now=0)) == [(12, 30)]


def test_of_very_many_runs_the_newest_are_kept():
    runs = tuple(WindowRun(n * 20, n * 20 + 10) for n in range(MOST_RUNS + 5))
    kept = WindowLedger(empty=runs).above(-1).empty
    assert [run.since for run in kept] == [20 * n for n in range(5, MOST_RUNS + 5)]


times = st.tuples(st.integers(0, 200), st.integers(1, 30)).map(lambda one: (one[0], sum(one)))


@examples(100)
@given(
    epochs=st.lists(
        st.tuples(
            st.integers(0, 60), st.lists(st.booleans(), max_size=8), st.lists(times, max_size=3)
        ),
        max_size=12,
    ),
    slide=st.integers(3, 25),
    size=st.integers(3, 60),
)
def test_each_window_is_answered_waiting_or_empty(epochs, slide, size):
    """The ledger against a set of windows, one by one."""
    grid = WindowEnds((Sliding(range=size, slide=slide),))
    ledger, open_ends, last = WindowLedger(), set(), grid.last_end(0)
    for now, (further, found, rows) in enumerate(epochs):
        mine = [end for run in ledger.waiting for end in ends_of(grid, run)]
        hit = {end for end, one in zip(sorted(mine), found, strict=False) if one}
        ledger = ledger.reached(tuple(rows[:1]), grid)
        ledger, _ = ledger.answered(tuple(sorted(hit)), grid, event=now, now=now, length=1)
        open_ends -= hit
        upto = grid.last_end(last + further)
        open_ends |= set(range(last + slide, upto + 1, slide))
        ledger = ledger.requested(last, upto, now)
        last = upto
        left = [end for run in (*ledger.empty, *ledger.waiting) for end in ends_of(grid, run)]
        assert sorted(left) == sorted(open_ends)
        assert decode(WindowLedger, json.loads(json.dumps(encode(ledger)))) == ledger


def ends_of(grid, run):
    at, ends = grid.next_end(run.since + 1), []
    while at <= run.upto:
        ends.append(at)
        at = grid.next_end(at + 1)
    return ends
