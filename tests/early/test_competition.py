"""The competition of estimates: the one with the smallest losses wins, in each cell by itself."""

from __future__ import annotations

import numpy as np

from lowwater.early.calibration import competition
from lowwater.early.calibration.competition import LEAN, SHAPE, Cell


def cells(count, position=2, size=1):
    return Cell(*(np.full(count, at) for at in (0, position, size)))


def after(finals, estimates, cell, windows=(0, 1)):
    """Return the record after finals; `estimates` are the median, the raw and the completed one."""
    values = [np.full(len(finals), value, float) for value in estimates]
    record = np.zeros(SHAPE, np.int64)
    return competition.taught(record, cell, values, np.asarray(finals, float), windows)


def test_the_median_wins_without_a_record():
    assert competition.winner(np.zeros(SHAPE, np.int64), cells(3)).tolist() == [0, 0, 0]


def test_the_median_wins_if_it_is_better_by_a_margin():
    for median, best in ((9.0, 1), (9.02, 1), (9.1, 0)):
        record = after([10.0] * 40, (median, 9.0, 8.0), cells(40))
        assert competition.winner(record, cells(1)).tolist() == [best]


def test_the_smallest_loss_wins():
    for best, values in enumerate([(10, 8, 13), (8, 10, 13), (13, 8, 10)]):
        record = after([10.0, 10.5] * 20, values, cells(40))
        assert competition.winner(record, cells(2)).tolist() == [best, best]


def test_a_cell_with_its_own_record_differs_from_others_and_an_empty_one_leans_to_all():
    many, few = cells(400, size=1), cells(100, size=5)
    record = after([10.0] * 400, (8, 10, 13), many) + after([10.0] * 100, (8, 13, 10), few)
    assert competition.winner(record, cells(1, size=1)).tolist() == [1]
    assert competition.winner(record, cells(1, size=5)).tolist() == [2]
    assert competition.winner(record, cells(1, size=3)).tolist() == [1]
    assert competition.winner(record, cells(1, position=0)).tolist() == [0]
    assert LEAN < 100


def test_old_records_fade():
    old = after([10.0] * 64, (8, 10, 13), cells(64))
    new = competition.taught(
        old, cells(1), [np.array([v]) for v in (8.0, 10.0, 13.0)], np.array([10.0]), (0, 240)
    )
    assert new[0, 2, 1, 0] == 64 // 16 + 1
