"""A simulated machine that is too slow for its stream: the cost of epochs, the age of results.

Rows arrive at given times; an epoch takes in the rows that arrived since the one before began, and
lasts as long as its rows cost. Nothing is timed: the cost of the work moves the clock, so that a
burst of minutes is played in a moment, with the same outcome every time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lowwater.dataflow.answer_prods import window_ticks
from lowwater.dataflow.route import skipped, unread
from lowwater.local.host import LocalEpochs
from lowwater.operators.batch import Batch
from lowwater.operators.packet import tables
from lowwater.planner.shedding import shedding
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    import lowwater as lw
    from lowwater.planner.shedding import Shed


@dataclass(frozen=True)
class Prices:
    """Costs in ticks: of an epoch, of a row that is processed, of a row that is shed, of a result.

    Results are processed behind the windows, in the next epoch.
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
class OverloadRun:
    """The outcome of a stream: the end of each epoch, its length, share, rows and rows shed.

    `ends` has the window end of each result, `produced` the time of its emission.
    """

    at: list[int] = field(default_factory=list)
    length: list[int] = field(default_factory=list)
    p: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    shed: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    produced: list[int] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """The key of each row that was shed, if rows have keys."""

    @property
    def ages(self) -> np.ndarray:
        """The age of each result at its emission, in seconds."""
        return np.asarray((np.array(self.produced) - np.array(self.ends)) / SECOND)


def live(
    query: lw.Query,
    arrivals: np.ndarray,
    prices: Prices,
    shed: Shed,
    *,
    until: int,
    keys: np.ndarray | None = None,
) -> OverloadRun:
    """Run a query over rows that happen as they arrive, on a machine with some prices.

    `keys` is the second column of the rows, if they have one.
    """
    asked = shedding(query.assembly, shed)
    machine, lived = Machine(), OverloadRun()
    epochs = LocalEpochs(asked.with_shards(1), machine)
    feed, taken, last = asked.flow.inputs[0].schema, 0, 0
    random, pace = np.random.default_rng(1), 0.0
    while machine.time < until:
        upto = int(np.searchsorted(arrivals, machine.time, "right"))
        ticks = arrivals[taken:upto]
        plan = epochs.log.before(epochs.epoch).standing.dropped
        known = skipped(asked.flow, plan)
        table = pa.table([pa.array(ticks).cast(feed.types[0])], names=feed.names[:1])
        if keys is not None:
            table = table.append_column(feed.names[1], pa.array(keys[taken:upto]))
        zero = np.zeros_like(ticks)
        batch = Batch(table, ticks, zero, zero, 0)
        unneeded = unread(asked.flow, known, asked.flow.inputs[0].routes[0], batch, plan)
        gone = 0 if unneeded is None else int(unneeded.sum())
        if keys is not None and unneeded is not None:
            lived.lost += keys[taken:upto][unneeded].tolist()
        made, last = len(lived.produced) - last, len(lived.produced)
        work = prices.row * (len(ticks) - gone) + prices.shed * gone + prices.result * made
        machine.length = int((prices.epoch + work) * np.exp(pace))
        pace = 0.8 * pace + prices.uneven * random.normal()
        machine.time += machine.length
        waiting = int(np.searchsorted(arrivals, machine.time, "right")) - upto
        packets = epochs.run([[table]], last=[False], waiting=waiting)
        status = epochs.status()
        lived.at.append(machine.time)
        lived.length.append(machine.length)
        lived.p.append(status.dropped.get("share", 0.0))
        lived.rows.append(len(ticks))
        lived.shed.append(gone)
        for rows in tables(packets, "results"):
            ends = window_ticks(rows)[1].tolist()
            lived.ends += ends
            lived.produced += [machine.time] * len(ends)
        taken = upto
    return lived
