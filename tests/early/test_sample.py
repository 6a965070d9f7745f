"""Early results that are remembered until their finals come: few, and always the same ones."""

from __future__ import annotations

from dataclasses import replace

from lowwater.early.calibration.learner import (
    FEWEST_GROUPS,
    MOST_GROUPS,
    MOST_WAITING,
    SampleMemory,
    WaitingResult,
)


def answer(wid, group, share):
    return WaitingResult(f"{wid} {group}", "", group, wid, wid, share, 1.0, 0.0, 0, {}, {})


def remembered(answers, memory=None):
    known = memory or SampleMemory()
    return known.with_results(known.waiting, answers)


def test_of_many_groups_some_are_remembered_and_stay_so():
    groups = [g << 18 for g in range(4_000)]
    memory = remembered([answer(1, g, 0.5) for g in groups])
    chosen = {w.hash for w in memory.waiting}
    assert 0 < len(chosen) <= MOST_GROUPS
    later = remembered([answer(2, g, 0.5) for g in groups], replace(memory, waiting=()))
    assert {w.hash for w in later.waiting} == chosen


def test_of_many_windows_some_are_remembered_with_their_first_answers():
    memory = SampleMemory()
    for epoch in range(100):
        open_windows = range(epoch, epoch + 100)
        some = [answer(w, 0, 1 - (w - epoch) / 101) for w in open_windows]
        memory = remembered(some, memory)
        assert len(memory.waiting) <= MOST_WAITING
    firsts = {w.wid for w in memory.waiting if w.share < 0.3}
    assert {w.wid for w in memory.waiting if w.wid >= 110} <= firsts


def test_of_answers_at_one_position_the_first_is_remembered():
    memory = remembered([answer(4, 0, 0.50), answer(4, 0, 0.55), answer(4, 0, 0.97)])
    assert [w.share for w in memory.waiting] == [0.50, 0.97]


def test_finals_meet_all_answers_of_their_window():
    memory = remembered([answer(4, 0, 0.5), answer(4, 0, 0.97), answer(8, 0, 0.5)])
    pairs, waiting = memory.paired({"4 0": [7.0]})
    assert [(w.share, final) for w, final in pairs] == [(0.5, [7.0]), (0.97, [7.0])]
    assert [w.wid for w in waiting] == [8]


def test_a_few_groups_are_kept_and_windows_let_go_instead():
    answers = [answer(w, g, 0.5) for w in range(300) for g in range(FEWEST_GROUPS)]
    memory = remembered(answers)
    assert {w.hash for w in memory.waiting} == set(range(FEWEST_GROUPS))
    assert len(memory.waiting) <= MOST_WAITING
