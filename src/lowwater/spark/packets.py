"""Packets as rows of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from lowwater.kernels import Packet

PARTITION = "partition"
PACKET_DDL = (
    "partition int, shard int, seq bigint, kind string, payload binary, operator int, port int"
)
_SCHEMA = pa.schema(
    [
        (PARTITION, pa.int32()),
        ("shard", pa.int32()),
        ("seq", pa.int64()),
        ("kind", pa.string()),
        ("payload", pa.binary()),
        ("operator", pa.int32()),
        ("port", pa.int32()),
    ]
)


def to_batch(packets: Iterable[Packet], partition: Callable[[Packet], int]) -> pa.RecordBatch:
    """Return packets as a record batch, each under the partition it goes to."""
    rows = list(packets)
    columns = [
        pa.array([getattr(p, f.name) for p in rows], f.type) for f in _SCHEMA if f.name != PARTITION
    ]
    at = pa.array([partition(p) for p in rows], pa.int32())
    return pa.record_batch([at, *columns], schema=_SCHEMA)


def to_packets(rows: pa.Table | pa.RecordBatch) -> list[Packet]:
    """Return rows as packets."""
    names = (name for name in _SCHEMA.names if name != PARTITION)
    columns = (rows.column(name).to_pylist() for name in names)
    return [Packet(*row) for row in zip(*columns, strict=True)]
