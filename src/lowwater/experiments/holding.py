"""How much a plan holds: a query run epoch by epoch on the local host, its state read after each.

What is held is counted twice. *Tuples* are stored rows and open partial aggregates. *Bytes* are
those of Arrow: the state of operators as it lies in a checkpoint, and the buffers of what in-order
plans hold before an operator. What an epoch takes up while it runs is not counted for either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import pyarrow as pa

import lowwater as lw
from lowwater.kernels.packets import tables
from lowwater.local.host import LocalEpochs
from lowwater.query.stream import Stream
from lowwater.sources import Feed


class Arriving(Protocol):
    """What a feed of the query gets, epoch by epoch."""

    @property
    def rows(self) -> int:
        """How many rows are held back."""

    @property
    def size(self) -> int:
        """How many bytes they take up."""

    def take(self, epoch: int) -> pa.Table:
        """Return what the query sees of an epoch; epochs are asked for in order."""


class AsItComes:
    """Rows that nobody holds back."""

    rows, size = 0, 0

    def __init__(self, epochs: Sequence[pa.Table]) -> None:
        self._epochs = epochs

    def take(self, epoch: int) -> pa.Table:
        """Return the rows of an epoch."""
        return self._epochs[epoch]


@dataclass(frozen=True)
class Held:
    """The most that a plan held after any epoch, and its answers."""

    tuples: int
    size: int
    results: pa.Table
    late: int


def play(query: Stream, feeds: Mapping[Feed, Arriving], *, epochs: int, epoch: int) -> Held:
    """Run a query over so many epochs of so many ticks, then to its end, in one shard."""
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
    return Held(tuples, size, pa.concat_tables(results), host.status()["late"])


def same(a: pa.Table, b: pa.Table) -> bool:
    """Say whether two plans gave the same rows, in whatever order."""
    flat = [t.flatten() for t in (a, b)]
    keys = [(name, "ascending") for name in flat[0].column_names]
    return bool(flat[0].sort_by(keys).equals(flat[1].sort_by(keys)))
