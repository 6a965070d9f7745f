"""The costs of epochs, learned from their durations by a robust regression (DROP 3.6).

An epoch has a fixed cost, a cost per kept row, a smaller cost per shed row, and a cost per result.

Two kinds of epochs are not work and must not be learned. The first epochs of a run are slow,
because processes start and caches are empty: costs are *settled* once an epoch takes as long as the
epochs before it predict, and a much quicker epoch shows that the earlier epochs were warm-up. And
the machine may pause in an epoch: a single epoch that takes far longer than its rows explain counts
only up to a limit, a second one in a row counts in full.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import compress, product
from typing import ClassVar

import numpy as np

MEMORY = 0.95
"""The weight of past epochs is multiplied by this factor after every epoch."""
CHEAP = 0.1
"""The assumed cost of a shed row relative to a kept row, until rows have been shed."""
ALIKE = 1.5
"""A duration fits its prediction if neither is longer than this times the other."""
SAME = 1.1
"""A duration that is shorter than predicted by this factor may show a warm-up that goes on."""
QUICKLY_TRIED, LEAST_TRIED, MOST_TRIED = 3, 5, 10
"""Costs settle after at least the second and at most the third number of epochs of a run; after the
first one if the epochs become longer and longer, which no warm-up does."""
GROWN = 2
"""A warm-up never has this number of consecutive epochs, each much longer than the one before."""
SPREADS, LEAST_SPREAD = 4.0, 0.05
"""A residual counts up to `SPREADS` times the usual one, which is at least a share of the cost."""
NOVEL = 1.0
"""An epoch unlike all before it (of a leverage above this) counts in full: nothing predicts it."""


@dataclass(frozen=True)
class Epoch:
    """The measurements of an epoch; all times are in ticks.

    - `took`, `elapsed`: The duration of the epoch, and the time since the previous epoch's end.
    - `kept`, `shed`: The number of kept rows, and of shed rows.
    - `results`: The number of results.
    - `waiting`: The number of rows that wait at the sources after the epoch; None if unknown.
    - `run`: The number of epochs that the run has completed before; None if unknown.
    - `behind`: The sum of the late degrees of rows.
    """

    took: float
    elapsed: float
    kept: int
    shed: int
    results: int = 0
    waiting: int | None = None
    run: int | None = None
    behind: int = 0

    @property
    def rows(self) -> int:
        """The number of rows that the epoch read."""
        return self.kept + self.shed

    @property
    def counts(self) -> np.ndarray:
        """The numbers by which costs are multiplied: one epoch, kept rows, shed rows, results."""
        return np.array([1.0, self.kept, self.shed, self.results])


@dataclass(frozen=True)
class Costs:
    """The costs of an epoch in ticks: fixed, per kept row, per shed row, and per result.

    A dropped window saves the cost of its result, including the work of the next operators, even if
    other windows need all of its rows.
    """

    fixed: float
    kept: float
    shed: float
    result: float

    def of(self, epoch: Epoch) -> float:
        """Return the expected duration of `epoch` in ticks."""
        rows = self.kept * epoch.kept + self.shed * epoch.shed
        return self.fixed + rows + self.result * epoch.results


@dataclass(frozen=True)
class CostMemory:
    """The memory of the costs.

    - `products`, `sums`: The sums of a least-squares fit: products of two counts, and of count and
      duration.
    - `cost`: The fitted costs; None before the first epoch.
    - `spread`: The usual distance of durations from their prediction, as a share.
    - `settled`, `tried`: Whether the costs of this run are settled, and its epochs up to now.
    - `known`: Whether costs have settled, in this run or an earlier one.
    - `fits`: The number of consecutive epochs up to now whose durations fitted.
    - `took`, `grown`: The duration of the last epoch of this run, and the number of consecutive
      epochs up to now that took much longer than the one before.
    - `odd`: Whether the last epoch took much longer than its rows explain.
    - `surprise`: The largest recent share by which an epoch took longer than predicted.
    """

    VERSION: ClassVar[int] = 3

    products: list[list[float]] = field(default_factory=lambda: [[0.0] * 4 for _ in range(4)])
    sums: list[float] = field(default_factory=lambda: [0.0] * 4)
    cost: Costs | None = None
    spread: float = 0.0
    settled: bool = False
    known: bool = False
    tried: int = 0
    fits: int = 0
    took: float = 0.0
    grown: int = 0
    odd: bool = False
    surprise: float = 0.0

    def explained(self, epoch: Epoch) -> float:
        """Return the share of the epoch's duration that the known costs explain, from 0 to 1."""
        return 0.0 if self.cost is None else min(1.0, self.cost.of(epoch) / max(epoch.took, 1.0))

    def after(self, epoch: Epoch) -> CostMemory:
        """Return the memory after `epoch`."""
        if self.cost is None:
            return replace(_added(self, epoch, epoch.took), tried=1, took=epoch.took)
        began = self
        if epoch.run == 0:
            began = replace(self, settled=False, tried=0, fits=0, took=epoch.took, grown=0)
        ratio = epoch.took / max(self.cost.of(epoch), 1.0)
        now = replace(
            began,
            tried=began.tried + 1,
            fits=began.fits + 1 if _alike(ratio) else 0,
            took=epoch.took,
            grown=began.grown + 1 if epoch.took > ALIKE * began.took else 0,
        )
        cheaper = epoch.took < self.cost.of(replace(epoch, shed=0)) / ALIKE
        if now.tried <= MOST_TRIED and cheaper:
            fresh = CostMemory(tried=now.tried, took=now.took, grown=now.grown)
            return _added(fresh, epoch, epoch.took)
        return _usual(now, epoch) if now.settled else _first(now, epoch, ratio)


def _alike(ratio: float) -> bool:
    """Return whether a duration fits its prediction."""
    return 1 / ALIKE <= ratio <= ALIKE


def _first(memory: CostMemory, epoch: Epoch, ratio: float) -> CostMemory:
    """Return the memory after one of the first epochs of a run, whose costs are not settled.

    Costs that an earlier run has settled also predict an epoch with more rows than all before.
    """
    sure = memory.fits > (ratio < 1 / SAME)
    soonest = QUICKLY_TRIED if memory.grown >= GROWN else LEAST_TRIED
    settled = memory.tried >= (soonest if sure else MOST_TRIED)
    if ratio > ALIKE and not settled and (memory.known or not _novel(memory, epoch)):
        return memory
    known = memory.known or settled
    return replace(_added(memory, epoch, epoch.took), settled=settled, known=known)


def _usual(memory: CostMemory, epoch: Epoch) -> CostMemory:
    """Return the memory after an epoch of a run whose costs are settled."""
    assert memory.cost is not None  # noqa: S101
    expected = max(memory.cost.of(epoch), 1.0)
    share = epoch.took / expected - 1
    most = SPREADS * max(memory.spread, LEAST_SPREAD)
    novel = _novel(memory, epoch)
    odd = abs(share) > most and not novel
    counted = float(np.clip(share, -most, most)) if odd and not memory.odd else share
    surprise = MEMORY * memory.surprise
    if not novel:
        surprise = float(np.clip(max(surprise, counted), 0, 1))
    spread = memory.spread if novel else MEMORY * memory.spread + (1 - MEMORY) * abs(counted)
    after = replace(memory, spread=min(spread, 1.0), odd=odd, surprise=surprise)
    return _added(after, epoch, expected * (1 + counted))


def _novel(memory: CostMemory, epoch: Epoch) -> bool:
    """Return whether the epoch is so unlike those in memory that they do not predict it."""
    row, products = epoch.counts, np.array(memory.products)
    square = products + np.diag(1e-3 * np.diag(products) + 1e-9)
    return float(row @ np.linalg.solve(square, row)) > NOVEL


def _added(memory: CostMemory, epoch: Epoch, took: float) -> CostMemory:
    """Return the memory with the epoch in its sums, as if the epoch took `took` ticks."""
    row = epoch.counts
    products = MEMORY * np.array(memory.products) + np.outer(row, row)
    sums = MEMORY * np.array(memory.sums) + row * took
    cost = fitted(products, sums)
    return replace(memory, products=products.tolist(), sums=sums.tolist(), cost=cost)


def fitted(products: np.ndarray, sums: np.ndarray) -> Costs:
    """Return the costs with the smallest squared error; costs that would be negative are 0."""
    best: tuple[float, np.ndarray] = np.inf, np.zeros(len(sums))
    for chosen in product((True, False), repeat=len(sums)):
        mine = list(compress(range(len(sums)), chosen))
        if not mine:
            continue
        # The small diagonal makes the fit unique if all epochs are alike.
        square = products[np.ix_(mine, mine)]
        fit = np.linalg.solve(square + np.diag(1e-3 * np.diag(square) + 1e-9), sums[mine])
        if (fit < 0).any():
            continue
        costs = np.zeros(len(sums))
        costs[mine] = fit
        error = float(costs @ products @ costs - 2 * costs @ sums)
        if error < best[0]:
            best = error, costs
    fixed, kept, shed, result = best[1].tolist()
    measured = products[2, 2] > 0  # rows have been shed
    return Costs(fixed, kept, min(shed, kept) if measured else CHEAP * kept, result)
