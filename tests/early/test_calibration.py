"""Accuracy, estimates and intervals of early values."""

import json
from dataclasses import astuple
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowwater.codec import decode, encode
from lowwater.early.accuracy import MOST_GROUPS, OTHERS, RunningAccuracy, accuracy, judged
from lowwater.early.calibration.calibrator import Calibrator, EarlyFinalPairs, EarlyValues
from lowwater.early.calibration.learner import LearnerMemory
from lowwater.errors import SpecError

KINDS = {"n": "counted", "sum": "scaled", "avg": "level", "max": "rising", "min": "falling"}
numbers = st.floats(allow_nan=True, allow_infinity=True, width=32)


@given(numbers, numbers)
def test_accuracy_follows_its_definition(early, final):
    found = accuracy([early], [final])[0]
    assert 0 <= found <= 1
    if early == final or (np.isnan(early) and np.isnan(final)):
        assert found == 1
    elif not (np.isfinite(early) and np.isfinite(final)) or final == 0:
        assert found == 0
    else:
        with np.errstate(over="ignore"):
            expected = max(0, 1 - abs(final - early) / abs(final))
        assert found == pytest.approx(expected)


def test_accuracy_of_values_that_are_no_numbers():
    assert judged(["a", "b"], ["a", "c"], [0, 0]).tolist() == [1, 0]
    assert judged([None, None], [None, 5], [0, 0]).tolist() == [1, 0]
    assert judged([Decimal(9)], [Decimal(10)], [0]).tolist() == pytest.approx([0.9])


def test_accuracy_may_be_the_users_own():
    def patient(early, final, seconds):
        return 1.0 if early == final else 1 / (1 + seconds)

    assert judged([1, 2], [1, 3], [5.0, 1.0], patient).tolist() == [1.0, 0.5]


@settings(max_examples=30)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(1, 39))
def test_running_accuracy_does_not_depend_on_epochs(values, cut):
    once = astuple(RunningAccuracy().advance(values).overall)
    twice = astuple(RunningAccuracy().advance(values[:cut]).advance(values[cut:]).overall)
    assert once == pytest.approx(twice, abs=1e-5)
    assert once[0] == len(values)
    assert once[2] == pytest.approx(np.mean(values), abs=1e-5)
    assert once[3] == pytest.approx(min(values), abs=1e-5)


def test_running_accuracy_forgets():
    memory = RunningAccuracy().advance(np.r_[np.zeros(1000), np.ones(1000)])
    assert memory.overall.recent > 0.99
    assert memory.overall.mean == 0.5


def test_running_accuracy_keeps_a_bounded_number_of_groups():
    memory, names = RunningAccuracy(), [f"g{i}" for i in range(300)]
    for _ in range(2):
        memory = memory.advance(np.ones(300), names)
    assert len(memory.groups) == MOST_GROUPS + 1
    assert memory.groups["g0"].count == 2
    assert memory.groups[OTHERS].count == 2 * (300 - MOST_GROUPS)
    assert len(json.dumps(encode(memory))) < 5_000


def windows(rng, count, *, groups=1, missing=0.3):
    """Draw windows of clustered rows, of which a share is missing; all values are positive."""
    size = np.tile(np.linspace(1, 20, groups), count)
    early = np.ones(count * groups) + rng.poisson(
        200 * size * (1 - missing) * rng.gamma(20, 1 / 20, len(size))
    )
    late = rng.poisson(200 * size * missing)
    value = rng.normal(50, 5 / np.sqrt(early)), rng.normal(50, 5 / np.sqrt(late + 1))
    total = early * value[0] + late * value[1]
    tops = rng.gumbel(np.log(early)), rng.gumbel(np.log(late + 1e-9))
    raw = {"n": early, "sum": early * value[0], "avg": value[0], "max": tops[0], "min": -tops[0]}
    final = {"n": early + late, "sum": total, "avg": total / (early + late)}
    final |= {"max": np.maximum(*tops), "min": -np.maximum(*tops)}
    share = early / (early + 200 * size * missing)
    return EarlyFinalPairs(np.repeat(np.arange(count), groups), share, early, raw, final=final)


def part(pairs, chosen):
    raw, final = ({k: v[chosen] for k, v in x.items()} for x in (pairs.raw, pairs.final))
    return EarlyFinalPairs(
        pairs.window[chosen], pairs.completeness[chosen], pairs.rows[chosen], raw, final=final
    )


def replayed(pairs, kinds=None, coverage=0.9):
    """Judge each window by what was known before it; return the intervals and the last memory."""
    calibrator = Calibrator(kinds or KINDS, coverage)
    memory, found = calibrator.begin(), []
    for window in range(int(pairs.window.max()) + 1):
        one = part(pairs, pairs.window == window)
        found.append(calibrator.judge(memory, one))
        memory = calibrator.learn(memory, one)
    names = calibrator.begin()
    sides = ("low", "high", "expected_accuracy", "estimate")
    return {
        n: [np.concatenate([getattr(f[n], side) for f in found]) for side in sides] for n in names
    }, memory


def test_intervals_cover_the_final_with_the_stated_probability():
    pairs = windows(np.random.default_rng(1), 1_000)
    found, _ = replayed(pairs)
    for name in ("n", "sum", "avg"):
        low, high, expected, estimate = found[name]
        final = pairs.final[name]
        assert np.mean((low <= final) & (final <= high)) == pytest.approx(0.9, abs=0.03)
        assert expected[200:].mean() == pytest.approx(accuracy(estimate, final).mean(), abs=0.02)
    for name in ("max", "min"):
        low, high, *_ = found[name]
        covered = np.mean((low <= pairs.final[name]) & (pairs.final[name] <= high))
        assert covered == pytest.approx(0.9, abs=0.03)


def test_another_coverage_may_be_asked_for():
    pairs = windows(np.random.default_rng(7), 1_000)
    found, _ = replayed(pairs, {"avg": "level"}, coverage=0.5)
    low, high, *_ = found["avg"]
    final = pairs.final["avg"]
    assert np.mean((low <= final) & (final <= high)) == pytest.approx(0.5, abs=0.05)


def test_intervals_are_better_than_empirical_quantiles_where_groups_differ():
    pairs = windows(np.random.default_rng(2), 400, groups=8)
    found, _ = replayed(pairs, {"n": "counted"})
    low, high, _, estimate = found["n"]
    final, ratio = pairs.final["n"], pairs.final["n"] / estimate
    ours, plain = [], []
    for at in range(800, len(final)):
        least, most = estimate[at] * np.quantile(ratio[: at // 8 * 8], [0.05, 0.95])
        plain.append(score(least, most, final[at]))
        ours.append(score(low[at], high[at], final[at]))
    assert np.mean(ours) < 0.95 * np.mean(plain)


def score(low, high, final):
    return high - low + 20 * max(low - final, 0) + 20 * max(final - high, 0)


def test_coverage_comes_back_after_a_change():
    rng = np.random.default_rng(3)
    calm, wild = windows(rng, 300), windows(rng, 700)
    wild.final["avg"][:] = wild.raw["avg"] + 10 * (wild.final["avg"] - wild.raw["avg"])
    calibrator = Calibrator({"avg": "level"})
    memory, covered = calibrator.begin(), []
    for pairs in (calm, wild):
        for window in range(int(pairs.window.max()) + 1):
            one = part(pairs, [window])
            said = calibrator.judge(memory, one)["avg"]
            covered.append(bool(said.low[0] <= one.final["avg"][0] <= said.high[0]))
            memory = calibrator.learn(memory, one)
    assert np.mean(covered[400:]) == pytest.approx(0.9, abs=0.03)


def test_little_known_means_wide_intervals():
    pairs = windows(np.random.default_rng(4), 200)
    found, _ = replayed(pairs)
    for name in ("n", "sum", "avg"):
        low, high, *_ = found[name]
        assert (high - low)[:3].mean() > 1.5 * (high - low)[100:].mean()
        assert np.mean((low <= pairs.final[name])[:20] & (pairs.final[name] <= high)[:20]) >= 0.9


values = st.floats(-1e9, 1e9)
rows = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 1000), values, values), min_size=1, max_size=12
)


@settings(max_examples=30)
@given(rows, st.integers(1, 4))
def test_intervals_are_numbers_in_order_whatever_came(rows, per_window):
    share, n, raw, final = (np.array(x, np.float64) for x in zip(*rows, strict=True))
    window = np.arange(len(n)) // per_window
    raws = {"n": n, "sum": raw, "avg": raw, "max": raw, "min": raw}
    finals = {"n": n + 1, "sum": final, "avg": final}
    finals |= {"max": np.maximum(raw, final), "min": np.minimum(raw, final)}
    calibrator = Calibrator(KINDS)
    pairs = EarlyFinalPairs(window, share, n, raws, final=finals)
    memory = calibrator.learn(calibrator.begin(), pairs)
    written = json.dumps(encode(LearnerMemory(calibration=memory)))
    assert decode(LearnerMemory, json.loads(written)).calibration == memory
    for known in (calibrator.begin(), memory):
        said = calibrator.judge(known, EarlyValues(window, share, n, raws))
        for name, one in said.items():
            assert np.isfinite([one.estimate, one.low, one.high, one.expected_accuracy]).all(), name
            assert (one.low <= one.high).all()
        assert (said["n"].low >= n).all()
        assert (said["max"].low >= raw).all()
        assert (said["min"].high <= raw).all()


def test_windows_that_end_together_or_one_by_one_teach_the_same():
    pairs = windows(np.random.default_rng(5), 30, groups=3)
    calibrator = Calibrator(KINDS)
    at_once = calibrator.learn(calibrator.begin(), pairs)
    _, one_by_one = replayed(pairs)
    assert at_once == one_by_one


def test_missing_values_teach_nothing_and_memory_stays_small():
    calibrator = Calibrator({f"a{i}": kind for i, kind in enumerate([*KINDS.values(), "other"])})
    pairs = windows(np.random.default_rng(6), 60)
    raw = dict.fromkeys(calibrator.begin(), pairs.raw["avg"])
    missing = {name: np.full(60, np.nan) for name in raw}
    early = (pairs.window, pairs.completeness, pairs.rows)
    assert (
        calibrator.learn(calibrator.begin(), EarlyFinalPairs(*early, missing, final=raw))
        == calibrator.begin()
    )
    memory = calibrator.learn(calibrator.begin(), EarlyFinalPairs(*early, raw, final=raw))
    assert len(json.dumps(encode(memory))) < 2_000 * sum(map(len, memory.values()))
    assert all(len(positions) <= 5 for positions in memory.values())


def test_what_cannot_be_calibrated_is_refused():
    with pytest.raises(SpecError, match="kind 'mode' is unknown"):
        Calibrator({"a": "mode"})
    with pytest.raises(SpecError, match="coverage=1 must be between"):
        Calibrator({"a": "level"}, 1)
