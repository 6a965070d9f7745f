"""A machine that is too slow for its stream, simulated: what epochs cost, how old results get.

Rows arrive at times of their own; an epoch takes in what has arrived since the one before began,
and takes as long as its rows cost. Nothing is timed: the clock is moved by what the work would have
taken, so that a burst of minutes is played in a moment, always the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lowwater.durations import TICKS_PER_SECOND as SECOND
from lowwater.kernels.estimating import window_ticks
from lowwater.kernels.packets import tables
from lowwater.kernels.skipping import skipped
from lowwater.local.host import LocalEpochs
from lowwater.query.shedding import shedding
from lowwater.shedding.reaching import within

if TYPE_CHECKING:
    import lowwater as lw
    from lowwater.query.shedding import Shed


@dataclass(frozen=True)
class Prices:
    """What work costs, in ticks: an epoch, a row that is worked on, one that is shed, a result.

    Results are worked on behind the windows, in the epoch after.
    """

    epoch: int = 200_000
    row: float = 1_000.0
    shed: float = 20.0
    result: float = 0.0
    uneven: float = 0.0
    """How much the machine's speed wanders: the deviation of its logarithm in an epoch."""


@dataclass
class Machine:
    """The clock of a run whose work takes time."""

    time: int = 0
    length: int = 0

    def now(self, epoch: int) -> int:
        """Return the time at which an epoch ends."""
        del epoch
        return self.time

    def took(self, epoch: int, began: float) -> int:
        """Return how long the epoch took."""
        del epoch, began
        return self.length


@dataclass
class Lived:
    """What became of a stream: of each epoch when it ended, its length, p, rows and rows shed.

    `ends` and `produced` are of each result: where its window ended, and when it came.
    """

    at: list[int] = field(default_factory=list)
    length: list[int] = field(default_factory=list)
    p: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    shed: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    produced: list[int] = field(default_factory=list)

    @property
    def ages(self) -> np.ndarray:
        """How old each result was when it came, in seconds."""
        return np.asarray((np.array(self.produced) - np.array(self.ends)) / SECOND)


def live(query: lw.Query, arrivals: np.ndarray, prices: Prices, shed: Shed, *, until: int) -> Lived:
    """Run a query over rows that happen as they arrive, on a machine with some prices."""
    asked = shedding(query.assembly, shed)
    machine, lived = Machine(), Lived()
    epochs = LocalEpochs(asked.with_shards(1), machine)
    feed, taken, last = asked.flow.inputs[0].schema, 0, 0
    random, pace = np.random.default_rng(1), 0.0
    while machine.time < until:
        upto = int(np.searchsorted(arrivals, machine.time, "right"))
        ticks = arrivals[taken:upto]
        known = skipped(asked.flow, epochs.log.before(epochs.epoch).standing.dropped)
        gone = int(within(known.rows[0], ticks).sum())
        made, last = len(lived.produced) - last, len(lived.produced)
        work = prices.row * (len(ticks) - gone) + prices.shed * gone + prices.result * made
        machine.length = int((prices.epoch + work) * np.exp(pace))
        pace = 0.8 * pace + prices.uneven * random.normal()
        machine.time += machine.length
        table = pa.table([pa.array(ticks).cast(feed.types[0])], names=feed.names)
        packets = epochs.run([[table]], last=[False])
        status = epochs.status()
        lived.at.append(machine.time)
        lived.length.append(machine.length)
        lived.p.append(status.shed.get("p", 0.0))
        lived.rows.append(len(ticks))
        lived.shed.append(gone)
        for rows in tables(packets, "results"):
            ends = window_ticks(rows)[1].tolist()
            lived.ends += ends
            lived.produced += [machine.time] * len(ends)
        taken = upto
    return lived
