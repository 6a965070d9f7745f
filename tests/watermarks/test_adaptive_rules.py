"""Rules that set the slack: what they remember, and how they answer when lateness changes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments.qdj.adaptive import JoinSettings
from experiments.qdj.quality_runs import controlled, fixed, ours, thesis
from experiments.qdj.rules import FeedbackOverall, ThesisOverall, ThesisRule, over_all
from experiments.reference.quality import quality
from experiments.streams.soccer import Game, generate
from lowwater.codec import decode, encode
from lowwater.watermarks.adaptive.lateness import LatenessHistogram, distribution_changed
from lowwater.watermarks.adaptive.rules import (
    FeedbackRule,
    PdController,
    PdState,
    RuleInput,
    RuleState,
)

# seconds   0          12          24         36
# late by   20 ms      200 ms      20 ms
#           └─ calm ──┘└─ wild ──┘└─ calm ──┘
ROUGH = Game(name="rough", rows=(7_000, 7_000), seconds=36, seed=5, worse=((12, 24, 10.0),))
STREAM = generate(ROUGH)
LATE = LatenessHistogram(1, np.array([60.0, 20, 10, 10]))


def model(degrees, lags):
    return lambda slack: quality(*degrees, 20, 30, slack, lag=np.asarray(lags))


def per_track(slacks):
    whole = len(slacks) // 10 * 10
    return slacks[:whole].reshape(-1, 10).mean(axis=1)


@pytest.mark.parametrize("target", [0.9, 0.98])
def test_target_is_met_again_soon_after_lateness_has_grown_tenfold(target):
    run = ours(STREAM, target)
    again = np.flatnonzero(run.quality[12:] >= target)[0]
    assert run.quality[12] < target
    assert again <= 5
    slow = np.flatnonzero(thesis(STREAM, target).quality[12:] >= target)
    assert not len(slow) or slow[0] > again


def test_wait_shrinks_again_when_lateness_does():
    slacks = per_track(ours(STREAM, 0.95).slacks)
    calm, wild, after = slacks[4:12].mean(), slacks[16:24].mean(), slacks[29:34].mean()
    assert wild > 5 * calm
    assert after < 2 * calm


@pytest.mark.parametrize("rule", [ThesisRule, ThesisOverall, FeedbackRule, FeedbackOverall])
def test_what_a_rule_remembers_survives_json(rule):
    rule = rule(target=0.9)
    straight = mended = RuleState()
    for passed in (0.5, 1.0, 0.5, 1.0):
        seen = RuleInput((LATE, LATE), (1.0, -2.0), given=70, wanted=100, passed=passed)
        straight, slack = rule.step(straight, seen, model)
        mended, same = rule.step(mended, seen, model)
        mended = decode(RuleState, json.loads(json.dumps(encode(mended))))
        assert (mended, same) == (straight, slack)
    assert 0 < slack <= 3


def test_rule_of_the_thesis_moves_at_the_end_of_a_track():
    rule, seen = ThesisRule(target=0.9), RuleInput((LATE, LATE), (0.0,), passed=0.5)
    known, slack = rule.step(RuleState(), seen, model)
    assert slack == 0
    seen = RuleInput((LATE, LATE), (0.0,), passed=1.0)
    known, slack = rule.step(known, seen, model)
    assert slack == 3
    assert model(known.degrees, (0.0,))(2) < 0.9
    assert known.degrees[0].total == pytest.approx(0.8 * 200)


def test_debt_of_all_results_so_far_is_paid_by_the_next_track():
    known = RuleState(given=80.0, wanted=100.0, usual=50.0)
    assert over_all(known, 0.85) == pytest.approx((0.85 * 150 - 80) / 50)
    assert over_all(RuleState(), 0.85) == 0.85


def test_rest_of_a_track_makes_up_for_its_beginning():
    known = RuleState(now_given=42, now_wanted=60, usual=100, passed=0.6)
    assert known.of_the_rest(0.75) == pytest.approx((75 - 42) / 40)
    assert RuleState(usual=100).of_the_rest(0.75) == 0.75
    rule, seen = FeedbackRule(target=0.75), RuleInput((LATE, LATE), (0.0,), passed=0.6)
    slacks = {}
    for given in (50, 42, 36, 30):
        so_far = RuleState(now_given=given, now_wanted=60, usual=100)
        slacks[given] = rule.step(so_far, seen, model)[1]
    # 30 of 60: even if all of the other 40 came, it would be 70 of 100.
    assert slacks == {50: 1, 42: 2, 36: 3, 30: 1}


def test_margin_grows_by_misses_and_shrinks_by_hits():
    rule, margins = FeedbackRule(target=0.9), []
    known = RuleState()
    for given in (80, 80, 95, 95):
        known, _ = rule.step(known, RuleInput((LATE, LATE), (0.0,), given, 100), model)
        margins.append(known.margin)
    assert margins[1] > margins[0] > 0.01
    assert margins[1] > margins[2] > margins[3]
    assert margins[1] - margins[0] == pytest.approx(24 * (margins[2] - margins[3]))


def test_few_rows_are_no_change():
    calm, wild = LatenessHistogram.of([0] * 70 + [1] * 30, 1), LatenessHistogram.of([0, 9], 1)
    assert not distribution_changed(wild, calm)
    assert not distribution_changed(LatenessHistogram.none(1), calm)
    assert distribution_changed(LatenessHistogram.of([0] * 25 + [9] * 25, 1), calm)


def test_controller_follows_error_and_its_change():
    rule, known = PdController(target=0.9, proportional=10, derivative=5), PdState()
    known, slack = rule.step(known, given=40, wanted=50, passed=0.5)
    assert slack == 0
    known, slack = rule.step(known, given=40, wanted=50, passed=1)
    assert slack == pytest.approx(1)  # the error is 0.1
    known, slack = rule.step(decode(PdState, encode(known)), given=70, wanted=100, passed=1)
    assert slack == pytest.approx(1 + 2 + 0.5)  # 0.2, and 0.1 more than before
    assert rule.step(known, given=0, wanted=0, passed=1)[1] == slack


def test_longer_waits_give_more_and_no_sync_buffer_gives_less():
    short = generate(ROUGH.shortened(8))
    runs = [fixed(short, slack).overall for slack in (0, 2, 200)]
    assert runs[0] < runs[1] < runs[2] == 1
    assert fixed(short, 0, sync=False).overall < runs[0]
    assert controlled(short, 0.9, (20, 10)).slacks.max() > 0
    assert JoinSettings(steps=5).step == 200_000
