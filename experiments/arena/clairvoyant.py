"""The least mean wait of any rule, even of one that knows all arrivals.

Each window closes after the epoch of one of its rows, or as soon as it can. For a price of lost
rows, every window by itself closes where its wait plus its lost rows cost least. Prices at which
all windows together lose as many rows as allowed give the bound. Watermarks cannot go back, so real
rules wait longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.arena.constants import closing_epochs
from experiments.arena.simulate import Simulation
from experiments.arena.stream import Floats, Ticks

HALVINGS = 40
"""The number of halvings of the interval of prices."""


@dataclass(frozen=True, eq=False)
class Closings:
    """The ways to close each window: its wait and lost rows, sorted by window.

    `first` is the place of the first way of each window.
    """

    first: Ticks
    window: Ticks
    wait: Floats
    lost: Ticks

    @classmethod
    def of(cls, sim: Simulation, judged: np.ndarray) -> Closings:
        """Return the closings of the windows of the mask `judged`."""
        found, cuts = sim.incidences, sim.stream.cuts
        soonest = closing_epochs(sim.stream, found.ends)
        later = judged[found.window] & (found.epoch > soonest[found.window])
        window, epoch = found.window[later], found.epoch[later]
        count = found.count[later]
        late = np.bincount(window, count, minlength=len(found.ends)).astype(np.int64)
        order = np.lexsort((epoch, window))
        window, epoch, count = window[order], epoch[order], count[order]
        before = np.concatenate([[0], np.cumsum(count)])
        arrived = before[1:] - before[np.searchsorted(window, window)]
        mine = np.flatnonzero(judged)
        windows = np.concatenate([mine, window])
        waits = np.concatenate(
            [cuts[soonest[mine]] - found.ends[mine], cuts[epoch] - found.ends[window]]
        )
        lost = np.concatenate([late[mine], late[window] - arrived])
        at = np.argsort(windows, kind="stable")
        windows = windows[at]
        return cls(np.searchsorted(windows, mine), windows, waits[at].astype(float), lost[at])

    def at(self, price: float) -> tuple[float, int]:
        """Return the mean wait and the lost rows if each window closes where it costs least."""
        cost = self.wait + price * self.lost
        least = np.repeat(
            np.minimum.reduceat(cost, self.first), np.diff(self.first, append=len(cost))
        )
        places = np.flatnonzero(cost <= least)
        chosen = places[np.unique(self.window[places], return_index=True)[1]]
        return float(self.wait[chosen].mean()), int(self.lost[chosen].sum())


def least_wait(sim: Simulation, judged: np.ndarray, completeness: float) -> float:
    """Return the bound for a completeness over the windows of the mask `judged`, in ticks."""
    closings, found = Closings.of(sim, judged), sim.incidences
    allowed = (1 - completeness) * found.count[judged[found.window]].sum()
    cheap, dear = 1e-9 * sim.stream.range, 1e6 * sim.stream.range
    least, most = closings.at(cheap), closings.at(dear)
    if least[1] <= allowed:
        return least[0]
    for _ in range(HALVINGS):
        price = float(np.sqrt(cheap * dear))
        middle = closings.at(price)
        if middle[1] > allowed:
            cheap, least = price, middle
        else:
            dear, most = price, middle
    if least[1] == most[1]:
        return most[0]
    part = float((allowed - most[1]) / (least[1] - most[1]))
    return most[0] + part * (least[0] - most[0])
