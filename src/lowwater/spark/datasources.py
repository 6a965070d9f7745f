"""Python data sources: the control log as a stream, and blocks with ingest built in."""

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


@dataclass(frozen=True)
class ControlSpec:
    """What the control source reads: the log, and a counter that wakes an idle query."""

    control: str
    signals: str
    labels: list[int]


@dataclass(frozen=True)
class BlockSpec:
    """What the block source reads and how it is ingested."""

    source: BlockSource
    plan: WindowPlan
    control: str
    labels: list[int]
    controller: Controller


def encode(spec: ControlSpec | BlockSpec) -> str:
    """Return a spec as an option of a data source."""
    return base64.b64encode(cloudpickle.dumps(spec)).decode()  # type: ignore[no-untyped-call]


def _decode(options: Mapping[str, str]) -> Any:
    return cloudpickle.loads(base64.b64decode(options["spec"]))


class _PacketSource(DataSource):
    def schema(self) -> str:
        """Return the schema: packets."""
        return PACKET_DDL


class ControlSource(_PacketSource):
    """Control records as rows, one copy for each shard."""

    @classmethod
    def name(cls) -> str:
        """Return the name under which Spark knows the source."""
        return "lowwater_control"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader."""
        del schema
        return ControlReader(_decode(self.options))


@dataclass
class _Entries(InputPartition):
    """Log entries [start, end)."""

    start: int
    end: int


class ControlReader(DataSourceStreamReader):
    """Offsets count log entries; entries without control do not make an epoch by themselves."""

    def __init__(self, spec: ControlSpec) -> None:
        self.spec = spec
        self.scanned = 0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Begin with the first entry."""
        return {"entry": 0, "wake": 0}

    def latestOffset(self, start: dict[str, int], limit: Any = None) -> dict[str, int]:  # noqa: N802
        """Reach to the newest entry if there is control between, or if somebody wakes us."""
        del limit
        log = FolderLog(self.spec.control)
        end = log.newest_epoch() + 1
        kept = Folder(self.spec.signals).read(WAKE)
        wake = max(int(kept) if kept else 0, start["wake"])
        loud = wake > start["wake"]
        for epoch in range(max(self.scanned, start["entry"]), end):
            entry = log.read(epoch)
            if entry is not None and not entry.control.quiet:
                loud = True
                break
            self.scanned = epoch + 1
        return {"entry": max(end, start["entry"]), "wake": wake} if loud else start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Plan one task, if there is anything to read."""
        if start["entry"] == end["entry"]:
            return []
        return [_Entries(start["entry"], end["entry"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Copy the control of some entries to every shard."""
        assert isinstance(partition, _Entries)  # noqa: S101
        log = FolderLog(self.spec.control)
        entries = [log.read(n) for n in range(partition.start, partition.end)]
        payloads = [e.control.to_bytes() for e in entries if e and not e.control.quiet]
        shards = range(len(self.spec.labels))
        packets = [Packet(s, -1, "control", p) for p in payloads for s in shards]
        yield to_batch(packets, self.spec.labels)


class BlocksSource(_PacketSource):
    """A source that Lowwater reads itself, with ingest where it reads."""

    @classmethod
    def name(cls) -> str:
        """Return the name under which Spark knows the source."""
        return "lowwater_blocks"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader."""
        del schema
        return BlocksReader(_decode(self.options))


@dataclass
class _OneBlock(InputPartition):
    """A block and what its ingest knows."""

    block: Block
    seq: int
    standing: Standing


class BlocksReader(DataSourceStreamReader):
    """Offsets hold the position in the source and the log entry that ingest goes by."""

    def __init__(self, spec: BlockSpec) -> None:
        self.spec = spec

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Begin before the first block."""
        return {"at": self.spec.source.begin(), "entry": -1}

    def latestOffset(self, start: dict[str, Any], limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Reach as far as the source allows in one epoch."""
        del limit
        at = self.spec.source.reach(start["at"])
        if at == start["at"]:
            return start
        return {"at": at, "entry": FolderLog(self.spec.control).newest_epoch()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan one task per block."""
        spec = self.spec
        entry = FolderLog(spec.control).read(end["entry"]) or Entry(-1)
        blocks = spec.source.blocks(start["at"], end["at"])
        if not spec.plan.consistent:
            return [_OneBlock(b, seq, entry.standing) for seq, b in enumerate(blocks)]
        planned: list[InputPartition] = []
        for seq, block in enumerate(blocks):
            planned.append(_OneBlock(block, seq, entry.standing))
            if seq < len(blocks) - 1:
                packets = ingest(spec.plan, spec.source.read(block), entry.standing, seq)
                entry = spec.controller.foresee(entry, [measures_of(packets[-1])], now=0)
        return planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read and ingest one block."""
        assert isinstance(partition, _OneBlock)  # noqa: S101
        spec = self.spec
        table = spec.source.read(partition.block)
        packets = ingest(spec.plan, table, partition.standing, partition.seq)
        if partition.block.last:
            packets.append(measure_packet(0, partition.seq, {"last": True}))
        yield to_batch(packets, spec.labels)
