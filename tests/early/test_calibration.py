"""Accuracy, estimates and intervals of early values."""

import json
from dataclasses import astuple, replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowwater.codec import decode, encode
from lowwater.early.accuracy import MOST_GROUPS, OTHERS, RunningAccuracy, accuracy, judged
from lowwater.early.calibration.calibrator import Calibrator, EarlyFinalPairs, Estimate
from lowwater.early.calibration.learner import LearnerMemory
from lowwater.errors import SpecError

KINDS = {"n": "counted", "sum": "scaled", "avg": "level", "max": "rising", "min": "falling"}
KINDS |= {"kinds": "distinct", "last": "other"}
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


def windows(rng, count, *, groups=1, missing=0.3, size=200):
    """Draw windows of clustered rows, of which a share is missing; all values are positive."""
    group = np.tile(np.arange(groups), count)
    sizes = size * np.linspace(1, 20, groups)[group]
    early = np.ones(count * groups) + rng.poisson(
        sizes * (1 - missing) * rng.gamma(20, 1 / 20, len(sizes))
    )
    late = rng.poisson(sizes * missing)
    value = rng.normal(50, 5 / np.sqrt(early)), rng.normal(50, 5 / np.sqrt(late + 1))
    total = early * value[0] + late * value[1]
    tops = rng.gumbel(np.log(early)) + 20, rng.gumbel(np.log(late + 1e-9)) + 20
    raw = {"n": early, "sum": early * value[0], "avg": value[0], "max": tops[0], "min": -tops[0]}
    final = {"n": early + late, "sum": total, "avg": total / (early + late)}
    final |= {"max": np.maximum(*tops), "min": -np.maximum(*tops)}
    raw |= {"kinds": np.floor(early**0.7) + 1, "last": value[0]}
    final |= {"kinds": np.floor((early + late) ** 0.7) + 1, "last": value[1]}
    share = early / (early + sizes * missing)
    window = np.repeat(np.arange(count), groups)
    return EarlyFinalPairs(window, group, share, early, raw, final=final)


def part(pairs, chosen):
    raw, final = ({k: v[chosen] for k, v in x.items()} for x in (pairs.raw, pairs.final))
    parts = (pairs.window, pairs.slot, pairs.completeness, pairs.rows)
    return EarlyFinalPairs(*(p[chosen] for p in parts), raw, final=final)


SIDES = ("estimate", "low", "high", "settled", "expected_accuracy")


def replayed(pairs, kinds=None, coverage=0.9):
    """Judge each window by what was known before it; return the estimates and the last memory."""
    calibrator = Calibrator(kinds or KINDS, coverage)
    memory, found = calibrator.begin(), []
    for window in range(int(pairs.window.max()) + 1):
        one = part(pairs, pairs.window == window)
        judged = calibrator.judge(memory, one)
        found.append(judged)
        said = {name: e.estimate for name, e in judged.items()}
        memory = calibrator.learn(memory, replace(one, said=said))
    return {
        n: Estimate(*(np.concatenate([getattr(f[n], side) for f in found]) for side in SIDES))
        for n in calibrator.kinds
    }, memory


def covered(one, final):
    return (one.low <= final) & (final <= one.high)


def test_intervals_hold_the_final_with_at_least_the_stated_probability():
    pairs = windows(np.random.default_rng(1), 120, groups=4, size=40)
    found, _ = replayed(pairs)
    for name, one in found.items():
        inside = covered(one, pairs.final[name])
        assert inside.mean() >= 0.9 - 2 * np.sqrt(0.09 / len(inside)), name
        expected = one.expected_accuracy[200:].mean()
        right = accuracy(one.estimate, pairs.final[name])[200:].mean()
        assert expected == pytest.approx(right, abs=0.02), name


def test_another_probability_may_be_asked_for():
    pairs = windows(np.random.default_rng(7), 120, groups=4)
    found, _ = replayed(pairs, {"avg": "level"}, coverage=0.5)
    inside = covered(found["avg"], pairs.final["avg"])
    assert 0.46 <= np.mean(inside) <= 0.64


def test_the_estimate_is_the_median():
    pairs = windows(np.random.default_rng(8), 120, groups=4)
    found, _ = replayed(pairs, {"n": "counted", "sum": "scaled", "avg": "level"})
    for name, one in found.items():
        final, estimate = pairs.final[name][80:], one.estimate[80:]
        least = 0.5 - 3 * np.sqrt(0.25 / len(final))
        assert np.mean(final <= estimate) >= least, name
        assert np.mean(final >= estimate) >= least, name


def test_small_and_large_groups_are_each_covered():
    pairs = windows(np.random.default_rng(2), 150, groups=8, size=4)
    found, _ = replayed(pairs, {"n": "counted", "avg": "level"})
    for name, one in found.items():
        inside = covered(one, pairs.final[name])[400:]
        for group in range(8):
            mine = inside[pairs.slot[400:] == group]
            assert mine.mean() >= 0.9 - 3 * np.sqrt(0.09 / len(mine)), (name, group)


def test_intervals_are_better_than_plain_quantiles_where_groups_differ():
    pairs = windows(np.random.default_rng(2), 150, groups=8)
    found, _ = replayed(pairs, {"n": "counted"})
    one, final, raw = found["n"], pairs.final["n"], pairs.raw["n"] / pairs.completeness
    ours, plain = [], []
    for at in range(400, len(final)):
        least, most = raw[at] * np.quantile((final / raw)[: at // 8 * 8], [0.05, 0.95])
        plain.append(score(least, most, final[at]))
        ours.append(score(one.low[at], one.high[at], final[at]))
    assert np.mean(ours) < 0.95 * np.mean(plain)


def score(low, high, final):
    return high - low + 20 * max(low - final, 0) + 20 * max(final - high, 0)


def test_the_better_of_raw_and_completed_values_wins():
    """Half of the rows are missing, or none is, and the completeness says the opposite."""
    rng = np.random.default_rng(9)
    for missing, share in ((0.5, 0.99), (0.0, 0.5)):
        pairs = windows(rng, 60, groups=3, missing=missing)
        pairs = replace(pairs, completeness=np.full(len(pairs.window), share))
        found, _ = replayed(pairs, {"n": "counted"})
        final, raw = pairs.final["n"], pairs.raw["n"]
        right = accuracy(found["n"].estimate, final)[90:].mean()
        assert right >= accuracy(raw, final)[90:].mean() - 0.01
        assert right >= accuracy(raw / share, final)[90:].mean() + 0.2


def test_groups_that_are_late_in_different_ways_have_no_bias():
    rng = np.random.default_rng(10)
    pairs = windows(rng, 80, groups=4)
    late = pairs.slot % 2 == 0
    final = np.where(late, 2 * pairs.raw["n"], pairs.raw["n"] + rng.poisson(1.0, len(late)))
    pairs = replace(pairs, final={**pairs.final, "n": final})
    found, _ = replayed(pairs, {"n": "counted"})
    for mine in (late, ~late):
        bias = (found["n"].estimate / final)[mine][60:] - 1
        assert abs(bias.mean()) < 0.03


def test_settled_is_the_probability_that_nothing_changes():
    rng = np.random.default_rng(11)
    pairs = windows(rng, 100, groups=3, missing=0.0)
    hidden = rng.uniform(size=300) < 0.7
    final = np.where(hidden, pairs.raw["n"], pairs.raw["n"] + 5)
    pairs = replace(pairs, final={**pairs.final, "n": final}, completeness=np.full(300, 0.9))
    found, _ = replayed(pairs, {"n": "counted"})
    assert found["n"].settled[100:].mean() == pytest.approx(0.7, abs=0.07)


def test_coverage_comes_back_after_a_change():
    rng = np.random.default_rng(3)
    pairs = windows(rng, 160, groups=2)
    wild = pairs.window >= 80
    raw, final = pairs.raw["avg"], pairs.final["avg"].copy()
    final[wild] = (raw + 10 * (final - raw))[wild]
    found, _ = replayed(replace(pairs, final={**pairs.final, "avg": final}), {"avg": "level"})
    inside = covered(found["avg"], final)
    assert inside[190:].mean() >= 0.9 - 3 * np.sqrt(0.09 / len(inside[190:]))


def test_little_known_means_wide_intervals():
    pairs = windows(np.random.default_rng(4), 110)
    found, _ = replayed(pairs)
    for name in ("n", "sum", "avg"):
        one, final = found[name], pairs.final[name]
        width = one.high - one.low
        assert width[:3].mean() > 1.5 * width[100:].mean()
        assert covered(one, final)[:20].mean() >= 0.9


def test_before_any_final_is_known_values_are_completed():
    pairs = windows(np.random.default_rng(4), 3)
    calibrator = Calibrator(KINDS)
    said = calibrator.judge(calibrator.begin(), pairs)
    assert said["sum"].estimate == pytest.approx(pairs.raw["sum"] / pairs.completeness)
    for name in ("avg", "max", "min", "last", "kinds"):
        assert said[name].estimate == pytest.approx(pairs.raw[name]), name


values = st.floats(-1e9, 1e9)
rows = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 1000), values, values), min_size=1, max_size=12
)


def some_pairs(rows, per_window=3):
    share, n, raw, final = (np.array(x, np.float64) for x in zip(*rows, strict=True))
    window = np.arange(len(n)) // per_window
    slot = np.arange(len(n)) % 5 - 1
    raws = {"n": n, "sum": raw, "avg": raw, "max": raw, "min": raw, "kinds": n, "last": raw}
    finals = {"n": n + 1, "sum": final, "avg": final, "kinds": n + 1, "last": final}
    finals |= {"max": np.maximum(raw, final), "min": np.minimum(raw, final)}
    return EarlyFinalPairs(window, slot, share, n, raws, final=finals)


@settings(max_examples=20)
@given(rows, st.integers(1, 4), st.sampled_from([0.5, 0.9, 0.99]))
def test_estimates_lie_in_their_intervals_whatever_came(rows, per_window, coverage):
    pairs = some_pairs(rows, per_window)
    calibrator = Calibrator(KINDS, coverage)
    memory = calibrator.begin()
    for _ in range(3):
        for name, one in calibrator.judge(memory, pairs).items():
            assert all(np.isfinite(getattr(one, side)).all() for side in SIDES), name
            assert (one.low <= one.estimate).all(), name
            assert (one.estimate <= one.high).all(), name
            assert ((one.settled >= 0) & (one.settled <= 1)).all(), name
        said = calibrator.judge(memory, pairs)
        assert (said["n"].low >= pairs.raw["n"]).all()
        assert (said["max"].low >= pairs.raw["max"]).all()
        assert (said["min"].high <= pairs.raw["min"]).all()
        memory = calibrator.learn(memory, pairs)
    written = json.dumps(encode(LearnerMemory(calibration=memory)))
    assert decode(LearnerMemory, json.loads(written)).calibration == memory


@settings(max_examples=15)
@given(rows, st.randoms())
def test_what_is_learned_does_not_depend_on_the_order_of_results(rows, random):
    pairs = some_pairs(rows)
    order = list(range(len(rows)))
    random.shuffle(order)
    calibrator = Calibrator(KINDS)
    known = calibrator.learn(calibrator.begin(), pairs)
    both = [calibrator.learn(known, p) for p in (pairs, part(pairs, np.array(order)))]
    assert both[0].groups == both[1].groups
    for name, one in both[0].values.items():
        other = both[1].values[name]
        assert (one.distribution, one.settled) == (other.distribution, other.settled), name


def test_missing_values_teach_nothing_and_memory_stays_small():
    pairs = windows(np.random.default_rng(6), 40, groups=8)
    calibrator = Calibrator(KINDS)
    missing = {name: np.full(len(pairs.window), np.nan) for name in KINDS}
    untaught = calibrator.learn(calibrator.begin(), replace(pairs, raw=missing))
    assert untaught.values == calibrator.begin().values
    for one in calibrator.judge(untaught, replace(pairs, raw=missing)).values():
        assert np.isnan([one.estimate, one.low, one.high]).all()
    _, memory = replayed(pairs)
    assert len(json.dumps(encode(memory))) < 6_000 * len(KINDS)


def test_what_cannot_be_calibrated_is_refused():
    with pytest.raises(SpecError, match="kind 'mode' is unknown"):
        Calibrator({"a": "mode"})
    with pytest.raises(SpecError, match="coverage=1 must be between"):
        Calibrator({"a": "level"}, 1)
