"""The one Python data source: control from the log, and blocks with ingest where they are read.

Both come from one source, because every Python source costs a process, a plan and a task in each
epoch. A query over a DataFrame reads only control here.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lowwater.control import Controller, Entry, Folder, FolderLog, Standing
from lowwater.kernels import Packet, WindowPlan, ingest
from lowwater.kernels.packets import measure_packet, measures_of
from lowwater.sources import Block, BlockSource
from lowwater.spark.packets import PACKET_DDL, to_batch

WAKE = "wake"
"""The signal, a counter in a file, that makes an idle query run an epoch."""


@dataclass(frozen=True)
class Blocks:
    """What is read besides control, and how it is ingested."""

    source: BlockSource
    plan: WindowPlan
    controller: Controller


@dataclass(frozen=True)
class PacketSpec:
    """What the source reads: the control log, the signals and, perhaps, blocks."""

    control: str
    signals: str
    labels: list[int]
    blocks: Blocks | None = None

    def encode(self) -> str:
        """Return the spec as an option of a data source."""
        return base64.b64encode(cloudpickle.dumps(self)).decode()  # type: ignore[no-untyped-call]

    @classmethod
    def decode(cls, options: Mapping[str, str]) -> PacketSpec:
        """Read what `encode` wrote."""
        spec: PacketSpec = cloudpickle.loads(base64.b64decode(options["spec"]))
        return spec


class PacketSource(DataSource):
    """Control records, a copy for each shard, and the packets of blocks."""

    @classmethod
    def name(cls) -> str:
        """Return the name under which Spark knows the source."""
        return "lowwater"

    def schema(self) -> str:
        """Return the schema: packets."""
        return PACKET_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader."""
        del schema
        return PacketReader(PacketSpec.decode(self.options))


@dataclass
class _Piece(InputPartition):
    """The work of one task: control for every shard, a block, or both."""

    control: list[bytes]
    block: Block | None = None
    seq: int = 0
    standing: Standing | None = None


class PacketReader(DataSourceStreamReader):
    """An offset is the last log entry taken in, the wake-up calls heard, the place in the blocks.

    The entry is also what ingest goes by in the epoch: it is pinned with the offset.
    """

    def __init__(self, spec: PacketSpec) -> None:
        self.spec = spec
        self.scanned = -1

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Begin with the first entry, before the first block."""
        at = self.spec.blocks.source.begin() if self.spec.blocks else ""
        return {"entry": -1, "wake": 0, "at": at}

    def latestOffset(self, start: dict[str, Any], limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Reach to what is new, if anything is: a block, control, or a wake-up call.

        Entries without control do not make an epoch by themselves.
        """
        del limit
        log = FolderLog(self.spec.control)
        newest = max(log.newest_epoch(), start["entry"])
        kept = Folder(self.spec.signals).read(WAKE)
        wake = max(int(kept) if kept else 0, start["wake"])
        at = self.spec.blocks.source.reach(start["at"]) if self.spec.blocks else start["at"]
        if at != start["at"] or wake != start["wake"] or self._loud(log, start["entry"], newest):
            return {"entry": newest, "wake": wake, "at": at}
        return start

    def _loud(self, log: FolderLog, after: int, newest: int) -> bool:
        for epoch in range(max(self.scanned, after) + 1, newest + 1):
            entry = log.read(epoch)
            if entry is not None and not entry.control.quiet:
                return True
            self.scanned = epoch
        return False

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan one task per block; the first takes the control along."""
        log = FolderLog(self.spec.control)
        entries = [log.read(n) for n in range(start["entry"] + 1, end["entry"] + 1)]
        control = [e.control.to_bytes() for e in entries if e and not e.control.quiet]
        entry = (entries[-1] if entries else log.read(end["entry"])) or Entry(-1)
        pieces = self._blocks(start["at"], end["at"], entry)
        if pieces:
            pieces[0].control = control
        elif control:
            pieces = [_Piece(control)]
        return pieces

    def _blocks(self, start: Any, end: Any, entry: Entry) -> list[_Piece]:
        if self.spec.blocks is None or start == end:
            return []
        source, plan = self.spec.blocks.source, self.spec.blocks.plan
        blocks = source.blocks(start, end)
        pieces = []
        for seq, block in enumerate(blocks):
            pieces.append(_Piece([], block, seq, entry.standing))
            if plan.consistent and seq < len(blocks) - 1:
                packets = ingest(plan, source.read(block), entry.standing, seq)
                measured = [measures_of(packets[-1])]
                entry = self.spec.blocks.controller.foresee(entry, measured, now=0)
        return pieces

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Copy control to every shard; read and ingest the block."""
        assert isinstance(partition, _Piece)  # noqa: S101
        labels = self.spec.labels
        packets = [
            Packet(shard, -1, "control", payload)
            for payload in partition.control
            for shard in range(len(labels))
        ]
        if partition.block is not None:
            packets += self._ingest(partition.block, partition.seq, partition.standing)
        yield to_batch(packets, labels)

    def _ingest(self, block: Block, seq: int, standing: Standing | None) -> list[Packet]:
        assert self.spec.blocks is not None  # noqa: S101
        table = self.spec.blocks.source.read(block)
        packets = ingest(self.spec.blocks.plan, table, standing or Standing(), seq)
        if block.last:
            packets.append(measure_packet(0, seq, {"last": True}))
        return packets
