"""How much must be shed: work that arrives over what can be done, from measured costs (DROP 3.6).

An epoch costs something by itself, something for each row that goes all the way, a little for each
that is shed, and something for each result. The four are learned from how long epochs took.

A result comes at worst three epochs after its last row arrived: one that was under way, one that
takes the row in, one that closes the window. So a bound on age is a bound on the length of epochs,
and from the rate at which rows arrive follows how much of their work fits into it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, product
from math import ceil
from typing import Any

import numpy as np

from lowwater.shedding.rules import Params

EPOCHS_TO_ANSWER = 3
"""How many epochs may pass between the arrival of a row and a result that has it."""
MARGIN = 0.8
"""What part of the bound is aimed at: epochs differ."""
MEMORY = 0.9
"""What weight an epoch keeps when the next has come."""
RISING, FALLING = 0.9, 0.5
"""What weight the newest epoch has for the rate at which rows arrive."""
FORGETTING = 0.5
"""How fast the share falls when less is needed: it rises at once."""
STARTS, STOPS = 0.03, 0.01
"""Shares at which shedding begins, and ends."""
CHEAP = 0.1
"""What a row that is shed is taken to cost, of one that is not, until it has been measured."""
PATIENCE = 8
"""For how many epochs in a row a bound must be out of reach before a query is shut down."""


@dataclass(frozen=True)
class Epoch:
    """What an epoch showed: how long it took, and what came; times in ticks.

    `elapsed` is the time since the one before ended, `waiting` how many rows its sources have that
    were not taken in (where they tell), `behind` how far marks are behind the newest row, `p` the
    share of windows that were left out.
    """

    took: float
    elapsed: float
    kept: int
    shed: int
    results: int = 0
    waiting: int | None = None
    behind: int = 0
    p: float = 0.0

    @property
    def rows(self) -> int:
        """How many rows it took in."""
        return self.kept + self.shed


@dataclass(frozen=True)
class Costs:
    """Ticks that an epoch takes by itself, for a row it keeps, for one that it sheds, for a result.

    Of windows that are left out no result is made, nor worked on behind them: that is spared even
    where all rows are needed.
    """

    fixed: float
    kept: float
    shed: float
    result: float

    def of(self, epoch: Epoch) -> float:
        """Return how long an epoch should have taken."""
        rows = self.kept * epoch.kept + self.shed * epoch.shed
        return self.fixed + rows + self.result * epoch.results


def surprise(before: float, costs: Costs, epoch: Epoch) -> float:
    """Return how much longer than expected epochs take now and then, as a share.

    >>> surprise(0.0, Costs(100, 1, 0, 0), Epoch(150, 150, 20, 0))
    0.25
    """
    expected_ = costs.of(epoch)
    longer = epoch.took / expected_ - 1 if expected_ else 0.0
    return float(np.clip(max(MEMORY * before, longer), 0, 1))


def learn(memory: Mapping[str, Any], epoch: Epoch) -> tuple[dict[str, Any], Costs]:
    """Return what is remembered of costs after an epoch, and the costs: least squares, none < 0."""
    row = np.array([1.0, epoch.kept, epoch.shed, epoch.results])
    products = MEMORY * np.array(memory.get("products", np.zeros((4, 4)))) + np.outer(row, row)
    sums = MEMORY * np.array(memory.get("sums", np.zeros(4))) + row * epoch.took
    kept = {"products": products.tolist(), "sums": sums.tolist()}
    return kept, _fitted(products, sums)


def _fitted(products: np.ndarray, sums: np.ndarray) -> Costs:
    best: tuple[float, np.ndarray] | None = None
    for chosen in product((True, False), repeat=len(sums)):
        mine = list(compress(range(len(sums)), chosen))
        if not mine:
            continue
        # A little is added on the diagonal: epochs that are all alike do not tell costs apart.
        square = products[np.ix_(mine, mine)]
        found = np.linalg.solve(square + np.diag(1e-3 * np.diag(square) + 1e-9), sums[mine])
        if (found < 0).any():
            continue
        costs = np.zeros(len(sums))
        costs[mine] = found
        error = float(costs @ products @ costs - 2 * costs @ sums)
        if best is None or error < best[0]:
            best = error, costs
    fixed, kept, shed, result = [0.0] * 4 if best is None else best[1].tolist()
    seen = products[2, 2] > 0
    return Costs(fixed, kept, min(shed, kept) if seen else CHEAP * kept, result)


@dataclass(frozen=True)
class Coming:
    """What is expected: rows per tick, and results per row if no window is left out."""

    rate: float
    results: float


def expected(memory: Mapping[str, Any], epoch: Epoch) -> Coming:
    """Return what is expected after an epoch, from what was before it."""
    rate = arrival_rate(memory, epoch)
    known = memory.get("results")
    if not epoch.rows or epoch.p >= 1:
        return Coming(rate, float(known or 0))
    now = epoch.results / epoch.rows / (1 - epoch.p)
    return Coming(rate, now if known is None else float(known) + MEMORY * 0.2 * (now - known))


@dataclass(frozen=True)
class Need:
    """What follows from the load: the share of windows to leave out, in runs of so many slots.

    `load` is work arriving over capacity, `reachable` whether the share, and the bound, can be had.
    """

    p: float
    run: int
    load: float
    reachable: bool


@dataclass(frozen=True)
class Bound:
    """What is asked: results no older than `latency` (ticks), at most `most` slots missing.

    The more epochs `surprise`, the more room is left.
    """

    params: Params
    most: int
    latency: int
    surprise: float = 0.0

    @property
    def limit(self) -> float:
        """The share of windows that can be left out at most."""
        return self.most / (self.most + 1)

    def needs(self, costs: Costs, coming: Coming, epoch: Epoch) -> Need:
        """Return what must be left out when rows arrive so.

        A window that is kept takes its rows as they come, faster than they are worked off; so a
        part of the bound is for its size.
        """
        each = costs.kept + costs.result * coming.results
        full = max(0.0, each * coming.rate - 1) * self.params.size
        aim = MARGIN / (1 + self.surprise / 2)
        length = (aim * self.latency - epoch.behind - full) / EPOCHS_TO_ANSWER
        if length <= costs.fixed:
            return Need(self.limit, self.run(1.0), each * coming.rate, reachable=False)
        rows = coming.rate * length
        load = (costs.fixed + each * rows) / length
        rows += max(0.0, (epoch.waiting or 0) - rows) / 2  # a backlog is not worked off at once
        excess = costs.fixed + each * rows - length
        if excess <= 0:
            return Need(0.0, self.run(0.0), load, reachable=True)
        by_rows = (costs.kept - costs.shed) * rows
        run = self.run(min(1.0, excess / by_rows) if by_rows > 0 else 0.0)
        spared = by_rows * self.early(run) + costs.result * coming.results * rows
        p = excess / spared if spared > 0 else 1.0
        return Need(min(p, self.limit), run, load, reachable=p <= self.limit)

    def early(self, run: int) -> float:
        """Return how many rows, of those of the windows in a run, need not be read: δ by δ.

        A run of n slots spares (n+1)δ - ω of nδ.
        """
        return self.params.spared(run) / (run * self.params.slide)

    def run(self, share: float) -> int:
        """Return how many slots to leave out in a row to spare a share of the rows.

        Windows that do not overlap spare the same rows in whatever runs; short runs keep the load
        even. Overlapping ones spare more in long runs, which should still be short next to the
        bound; but they must be long enough, with one slot kept between two.
        """
        params, most = self.params, self.most
        if params.size <= params.slide:
            return 1
        even = max(2 * params.overlap, self.latency // (2 * params.slide))
        least = ceil(params.size / params.slide / max(1 - share, 1 / (most + 1))) - 1
        return int(max(1, min(most, max(even, least))))


def settled(before: float, p: float) -> float:
    """Return the share to leave out: it rises at once, falls slowly, and is nothing or worth it.

    >>> settled(0.0, 0.02), settled(0.0, 0.5), settled(0.5, 0.0), settled(0.012, 0.0)
    (0.0, 0.5, 0.25, 0.0)
    """
    found = max(p, FORGETTING * before)
    return found if found >= (STOPS if before else STARTS) else 0.0


def arrival_rate(memory: Mapping[str, Any], epoch: Epoch) -> float:
    """Return how many rows arrive in a tick, of late: a rise is believed sooner than a fall.

    Where sources tell what waits, that has come while the epoch ran. Else an epoch takes in what
    came while the one before ran.
    """
    if epoch.waiting is not None:
        came, within = epoch.rows + epoch.waiting - (memory.get("waiting") or 0), epoch.elapsed
    else:
        came, within = epoch.rows, memory.get("elapsed", epoch.elapsed)
    now = max(0, came) / max(within, 1)
    known = float(memory.get("rate") or now)
    weight = RISING if now > known else FALLING
    return known + weight * (now - known)


def costliest(rows: Mapping[int, int], closed: Sequence[int]) -> int | None:
    """Return the query to shut down next: the one most rows go to; the last is left alone."""
    open_ones = {n: count for n, count in rows.items() if n not in closed}
    return max(open_ones, key=lambda n: (open_ones[n], n)) if len(open_ones) > 1 else None
