"""What runs on executors: ingest beside the rows, and the kernel of a shard.

Each is made anew for every epoch, with the control that is in force. Rows of a DataFrame come
through `mapInArrow`; what Lowwater reads itself needs no SQL, and travels as plain packets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from lowwater.control import Control, Standing
from lowwater.kernels import Packet, WindowPlan, ingest, step
from lowwater.kernels.packets import PASSING, measure_packet
from lowwater.sources import Block, BlockReader
from lowwater.spark.packets import to_batch, to_packets
from lowwater.spark.state import ShardState

BLOCK_ROWS = 1_000_000
"""Rows of a DataFrame that are reduced together; bounds the memory of a task."""

Batches = Iterator[pa.RecordBatch]
Keyed = tuple[int, tuple[Any, ...]]
"""A packet as a tuple, under its shard."""


@dataclass(frozen=True)
class IngestRows:
    """Ingest of the rows that Spark hands over."""

    plan: WindowPlan
    standing: Standing

    def __call__(self, batches: Batches) -> Batches:
        """Reduce the rows of one task."""
        for number, block in enumerate(self._blocks(batches)):
            seq = partition() << 20 | number
            yield to_batch(ingest(self.plan, block, self.standing, seq))

    def _blocks(self, batches: Batches) -> Iterator[pa.Table]:
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            held.append(batch)
            rows += len(batch)
            if rows >= BLOCK_ROWS:
                yield pa.Table.from_batches(held).cast(self.plan.schema)
                held, rows = [], 0
        if rows:
            yield pa.Table.from_batches(held).cast(self.plan.schema)


@dataclass(frozen=True)
class Piece:
    """A block, its place among the blocks of the epoch, and what decides over its rows."""

    block: Block
    seq: int
    standing: Standing


@dataclass(frozen=True)
class IngestBlocks:
    """Ingest of blocks where they are read: raw rows never enter the JVM."""

    plan: WindowPlan
    reader: BlockReader
    shares: Sequence[Sequence[Piece]]
    """The pieces of each task."""

    def __call__(self, task: int, _: Iterable[int]) -> Iterator[Keyed]:
        """Read and reduce the blocks of one task."""
        for piece in self.shares[task]:
            table = self.reader.read(piece.block)
            packets = ingest(self.plan, table, piece.standing, piece.seq)
            if piece.block.last:
                packets.append(measure_packet(0, piece.seq, {"last": True}))
            for p in packets:
                yield p.shard, astuple(p)


@dataclass(frozen=True)
class KernelStep:
    """The kernel of a shard, between the state before and the state after an epoch."""

    plan: WindowPlan
    epoch: int
    control: Control
    state: str

    def over_rows(self, batches: Batches) -> Batches:
        """Run one epoch of one shard over packets that are rows of Spark."""
        packets = [p for b in batches for p in to_packets(b)]
        yield to_batch(self.run(partition(), packets))

    def over_packets(self, shard: int, packets: Iterable[Keyed]) -> Iterator[tuple[Any, ...]]:
        """Run one epoch of one shard over packets; partitions are numbered as shards are."""
        return map(astuple, self.run(shard, [Packet(*p) for _, p in packets]))

    def alone(self, shard: int, _: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        """Run one epoch of one shard that gets no rows."""
        return map(astuple, self.run(shard, []))

    def run(self, shard: int, packets: list[Packet]) -> list[Packet]:
        """Run one epoch of one shard."""
        emitted = [p for p in packets if p.kind in PASSING]
        mine = [p for p in packets if p.kind not in PASSING]
        if not self.control.quiet:
            mine.append(Packet(shard, -1, "control", self.control.to_bytes()))
        if mine:
            before = ShardState(self.state, shard, self.epoch)
            done = step(self.plan, shard, before, mine)
            before.write(done.changes)
            emitted += done.emissions
        return emitted


def partition() -> int:
    """Return the number of the partition that the task works on."""
    context = TaskContext.get()
    assert context is not None  # noqa: S101
    return context.partitionId()
