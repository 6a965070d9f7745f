"""The load model: it computes the share of windows to drop from measured costs (DROP 3.6).

An epoch has a fixed cost, a cost per kept row, a smaller cost per shed row, and a cost per result.
The model learns these four costs from the durations of epochs.

In the worst case a result is emitted three epochs after its last row arrived: the current epoch,
the epoch that reads the row, and the epoch that closes the window. So a bound on the age of results
bounds the length of epochs. This length and the arrival rate determine the work that must be shed.
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
"""The model aims at this share of the bound, because the length of epochs varies."""
MEMORY = 0.9
"""The weight of past epochs is multiplied by this factor after every epoch."""
RISING, FALLING = 0.9, 0.5
"""The weight of the newest epoch in the arrival rate if the rate rises, and if it falls."""
FORGETTING = 0.5
"""The share to drop may rise at once, but falls at most by this factor per epoch."""
STARTS, STOPS = 0.03, 0.01
"""The smallest share to drop at which shedding starts, and at which it continues."""
CHEAP = 0.1
"""The assumed cost of a shed row relative to a kept row, until rows have been shed."""
PATIENCE = 8
"""A query is shut down after this many consecutive epochs in which the bound cannot be met."""


@dataclass(frozen=True)
class Epoch:
    """The measurements of an epoch; all times are in ticks.

    - `took`, `elapsed`: The duration of the epoch, and the time since the previous epoch's end.
    - `kept`, `shed`: The number of kept rows, and of shed rows.
    - `results`: The number of results.
    - `waiting`: The number of rows that wait at the sources after the epoch; None if unknown.
    - `behind`: The distance of the watermarks behind the newest time.
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
        """The number of rows that the epoch read."""
        return self.kept + self.shed


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


def surprise(before: float, costs: Costs, epoch: Epoch) -> float:
    """Return the largest recent value of duration / expected duration − 1; older values fade.

    >>> surprise(0.0, Costs(100, 1, 0, 0), Epoch(150, 150, 20, 0))
    0.25
    """
    expected_ = costs.of(epoch)
    longer = epoch.took / expected_ - 1 if expected_ else 0.0
    return float(np.clip(max(MEMORY * before, longer), 0, 1))


@dataclass(frozen=True)
class CostMemory:
    """Sums for a least-squares fit of costs: products of two counts, and of count and duration."""

    products: list[list[float]] = field(default_factory=lambda: [[0.0] * 4 for _ in range(4)])
    sums: list[float] = field(default_factory=lambda: [0.0] * 4)


def learn(memory: CostMemory, epoch: Epoch) -> tuple[CostMemory, Costs]:
    """Return the memory after `epoch`, and the costs (≥ 0) from a least-squares fit."""
    row = np.array([1.0, epoch.kept, epoch.shed, epoch.results])
    products = MEMORY * np.array(memory.products) + np.outer(row, row)
    sums = MEMORY * np.array(memory.sums) + row * epoch.took
    return CostMemory(products.tolist(), sums.tolist()), _fitted(products, sums)


def _fitted(products: np.ndarray, sums: np.ndarray) -> Costs:
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


@dataclass(frozen=True)
class ExpectedLoad:
    """The expected load: rows per tick, and results per row if no window is dropped."""

    rate: float
    results: float


@dataclass(frozen=True)
class LoadMemory:
    """The memory of the load model.

    - `now`: The system clock at the end of the last epoch.
    - `elapsed`: The ticks between the ends of the last two epochs.
    - `costs`, `cost`: The sums for the fit of costs (`CostMemory`), and the fitted costs.
    - `surprise`: The largest recent value of duration / expected duration − 1.
    - `rate`, `results`: The expected rows per tick, and the expected results per row.
    - `waiting`: The number of rows that waited at the sources after the last epoch.
    - `share`, `run`: The share of windows to drop, and the number of consecutive slots to drop.
    - `load`, `beyond`: The arriving work divided by the capacity, and the number of consecutive
      epochs up to now in which the bound could not be met.
    - `closed`: {operator of a shut-down query: arrival rate at the shut-down}.
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
    """Return the load that is expected after `epoch`."""
    rate, known = arrival_rate(memory, epoch), memory.results
    if not epoch.rows or epoch.share >= 1:
        return ExpectedLoad(rate, float(known or 0))
    now = epoch.results / epoch.rows / (1 - epoch.share)
    return ExpectedLoad(rate, now if known is None else float(known) + MEMORY * 0.2 * (now - known))


@dataclass(frozen=True)
class DropRequirement:
    """The share of windows to drop, and the number of consecutive slots to drop.

    `load` is work divided by capacity; `reachable` is whether these drops keep the latency bound.
    """

    share: float
    run: int
    load: float
    reachable: bool


@dataclass(frozen=True)
class Bound:
    """A bound of `latency` ticks on the age of results; a run has at most `most` dropped slots.

    With a larger `surprise`, the model aims further below the bound.
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
        """Return the drops that the expected load `coming` requires after `epoch`.

        Under overload, the rows of a kept window arrive faster than they are processed. The bound
        is therefore reduced by the delay that builds up during one window.
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
        """Return the share of rows skipped by n = `run` consecutive drops: ((n+1)δ - ω) / nδ."""
        return self.params.spared(run) / (run * self.params.slide)

    def run(self, share: float) -> int:
        """Return the number of consecutive slots to drop in order to skip `share` of the rows.

        Without overlap of windows, all run lengths skip the same share of rows, and short runs keep
        the load even. With overlap, long runs skip more rows. So a run is short compared with
        the bound, but long enough to skip `share` with one kept slot between two runs.
        """
        params, most = self.params, self.most
        if params.size <= params.slide:
            return 1
        even = max(2 * params.overlap, self.latency // (2 * params.slide))
        least = ceil(params.size / params.slide / max(1 - share, 1 / (most + 1))) - 1
        return int(max(1, min(most, max(even, least))))


def settled(before: float, share: float) -> float:
    """Return the next share to drop: it rises at once, falls slowly, and is 0 below a threshold.

    >>> settled(0.0, 0.02), settled(0.0, 0.5), settled(0.5, 0.0), settled(0.012, 0.0)
    (0.0, 0.5, 0.25, 0.0)
    """
    share = max(share, FORGETTING * before)
    return share if share >= (STOPS if before else STARTS) else 0.0


def arrival_rate(memory: LoadMemory, epoch: Epoch) -> float:
    """Return the recent arrival rate in rows per tick; it follows a rise faster than a fall.

    If sources report waiting rows, the arrivals during `epoch` are known. Otherwise, `epoch` is
    assumed to have read the rows that arrived during the previous epoch.
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
    """Return the operator not in `closed` with the most rows; None if fewer than two are open."""
    open_ones = {n: count for n, count in rows.items() if n not in closed}
    return max(open_ones, key=lambda n: (open_ones[n], n)) if len(open_ones) > 1 else None
