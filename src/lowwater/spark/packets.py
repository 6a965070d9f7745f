"""Packets as rows of Spark."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lowwater.kernels import Packet

PACKET_DDL = "shard int, seq bigint, kind string, payload binary"
_SCHEMA = pa.schema(
    [("shard", pa.int32()), ("seq", pa.int64()), ("kind", pa.string()), ("payload", pa.binary())]
)


def to_batch(packets: Iterable[Packet]) -> pa.RecordBatch:
    """Return packets as a record batch."""
    rows = list(packets)
    return pa.record_batch(
        [
            pa.array([p.shard for p in rows], pa.int32()),
            pa.array([p.seq for p in rows], pa.int64()),
            pa.array([p.kind for p in rows], pa.string()),
            pa.array([p.payload for p in rows], pa.binary()),
        ],
        schema=_SCHEMA,
    )


def to_packets(rows: pa.Table | pa.RecordBatch) -> list[Packet]:
    """Return rows as packets."""
    columns = (rows.column(name).to_pylist() for name in _SCHEMA.names)
    return [Packet(*row) for row in zip(*columns, strict=True)]
