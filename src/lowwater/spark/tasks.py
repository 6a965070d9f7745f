"""What runs on executors: ingest beside the rows, and the kernel of a shard.

Each is a function for `mapInArrow`, made anew for every epoch with the control that is in force.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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

    def __call__(self, batches: Batches) -> Batches:
        """Read and reduce the blocks of one task."""
        for _ in batches:  # the row that stands for the task
            pass
        for piece in self.shares[partition()]:
            table = self.reader.read(piece.block)
            packets = ingest(self.plan, table, piece.standing, piece.seq)
            if piece.block.last:
                packets.append(measure_packet(0, piece.seq, {"last": True}))
            yield to_batch(packets)


@dataclass(frozen=True)
class KernelStep:
    """The kernel of a shard, between the state before and the state after an epoch."""

    plan: WindowPlan
    epoch: int
    control: Control
    state: str
    with_data: bool

    def __call__(self, batches: Batches) -> Batches:
        """Run one epoch of one shard; partitions are numbered as shards are."""
        packets = [p for b in batches if self.with_data for p in to_packets(b)]
        emitted = [p for p in packets if p.kind in PASSING]
        mine = [p for p in packets if p.kind not in PASSING]
        shard = partition()
        if not self.control.quiet:
            mine.append(Packet(shard, -1, "control", self.control.to_bytes()))
        if mine:
            before = ShardState(self.state, shard, self.epoch)
            done = step(self.plan, shard, before, mine)
            before.write(done.changes)
            emitted += done.emissions
        yield to_batch(emitted)


def partition() -> int:
    """Return the number of the partition that the task works on."""
    context = TaskContext.get()
    assert context is not None  # noqa: S101
    return context.partitionId()
