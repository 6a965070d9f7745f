"""The load model: which share of windows must be dropped, from measured costs (DROP 3.6).

An epoch has a fixed cost, a cost for each row that is kept, a smaller one for each row that is
shed, and a cost for each result. The model learns the four from the durations of epochs.

In the worst case a result is emitted three epochs after its last row arrived: the epoch under way,
the epoch that reads the row, and the epoch that closes the window. So a bound on the age of results
bounds the length of epochs, and with the arrival rate follows how much work fits into one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, product
from math import ceil
from typing import ClassVar

import numpy as np

from lowwater.shedding.drop_geometry import Params

EPOCHS_TO_ANSWER = 3
"""The largest number of epochs between the arrival of a row and its result."""
MARGIN = 0.8
"""The part of the bound to aim at, because epochs vary."""
MEMORY = 0.9
"""The weight that an epoch keeps after the next one."""
RISING, FALLING = 0.9, 0.5
"""The weight of the newest epoch in the arrival rate, when it rises and falls."""
FORGETTING = 0.5
"""The factor by which the share falls, at most, in an epoch; it rises at once."""
STARTS, STOPS = 0.03, 0.01
"""Shares at which shedding begins, and ends."""
CHEAP = 0.1
"""The assumed cost of a row that is shed, relative to one that is kept, before any is shed."""
PATIENCE = 8
"""The number of epochs in a row beyond reach of the bound after which a query is shut down."""


@dataclass(frozen=True)
class Epoch:
    """The measurements of an epoch; times in ticks.

    - `took`, `elapsed`: Its duration, and the time since the epoch before ended.
    - `kept`, `shed`: The number of rows that it kept, and that it shed.
    - `results`: The number of results.
    - `waiting`: The number of rows that its sources have but it did not read; None if unknown.
    - `behind`: How far watermarks are behind the newest row.
    - `share`: The share of windows that were dropped.
    """

    took: float
    elapsed: float
    kept: int
    shed: int
    results: int = 0
    waiting: int | None = None
    behind: int = 0
    share: float = 0.0

    @property
    def rows(self) -> int:
        """The number of rows that it read."""
        return self.kept + self.shed


@dataclass(frozen=True)
class Costs:
    """The cost of an epoch in ticks: fixed, for each row kept, each row shed, and each result.

    A dropped window saves the cost of its result, and of operators behind it, even if all rows are
    needed for other windows.
    """

    fixed: float
    kept: float
    shed: float
    result: float

    def of(self, epoch: Epoch) -> float:
        """Return the expected duration of an epoch."""
        rows = self.kept * epoch.kept + self.shed * epoch.shed
        return self.fixed + rows + self.result * epoch.results


def surprise(before: float, costs: Costs, epoch: Epoch) -> float:
    """Return the largest share by which recent epochs took longer than expected.

    >>> surprise(0.0, Costs(100, 1, 0, 0), Epoch(150, 150, 20, 0))
    0.25
    """
    expected_ = costs.of(epoch)
    longer = epoch.took / expected_ - 1 if expected_ else 0.0
    return float(np.clip(max(MEMORY * before, longer), 0, 1))


@dataclass(frozen=True)
class CostMemory:
    """The fading sums of a least-squares fit: products of the counts, and counts times duration."""

    products: list[list[float]] = field(default_factory=lambda: [[0.0] * 4 for _ in range(4)])
    sums: list[float] = field(default_factory=lambda: [0.0] * 4)


def learn(memory: CostMemory, epoch: Epoch) -> tuple[CostMemory, Costs]:
    """Return the memory after an epoch, and the costs: least squares without negative costs."""
    row = np.array([1.0, epoch.kept, epoch.shed, epoch.results])
    products = MEMORY * np.array(memory.products) + np.outer(row, row)
    sums = MEMORY * np.array(memory.sums) + row * epoch.took
    return CostMemory(products.tolist(), sums.tolist()), _fitted(products, sums)


def _fitted(products: np.ndarray, sums: np.ndarray) -> Costs:
    """Return the best fit among all subsets of the four costs whose fit has no negative cost."""
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
    measured = products[2, 2] > 0  # an epoch has shed rows
    return Costs(fixed, kept, min(shed, kept) if measured else CHEAP * kept, result)


@dataclass(frozen=True)
class ExpectedLoad:
    """The expected load: rows per tick, and results per row if no window is dropped."""

    rate: float
    results: float


@dataclass(frozen=True)
class LoadMemory:
    """The memory of the load model.

    - `now`, `elapsed`: The clock at the end of the last epoch, and the time since the epoch before.
    - `costs`, `cost`: The sums of the fit, and the fitted costs.
    - `surprise`: How much longer than expected epochs sometimes take.
    - `rate`, `results`: The expected rows per tick, and results per row.
    - `waiting`: The number of rows that the sources have but the last epoch did not read.
    - `share`, `run`: The share of windows to drop, and the number of slots to drop in a row.
    - `load`: The arriving work over the capacity.
    - `beyond`: The number of epochs in a row in which the bound was out of reach.
    - `closed`: The operators of queries that are shut down, with the arrival rate at that time.
    """

    VERSION: ClassVar[int] = 1

    now: int | None = None
    elapsed: float | None = None
    costs: CostMemory = field(default_factory=CostMemory)
    cost: Costs | None = None
    surprise: float = 0.0
    rate: float | None = None
    results: float | None = None
    waiting: int | None = None
    share: float = 0.0
    run: int = 1
    load: float | None = None
    beyond: int = 0
    closed: dict[int, float] = field(default_factory=dict)


def expected(memory: LoadMemory, epoch: Epoch) -> ExpectedLoad:
    """Return the expected load after an epoch."""
    rate, known = arrival_rate(memory, epoch), memory.results
    if not epoch.rows or epoch.share >= 1:
        return ExpectedLoad(rate, float(known or 0))
    now = epoch.results / epoch.rows / (1 - epoch.share)
    return ExpectedLoad(rate, now if known is None else float(known) + MEMORY * 0.2 * (now - known))


@dataclass(frozen=True)
class DropRequirement:
    """The share of windows to drop, and the number of slots to drop in a row.

    `load` is the arriving work over the capacity; `reachable` is whether the bound can be met.
    """

    share: float
    run: int
    load: float
    reachable: bool


@dataclass(frozen=True)
class Bound:
    """The bound: results no older than `latency` (ticks), at most `most` slots missing in a row.

    A larger `surprise` leaves more room below the bound.
    """

    params: Params
    most: int
    latency: int
    surprise: float = 0.0

    @property
    def limit(self) -> float:
        """The largest share of windows that can be dropped."""
        return self.most / (self.most + 1)

    def needs(self, costs: Costs, coming: ExpectedLoad, epoch: Epoch) -> DropRequirement:
        """Return the share to drop for an expected load.

        The rows of a kept window arrive faster than they are processed, so a part of the bound is
        reserved for its size.
        """
        each = costs.kept + costs.result * coming.results
        full = max(0.0, each * coming.rate - 1) * self.params.size
        aim = MARGIN / (1 + self.surprise / 2)
        length = (aim * self.latency - epoch.behind - full) / EPOCHS_TO_ANSWER
        if length <= costs.fixed:
            return DropRequirement(self.limit, self.run(1.0), each * coming.rate, reachable=False)
        rows = coming.rate * length
        load = (costs.fixed + each * rows) / length
        # A backlog is processed over several epochs.
        rows += max(0.0, (epoch.waiting or 0) - rows) / 2
        excess = costs.fixed + each * rows - length
        if excess <= 0:
            return DropRequirement(0.0, self.run(0.0), load, reachable=True)
        by_rows = (costs.kept - costs.shed) * rows
        run = self.run(min(1.0, excess / by_rows) if by_rows > 0 else 0.0)
        spared = by_rows * self.early(run) + costs.result * coming.results * rows
        share = excess / spared if spared > 0 else 1.0
        return DropRequirement(min(share, self.limit), run, load, reachable=share <= self.limit)

    def early(self, run: int) -> float:
        """Return the share of a run's rows that need not be processed: (n+1)δ - ω of nδ."""
        return self.params.spared(run) / (run * self.params.slide)

    def run(self, share: float) -> int:
        """Return how many slots to drop in a row to spare a share of the rows.

        Windows that do not overlap spare the same rows in runs of any length; short runs keep the
        load even. Overlapping windows spare more rows in long runs. Runs should be short compared
        with the bound, but long enough to spare the share with one slot kept between two runs.
        """
        params, most = self.params, self.most
        if params.size <= params.slide:
            return 1
        even = max(2 * params.overlap, self.latency // (2 * params.slide))
        least = ceil(params.size / params.slide / max(1 - share, 1 / (most + 1))) - 1
        return int(max(1, min(most, max(even, least))))


def settled(before: float, share: float) -> float:
    """Return the share to drop: it rises at once, falls slowly, and is 0 below a threshold.

    >>> settled(0.0, 0.02), settled(0.0, 0.5), settled(0.5, 0.0), settled(0.012, 0.0)
    (0.0, 0.5, 0.25, 0.0)
    """
    share = max(share, FORGETTING * before)
    return share if share >= (STOPS if before else STARTS) else 0.0


def arrival_rate(memory: LoadMemory, epoch: Epoch) -> float:
    """Return the recent arrival rate in rows per tick; it follows a rise faster than a fall.

    If sources report waiting rows, those arrived while the epoch ran. Otherwise an epoch reads the
    rows that arrived while the epoch before ran.
    """
    if epoch.waiting is not None:
        arrived, within = epoch.rows + epoch.waiting - (memory.waiting or 0), epoch.elapsed
    else:
        arrived = epoch.rows
        within = epoch.elapsed if memory.elapsed is None else memory.elapsed
    now = max(0, arrived) / max(within, 1)
    known = float(memory.rate or now)
    weight = RISING if now > known else FALLING
    return known + weight * (now - known)


def costliest(rows: Mapping[int, int], closed: Sequence[int]) -> int | None:
    """Return the query to shut down next: the one with the most rows, never the last open one."""
    open_ones = {n: count for n, count in rows.items() if n not in closed}
    return max(open_ones, key=lambda n: (open_ones[n], n)) if len(open_ones) > 1 else None
