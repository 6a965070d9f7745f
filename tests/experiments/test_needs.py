"""N1's judge: what counts as given up, by hand, and a need beside fixed knobs on a short stream."""

from __future__ import annotations

import pytest

from experiments.arena import needs
from experiments.arena.live import Answers, moments, truth
from experiments.arena.needs import Loss, NeedStream, cases, cut, judge


@pytest.fixture(scope="module")
def short():
    case = next(one for one in cases(0) if one.name == "exponential")
    return NeedStream("short", cut(case.stream, 36), case.prices)


def answers_of(case, late=0, wrong=0.0):
    """Every window answered once, by its final, so much after its end and so wrong."""
    right = truth(case.stream)
    ends = sorted(right)
    found = Answers()
    for end, moment in zip(ends, moments(case.stream, ends).tolist(), strict=True):
        found.finals[end] = (moment + late, right[end] * (1 + wrong))
    return found


def test_a_window_is_given_up_once_whatever_the_causes(short):
    span = short.stream.range
    assert Loss.of(short, answers_of(short)).all == 0
    assert Loss.of(short, answers_of(short, wrong=0.04)).all == 0
    assert Loss.of(short, answers_of(short, wrong=0.06)).wrong == 1
    late = Loss.of(short, answers_of(short, late=span + 1, wrong=0.1))
    assert (late.late, late.wrong, late.inexact, late.all, late.in_time) == (1, 1, 0, 1, 0)
    assert Loss.of(short, answers_of(short, late=7 * span)).inexact == 1


def test_a_dropped_window_counts_as_dropped_only(short):
    found = answers_of(short)
    found.dropped = set(found.finals)
    found.finals.clear()
    loss = Loss.of(short, found)
    assert (loss.dropped, loss.late, loss.all) == (1, 0, 1)


@pytest.mark.experiment
def test_a_need_gives_up_no_more_than_fixed_knobs(short, monkeypatch):
    monkeypatch.setattr(needs, "SLACKS", (0.25, 0.75))
    monkeypatch.setattr(needs, "LEADS", (None, 0.0))
    assert judge(short, 0).more <= 0.005
