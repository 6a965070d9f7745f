"""Packets as rows of Spark, and shards as labels that fill every partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lowwater.kernels import Packet

PACKET_DDL = "shard int, seq bigint, kind string, payload binary"
_SCHEMA = pa.schema(
    [("shard", pa.int32()), ("seq", pa.int64()), ("kind", pa.string()), ("payload", pa.binary())]
)


def to_batch(packets: Iterable[Packet], labels: Sequence[int]) -> pa.RecordBatch:
    """Return packets as a record batch, shards replaced by their labels."""
    rows = list(packets)
    return pa.record_batch(
        [
            pa.array([labels[p.shard] for p in rows], pa.int32()),
            pa.array([p.seq for p in rows], pa.int64()),
            pa.array([p.kind for p in rows], pa.string()),
            pa.array([p.payload for p in rows], pa.binary()),
        ],
        schema=_SCHEMA,
    )


def from_table(table: pa.Table) -> list[Packet]:
    """Return rows as packets; shards stay labels, which order packets as well as any number."""
    columns = (table.column(name).to_pylist() for name in ("shard", "seq", "kind", "payload"))
    return [Packet(*row) for row in zip(*columns, strict=True)]


def shard_labels(shards: int) -> list[int]:
    """Return, for every partition, the least integer that Spark's hash puts there."""
    labels: dict[int, int] = {}
    candidate = 0
    while len(labels) < shards:
        labels.setdefault(spark_hash(candidate) % shards, candidate)
        candidate += 1
    return [labels[partition] for partition in range(shards)]


def spark_hash(value: int) -> int:
    """Murmur3 of an int with seed 42, which is how Spark partitions an int column.

    >>> spark_hash(1)
    -559580957
    """
    mask = 0xFFFFFFFF
    k = value * 0xCC9E2D51 & mask
    k = (k << 15 | k >> 17) & mask
    h = 42 ^ (k * 0x1B873593 & mask)
    h = (h << 13 | h >> 19) & mask
    h = (h * 5 + 0xE6546B64 ^ 4) & mask
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
