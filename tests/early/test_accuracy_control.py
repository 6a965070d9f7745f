"""Steering: the aggressiveness follows the accuracy that is wanted."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.codec import decode, encode
from lowwater.early.accuracy_control import Observation, Steering, SteeringMemory
from lowwater.errors import SpecError


def steered(steering, loss, windows, *, delay=2):
    """Steer through windows whose accuracy is 1 − loss(window, aggressiveness); finals are late."""
    memory, accuracies, chosen, waiting = steering.begin(), [], [], []
    for window in range(windows):
        if len(waiting) > delay:
            memory = steering.advance(memory, [waiting.pop(0)])
        now = steering.aggressiveness(memory)
        accuracies.append(max(0.0, 1 - loss(window, now)))
        chosen.append(now)
        waiting.append(Observation(now, accuracies[-1]))
    return np.array(accuracies), np.array(chosen)


def clustered(seed, *, rate=20.0, size=30, slide=10):
    """PROD 4.4: counts of geometric clusters per second, the missing ones estimated by the rate."""
    rng = np.random.default_rng(seed)

    def loss(_, aggressiveness):
        counts = rng.geometric(1 / rate, size)
        ahead = aggressiveness * slide
        whole = int(ahead)
        missing = counts[:whole].sum() + rng.binomial(counts[whole % size], ahead - whole)
        return abs(missing - rate * ahead) / counts.sum()

    return loss


@pytest.mark.parametrize("target", [0.95, 0.98, 0.99])
@pytest.mark.parametrize(("size", "slide"), [(30, 10), (30, 30)])
def test_running_accuracy_meets_the_target(target, size, slide):
    accuracies, _ = steered(Steering(target), clustered(1, size=size, slide=slide), 1_000)
    for part in np.split(accuracies[100:], 3):
        assert np.mean(part) == pytest.approx(target, abs=0.01)


def test_it_prods_as_early_as_the_target_allows():
    _, strict = steered(Steering(0.99), clustered(2), 600)
    _, loose = steered(Steering(0.95), clustered(2), 600)
    assert loose[100:].mean() > 2 * strict[100:].mean()


def test_streams_that_lose_nothing_are_prodded_as_early_as_may_be():
    accuracies, chosen = steered(Steering(0.95, most=0.9), lambda _, a: 0.01 * a, 200)
    assert chosen[-1] == 0.9
    assert accuracies[100:].min() > 0.95


@pytest.mark.parametrize("target", [0.95, 0.98, 0.99])
@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_it_recovers_after_a_change_of_the_arrival_pattern(target, factor):
    rng = np.random.default_rng(3)

    def loss(window, aggressiveness):
        return (factor if window >= 400 else 1.0) * 0.15 * aggressiveness * rng.exponential()

    accuracies, chosen = steered(Steering(target), loss, 900)
    for part, most in ((accuracies[100:400], chosen[399]), (accuracies[500:], chosen[-1])):
        assert np.mean(part) >= target - 0.01
        assert np.mean(part) <= target + 0.01 or most == 1.0


def test_finals_that_come_together_are_carried_over_to_where_steering_stands():
    steering = Steering(0.95)
    # Fifty windows prodded far too early are no reason to stop prodding at all.
    memory = steering.advance(steering.begin(), [Observation(1.0, 0.8)] * 50)
    assert steering.aggressiveness(memory) == pytest.approx(1 / 16, rel=0.1)


accuracies = st.lists(st.tuples(st.floats(0, 2), st.floats(0, 1)), max_size=30)


@given(accuracies, st.sampled_from([0.5, 0.95, 0.999]), st.integers(0, 30))
def test_it_stays_in_bounds_and_does_not_depend_on_epochs(drawn, target, cut):
    steering = Steering(target, most=0.8)
    seen = [Observation(*pair) for pair in drawn]
    memory = steering.advance(steering.begin(), seen)
    assert 0 < steering.aggressiveness(memory) <= 0.8
    assert decode(SteeringMemory, json.loads(json.dumps(encode(memory)))) == memory
    apart = steering.advance(steering.advance(steering.begin(), seen[:cut]), seen[cut:])
    assert steering.aggressiveness(apart) == pytest.approx(steering.aggressiveness(memory), 1e-3)


def test_a_target_of_one_is_as_late_as_possible():
    steering = Steering(1.0)
    memory = steering.advance(steering.begin(), [Observation(0.5, 1.0)] * 50)
    assert steering.aggressiveness(memory) == steering.least


def test_targets_out_of_reach_are_refused():
    for wrong in (0, 1.5):
        with pytest.raises(SpecError, match=f"accuracy={wrong} must be above 0 and at most 1"):
            Steering(wrong)
    with pytest.raises(SpecError, match="most=0 must be above 0"):
        Steering(0.9, most=0)
