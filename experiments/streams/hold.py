"""The size of a plan's state: a query runs epoch by epoch on the local host, measured after each.

State is counted twice. *Tuples* are stored rows and open partial aggregates. *Bytes* are
those of Arrow: the state of operators as a checkpoint has it, and the buffers that in-order plans
hold before an operator. The memory of an epoch while it runs is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import pyarrow as pa

import lowwater as lw
from lowwater.local.host import LocalEpochs
from lowwater.operators.packet import tables
from lowwater.query.stream import Stream
from lowwater.sources.feed import Feed


class FeedRows(Protocol):
    """The rows that a feed of the query gets, epoch by epoch."""

    @property
    def rows(self) -> int:
        """How many rows are held back."""

    @property
    def size(self) -> int:
        """How many bytes they take up."""

    def take(self, epoch: int) -> pa.Table:
        """Return the rows of an epoch that the query reads; called in the order of epochs."""


class UnorderedRows:
    """Rows that are not held back."""

    rows, size = 0, 0

    def __init__(self, epochs: Sequence[pa.Table]) -> None:
        self._epochs = epochs

    def take(self, epoch: int) -> pa.Table:
        """Return the rows of an epoch."""
        return self._epochs[epoch]


@dataclass(frozen=True)
class StateSize:
    """The most that a plan held after any epoch, and its answers."""

    tuples: int
    size: int
    results: pa.Table
    late: int


def play(query: Stream, feeds: Mapping[Feed, FeedRows], *, epochs: int, epoch: int) -> StateSize:
    """Run a query over `epochs` epochs of `epoch` ticks, then to its end, in one shard."""
    one = query.assembly.with_shards(1)
    clock = lw.VirtualClock("1970-01-01", timedelta(microseconds=epoch))
    host, arriving = LocalEpochs(one, clock), [feeds[s] for s in one.sources]
    tuples, size, results = 0, 0, []
    for number in range(epochs):
        blocks = [[a.take(number)] for a in arriving]
        packets = host.run(blocks, last=[number == epochs - 1] * len(blocks))
        status = host.status()
        tuples = max(tuples, status.cells + sum(a.rows for a in arriving))
        size = max(size, status.state_bytes + sum(a.size for a in arriving))
        results += tables(packets, "results")
    ending = host.run([[] for _ in arriving], last=[True] * len(arriving))
    results += tables(ending, "results")
    return StateSize(tuples, size, pa.concat_tables(results), host.status()["late"])


def same(a: pa.Table, b: pa.Table) -> bool:
    """Return whether two plans gave the same rows, in whatever order."""
    flat = [t.flatten() for t in (a, b)]
    keys = [(name, "ascending") for name in flat[0].column_names]
    return bool(flat[0].sort_by(keys).equals(flat[1].sort_by(keys)))
