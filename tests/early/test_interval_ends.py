"""Ends of intervals: plain quantiles compete with those of the distribution, by record."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lowwater.codec import decode, encode
from lowwater.early.calibration.competition import Cell
from lowwater.early.calibration.groups import GroupView
from lowwater.early.calibration.interval_ends import ENOUGH, FEWEST, EndsMemory
from lowwater.early.calibration.ways import Basis
from lowwater.learners.whole_numbers import WholeNumbers

TAIL = 0.05


def basis(early, *, usual=100.0, known=True):
    """Early values of groups with 50 rows, 40 of which have arrived."""
    x = np.asarray(early, float)
    one, past = np.ones(len(x)), np.full(len(x), known)
    view = GroupView(50 * one, 10 * one, 10 * one, np.zeros(len(x), np.int64), past)
    return Basis(x, 40 * one, view, usual * one, x / 0.8, usual * one)


def cells(made):
    return Cell.of(made.view, np.full(len(made.x), 0.2))


def learned(wide, *, windows=30, known=True, seed=0):
    """The memory after finals that are 5 to 15 above 80; `wide` are the mixture's distances."""
    rng, memory = np.random.default_rng(seed), EndsMemory()
    for window in range(windows):
        made = basis(np.full(20, 80.0), known=known)
        mixed = [made.x + one for one in wide]
        final = 80 + rng.uniform(5, 15, 20)
        memory = memory.of("scaled", TAIL).taught(
            made, cells(made), mixed, final, (window, window + 1)
        )
    return memory


def chosen(memory, wide, *, windows=30, early=80.0, known=True):
    made = basis([early], known=known)
    mixed = [made.x + one for one in wide]
    return memory.of("scaled", TAIL).chosen(made, cells(made), mixed, windows)[:, 0]


def test_the_distribution_has_the_first_word():
    assert chosen(EndsMemory(), (0, 900)).tolist() == [80, 980]
    assert chosen(learned((0, 900)), (0, 900), windows=FEWEST - 1).tolist() == [80, 980]


def test_a_plain_end_replaces_one_that_is_far_off():
    low, high = chosen(learned((5.4, 900)), (5.4, 900))
    assert low == pytest.approx(85.4)
    assert high == pytest.approx(95, abs=1.5)


def test_each_side_has_its_own_record():
    low, high = chosen(learned((-400, 14.5)), (-400, 14.5))
    assert low == pytest.approx(85.5, abs=1.5)
    assert high == pytest.approx(94.5)


def test_a_group_without_a_past_keeps_the_ends_of_the_distribution():
    memory = learned((5.4, 900))
    assert chosen(memory, (5.4, 900), known=False).tolist() == pytest.approx([85.4, 980])


def test_an_end_that_was_missed_too_often_is_not_chosen():
    memory = learned((5.4, 900))
    record = memory.record.counts.copy()
    candidates = (record.shape[-1] - 1) // 2
    record[1, ..., 2 + candidates :] = record[1, ..., :1] * 16_384 // 10  # a tenth was beyond
    assert chosen(EndsMemory(memory.errors, WholeNumbers(record)), (5.4, 900))[1] > 200


def test_an_upper_end_has_a_limit_from_all_finals():
    memory = learned((5.4, 14.6), windows=1 + ENOUGH // 20)
    _, high = chosen(memory, (5.4, 1e6), windows=FEWEST)
    assert high < 300


def test_ends_are_in_order_and_the_memory_has_whole_numbers():
    memory = learned((20, -20))
    low, high = chosen(memory, (20, -20))
    assert low <= high
    again = decode(EndsMemory, json.loads(json.dumps(encode(memory))))
    assert again == memory
    assert memory.record.counts.dtype == np.int64
