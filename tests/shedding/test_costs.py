"""Costs: learned from what epochs take; a warm-up and a pause are not costs.

took        6.0  2.0  0.5  0.5  0.5 ... 60  0.5        a pause in one epoch
learned     .    .    .    settled      .              as if it had not been
"""

from __future__ import annotations

import numpy as np
import pytest

from lowwater.shedding.costs import CostMemory, Costs, Epoch

COSTS = Costs(100_000, 50, 3, 20)


def epochs(count, seed=1, *, noise=500.0, run=0):
    """Return epochs of random counts that take as long as `COSTS` say."""
    random = np.random.default_rng(seed)
    for n in range(count):
        kept, shed, results = (int(x) for x in random.integers(0, 2_000, 3))
        took = COSTS.of(Epoch(0, 0, kept, shed, results)) + random.normal(0, noise)
        yield Epoch(took, took, kept, shed, results, run=run + n)


def learned(made):
    memory = CostMemory()
    for epoch in made:
        memory = memory.after(epoch)
    return memory


def slowed(epoch, by):
    return Epoch(
        epoch.took + by, epoch.took + by, epoch.kept, epoch.shed, epoch.results, None, epoch.run
    )


def check(cost, rel=0.1):
    assert cost.fixed == pytest.approx(COSTS.fixed, rel=rel)
    assert cost.kept == pytest.approx(COSTS.kept, rel=rel)
    assert cost.shed == pytest.approx(COSTS.shed, abs=3)
    assert cost.result == pytest.approx(COSTS.result, rel=0.2)


def test_costs_are_learned_from_epochs():
    memory = learned(epochs(40))
    check(memory.cost, rel=0.05)
    assert memory.settled
    assert memory.surprise < 0.1


def test_a_pause_in_a_single_epoch_is_not_a_cost():
    made = list(epochs(40))
    made[30] = slowed(made[30], 60_000_000)
    check(learned(made).cost)


def test_a_machine_that_stays_slower_is_noticed():
    made = list(epochs(30))
    made += [slowed(e, 2 * e.took) for e in epochs(30, seed=2, run=30)]
    assert learned(made).cost.kept == pytest.approx(3 * COSTS.kept, rel=0.2)


@pytest.mark.parametrize("again", [False, True])
def test_the_first_epochs_of_a_run_are_not_learned(again):
    made = list(epochs(40)) if again else []
    slow = [6_000_000, 2_000_000, 500_000]
    made += [slowed(e, by) for e, by in zip(epochs(3, seed=3), slow, strict=True)]
    memory = learned(made)
    assert not memory.settled
    assert memory.known is again
    if again:
        check(memory.cost)
    memory = learned([*made, *epochs(20, seed=4, run=3)])
    assert memory.settled
    check(memory.cost)


def test_a_share_of_a_slow_epoch_is_explained_by_known_costs():
    memory, epoch = learned(epochs(40)), next(epochs(1, seed=9))
    assert memory.explained(epoch) == pytest.approx(1, abs=0.05)
    assert memory.explained(slowed(epoch, 9 * epoch.took)) == pytest.approx(0.1, abs=0.02)
    assert CostMemory().explained(epoch) == 0
