"""How much must be shed: work that arrives over what can be done, from measured costs (DROP 3.6).

An epoch costs something by itself, something for each row that goes all the way, and a little for
each that is shed. The three are learned from how long epochs took. A result comes at worst three
epochs after its last row arrived: one that was under way, one that takes the row in, one that
closes the window. So a bound on age is a bound on the length of epochs, and from the rate at which
rows arrive follows the share of them that fits into it.
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
    were not taken in (where they tell), `behind` how far marks are behind the newest row.
    """

    took: float
    elapsed: float
    kept: int
    shed: int
    waiting: int | None = None
    behind: int = 0


@dataclass(frozen=True)
class Costs:
    """Ticks that an epoch takes by itself, for each row it keeps, for each that it sheds."""

    fixed: float
    kept: float
    shed: float

    def to_json(self) -> list[float]:
        """Return it as JSON."""
        return [self.fixed, self.kept, self.shed]


def learn(memory: Mapping[str, Any], epoch: Epoch) -> tuple[dict[str, Any], Costs]:
    """Return what is remembered of costs after an epoch, and the costs: least squares, none < 0."""
    row = np.array([1.0, epoch.kept, epoch.shed])
    products = MEMORY * np.array(memory.get("products", np.zeros((3, 3)))) + np.outer(row, row)
    sums = MEMORY * np.array(memory.get("sums", np.zeros(3))) + row * epoch.took
    kept = {"products": products.tolist(), "sums": sums.tolist()}
    return kept, _fitted(products, sums)


def _fitted(products: np.ndarray, sums: np.ndarray) -> Costs:
    best: tuple[float, np.ndarray] | None = None
    for chosen in product((True, False), repeat=3):
        mine = list(compress(range(3), chosen))
        if not mine:
            continue
        # A little is added on the diagonal: epochs that are all alike do not tell costs apart.
        square = products[np.ix_(mine, mine)]
        found = np.linalg.solve(square + np.diag(1e-3 * np.diag(square) + 1e-9), sums[mine])
        if (found < 0).any():
            continue
        costs = np.zeros(3)
        costs[mine] = found
        error = float(costs @ products @ costs - 2 * costs @ sums)
        if best is None or error < best[0]:
            best = error, costs
    fixed, kept, shed = (0.0, 0.0, 0.0) if best is None else best[1].tolist()
    seen = products[2, 2] > 0
    return Costs(fixed, kept, min(shed, kept) if seen else CHEAP * kept)


@dataclass(frozen=True)
class Need:
    """What follows from the load: the share of rows to shed.

    `load` is work arriving over capacity, `reachable` whether epochs without rows would be short
    enough.
    """

    share: float
    load: float
    reachable: bool


def needed(costs: Costs, rate: float, epoch: Epoch, latency: int, size: int) -> Need:
    """Return what must be shed for results to be no older than `latency` when rows arrive so.

    A window that is kept takes its rows as they come, faster than they are worked off; so a part
    of the bound is for its `size`.
    """
    full = max(0.0, costs.kept * rate - 1) * size
    length = (MARGIN * latency - epoch.behind - full) / EPOCHS_TO_ANSWER
    if length <= costs.fixed:
        return Need(1.0, costs.kept * rate, reachable=False)
    coming = rate * length
    load = (costs.fixed + costs.kept * coming) / length
    coming += (
        max(0.0, (epoch.waiting or 0) - coming) / 2
    )  # a backlog is worked off, not all at once
    if not coming or costs.kept <= costs.shed:
        return Need(0.0, load, reachable=True)
    fits = (length - costs.fixed - costs.shed * coming) / (costs.kept - costs.shed)
    return Need(float(np.clip(1 - fits / coming, 0, 1)), load, reachable=True)


def settled(before: float, share: float) -> float:
    """Return the share to shed: it rises at once, falls slowly, and is nothing or worth it.

    >>> settled(0.0, 0.02), settled(0.0, 0.5), settled(0.5, 0.0), settled(0.012, 0.0)
    (0.0, 0.5, 0.25, 0.0)
    """
    found = max(share, FORGETTING * before)
    return found if found >= (STOPS if before else STARTS) else 0.0


def run_of(params: Params, most: int, latency: int, share: float) -> int:
    """Return how many slots to leave out in a row.

    Windows that do not overlap spare the same rows in whatever runs; short runs keep the load even.
    Overlapping ones spare more in long runs, which should still be short next to the bound; but
    they must be long enough to spare a share of the rows, with one slot kept between two.
    """
    if params.size <= params.slide:
        return 1
    even = max(2 * params.overlap, latency // (2 * params.slide))
    least = ceil(params.size / params.slide / max(1 - share, 1 / (most + 1))) - 1
    return int(max(1, min(most, max(even, least))))


def drop_rate(params: Params, run: int, most: int, share: float) -> float:
    """Return the share of windows to leave out so that a share of the rows is spared.

    A run of n slots spares (n+1)δ - ω of nδ.

    >>> drop_rate(Params(10, 10), 1, 10, 0.5), drop_rate(Params(20, 10), 4, 10, 0.375)
    (0.5, 0.5)
    """
    spared = params.spared(run) / (run * params.slide)
    limit = most / (most + 1)
    return min(limit, share / spared) if spared else (limit if share else 0.0)


def arrival_rate(memory: Mapping[str, Any], epoch: Epoch) -> float:
    """Return how many rows arrive in a tick, of late: a rise is believed sooner than a fall.

    Where sources tell what waits, that has come while the epoch ran. Else an epoch takes in what
    came while the one before ran.
    """
    rows = epoch.kept + epoch.shed
    if epoch.waiting is not None:
        came, within = rows + epoch.waiting - (memory.get("waiting") or 0), epoch.elapsed
    else:
        came, within = rows, memory.get("elapsed", epoch.elapsed)
    now = max(0, came) / max(within, 1)
    known = float(memory.get("rate") or now)
    weight = RISING if now > known else FALLING
    return known + weight * (now - known)


def costliest(rows: Mapping[int, int], closed: Sequence[int]) -> int | None:
    """Return the query to shut down next: the one most rows go to; the last is left alone."""
    open_ones = {n: count for n, count in rows.items() if n not in closed}
    return max(open_ones, key=lambda n: (open_ones[n], n)) if len(open_ones) > 1 else None
