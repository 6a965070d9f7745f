"""The tasks on executors: ingest where the rows are, and the kernels of a level of operators.

The tasks are created for every epoch, with the control in force. Rows of a DataFrame pass through
`mapInArrow`. Blocks that Lowwater reads itself need no SQL: their packets are records of an RDD.

A level consists of the operators that rows reach after the same number of other operators. A level
runs as one stage, with one partition per shard. Packets for an output or for a later level pass
through the stage unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from lowwater.control.context import EpochContext
from lowwater.control.measures import InputMeasure
from lowwater.control.message import ControlMessage
from lowwater.dataflow.graph import Dataflow
from lowwater.dataflow.ingest import ingest
from lowwater.dataflow.input_block import InputBlock, read_block
from lowwater.dataflow.run_operator import work
from lowwater.engine.entry import SegmentRange
from lowwater.engine.state_store import Attempt, ShardState, StateFolder
from lowwater.operators.kernel import registered
from lowwater.operators.packet import LEAVING, Packet, measure_packet
from lowwater.sources.source import BlockReader, SourceBlock

BLOCK_ROWS = 1_000_000
"""The number of DataFrame rows that are reduced together; it bounds a task's memory."""
INPUT = "__input"
"""The column with the number of the input that a row belongs to."""
PARTITION = "partition"
PACKET_DDL = (
    "partition int, shard int, seq bigint, kind string, payload binary, operator int, port int"
)
_TYPES = [pa.int32(), pa.int32(), pa.int64(), pa.string(), pa.binary(), pa.int32(), pa.int32()]
_NAMES = [PARTITION, "shard", "seq", "kind", "payload", "operator", "port"]
_SCHEMA = pa.schema(list(zip(_NAMES, _TYPES, strict=True)))

Batches = Iterator[pa.RecordBatch]
Keyed = tuple[int, tuple[Any, ...]]
"""A target partition, and a packet as a tuple."""

# Import the kernels before Spark forks its workers: otherwise every worker imports them again.
registered()


@dataclass(frozen=True)
class Level:
    """The operators of one level, and the partitions of their shards."""

    flow: Dataflow
    number: int

    @cached_property
    def places(self) -> tuple[tuple[int, int], ...]:
        """The (operator, shard) of each partition, in the order of the partitions."""
        return tuple(
            (i, shard)
            for i, o in enumerate(self.flow.operators)
            if o.level == self.number
            for shard in range(o.plan.shards)
        )

    @cached_property
    def partitions(self) -> Mapping[tuple[int, int], int]:
        """The number of each shard's partition, as {(operator, shard): partition}."""
        return {place: partition for partition, place in enumerate(self.places)}

    def partition(self, packet: Packet) -> int:
        """Return the partition of a packet's shard; any partition if the packet passes through."""
        other = packet.shard % len(self.places)
        if packet.kind in LEAVING:
            return other
        return self.partitions.get((packet.operator, packet.shard), other)


@dataclass(frozen=True)
class IngestRows:
    """The ingest of the rows of a micro-batch, as a function for `mapInArrow`.

    With several DataFrames, each row is in the struct column of its DataFrame, and the column
    `INPUT` has the number of the input.
    """

    flow: Dataflow
    standing: EpochContext
    inputs: Sequence[int]

    def __call__(self, batches: Batches) -> Batches:
        """Yield the packets of one task's rows, as record batches."""
        first = Level(self.flow, 0)
        for number, (start, block) in enumerate(self._blocks(batches)):
            seq = partition() << 20 | number
            packets = ingest(self.flow, [InputBlock(start, seq, block)], self.standing)
            yield to_batch(packets, first.partition)

    def _blocks(self, batches: Batches) -> Iterator[tuple[int, pa.Table]]:
        held: dict[int, list[pa.Table]] = {}
        for batch in batches:
            for start, rows in self._apart(batch):
                mine = held.setdefault(start, [])
                mine.append(rows)
                if sum(map(len, mine)) >= BLOCK_ROWS:
                    yield start, pa.concat_tables(held.pop(start))
        for start, mine in held.items():
            yield start, pa.concat_tables(mine)

    def _apart(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Table]]:
        """Yield (number, rows) of each input that has rows in `batch`."""
        table = pa.Table.from_batches([batch])
        if len(self.inputs) == 1:
            (start,) = self.inputs
            if len(table):
                yield start, table.cast(self.flow.inputs[start].schema)
            return
        number = table.column(INPUT).combine_chunks()
        for start in self.inputs:
            mine = table.column(str(start)).filter(pc.equal(number, start))
            if len(mine):
                rows = pa.Table.from_struct_array(mine)
                yield start, rows.cast(self.flow.inputs[start].schema)


@dataclass(frozen=True)
class BlockTask:
    """A block to ingest: its input, its place among the input's blocks, and its context."""

    input: int
    block: SourceBlock
    seq: int
    standing: EpochContext

    @property
    def rows(self) -> int | None:
        """The number of rows in the block; None if it is unknown."""
        return self.block.rows


@dataclass(frozen=True)
class IngestBlocks:
    """The ingest of blocks, in the tasks that read them: raw rows never enter the JVM."""

    flow: Dataflow
    readers: Mapping[int, BlockReader]
    shares: Sequence[Sequence[Sequence[BlockTask]]]
    """The blocks of each portion of each task: `shares[task][portion]`."""

    def __call__(self, task: int, _: Iterable[int]) -> Iterator[Keyed]:
        """Yield the packets of one task's blocks, as records of an RDD."""
        first = Level(self.flow, 0)
        return ((first.partition(p), astuple(p)) for p in self._packets(task))

    def over_rows(self, batches: Batches) -> Batches:
        """Yield the packets of one task's blocks, as rows of a DataFrame."""
        first = Level(self.flow, 0)
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield to_batch(list(self._packets(task)), first.partition)

    def _packets(self, task: int) -> Iterator[Packet]:
        for portion in self.shares[task]:
            aside = portion[0].standing.set_aside
            blocks = [
                read_block(self.flow, p.input, p.seq, self.readers[p.input], p.block, aside=aside)
                for p in portion
            ]
            yield from ingest(self.flow, blocks, portion[0].standing)
            for piece in portion:
                if piece.block.last:
                    yield measure_packet(0, piece.seq, InputMeasure(piece.input, last=True))


@dataclass(frozen=True)
class LevelStep:
    """One epoch of a level: its kernels, the control in force, and the folder of state."""

    level: Level
    epoch: int
    control: Mapping[int, ControlMessage]
    standing: EpochContext
    state: StateFolder
    segments: Mapping[tuple[int, int], SegmentRange]
    owner: str

    def over_rows(self, batches: Batches) -> Batches:
        """Run one shard on packets that are rows of a DataFrame; yield the resulting packets."""
        packets = [p for b in batches for p in to_packets(b)]
        yield to_batch(self.run(partition(), packets), self._next)

    def over_packets(self, at: int, packets: Iterable[Keyed]) -> Iterator[Keyed]:
        """Run one shard on packets that are records of an RDD; yield the resulting packets."""
        done = self.run(at, [Packet(*p) for _, p in packets])
        return ((self._next(p), astuple(p)) for p in done)

    def alone(self, at: int, _: Iterable[int]) -> Iterator[Keyed]:
        """Run one shard that receives no packets; yield the resulting packets."""
        return self.over_packets(at, [])

    @cached_property
    def _after(self) -> Level | None:
        flow, number = self.level.flow, self.level.number + 1
        return Level(flow, number) if number < flow.levels else None

    def _next(self, packet: Packet) -> int:
        return 0 if self._after is None else self._after.partition(packet)

    def run(self, at: int, packets: list[Packet]) -> list[Packet]:
        """Run the shard of partition `at`, write its state, and return the resulting packets."""
        operator, shard = self.level.places[at]
        mine: list[Packet] = []
        passed: list[Packet] = []
        for p in packets:
            here = p.kind not in LEAVING and p.operator == operator
            (mine if here else passed).append(p)
        flow = self.level.flow
        for number, control in self.control.items():
            if flow.ports[number][0] == operator:
                port = flow.ports[number][1]
                mine.append(Packet(shard, -1, "control", control.to_bytes(), operator, port))
        if mine:
            folder = self.state.shard(operator, shard)
            before = ShardState(folder, self.segments.get((operator, shard)))
            done = work(flow, operator, shard, before, mine, standing=self.standing)
            segment = before.write(done.changes, self.epoch, Attempt(self.owner, attempt()))
            passed += [*done.emissions, measure_packet(shard, 0, segment)]
        return passed


def partition() -> int:
    """Return the number of the running task's partition."""
    context = TaskContext.get()
    assert context is not None  # noqa: S101
    return context.partitionId()


def attempt() -> int:
    """Return the number of the running attempt of a task, which no other attempt has."""
    context = TaskContext.get()
    assert context is not None  # noqa: S101
    return context.taskAttemptId()


def to_batch(packets: Iterable[Packet], partition: Callable[[Packet], int]) -> pa.RecordBatch:
    """Return packets as a record batch, with the target partition of each packet."""
    rows = list(packets)
    columns = [
        pa.array([getattr(p, f.name) for p in rows], f.type) for f in _SCHEMA if f.name != PARTITION
    ]
    at = pa.array([partition(p) for p in rows], pa.int32())
    return pa.record_batch([at, *columns], schema=_SCHEMA)


def to_packets(rows: pa.Table | pa.RecordBatch) -> list[Packet]:
    """Return the packets in `rows`, a table or a record batch that `to_batch` made."""
    names = (name for name in _SCHEMA.names if name != PARTITION)
    columns = (rows.column(name).to_pylist() for name in names)
    return [Packet(*row) for row in zip(*columns, strict=True)]
