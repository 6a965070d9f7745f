"""Packets: how rows travel between operators, as bytes that the engine need not understand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

Kind = Literal[
    "cells", "rows", "ends", "control", "early cells", "early rows", "early ends",
    "malformed", "measure", "results", "early", "late", "shed", "filled",
]  # fmt: skip

LEAVING: frozenset[Kind] = frozenset(
    {"malformed", "measure", "results", "early", "late", "shed", "filled"}
)
"""Kinds that leave the query; operators pass them on unread."""


@dataclass(frozen=True)
class Packet:
    """A piece of a stream: `seq` is its place in arrival order within its epoch.

    Data and control are for a port of an operator; results, late rows and measurements are of one.
    """

    shard: int
    seq: int
    kind: Kind
    payload: bytes
    operator: int = 0
    port: int = 0


def packed(table: pa.Table) -> bytes:
    """Return a table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def unpacked(payload: bytes) -> pa.Table:
    """Return the table that `packed` made bytes of."""
    return pa.ipc.open_stream(pa.BufferReader(payload)).read_all()


_PLACES = 48


def placed(start: int, seq: int) -> int:
    """Return a place in arrival order for what comes from one of several inputs or operators."""
    return start << _PLACES | seq


def start_of(seq: int) -> int:
    """Return which input or operator something came from."""
    return seq >> _PLACES


def table_packet(kind: Kind, shard: int, seq: int, table: pa.Table, port: int = 0) -> Packet:
    """Pack a table."""
    return Packet(shard, seq, kind, packed(table), port=port)


def table_of(packet: Packet) -> pa.Table:
    """Unpack a table."""
    return unpacked(packet.payload)


def measure_packet(shard: int, seq: int, measures: dict[str, Any]) -> Packet:
    """Pack measurements."""
    return Packet(shard, seq, "measure", json.dumps(measures).encode())


def measures_of(packet: Packet) -> dict[str, Any]:
    """Unpack measurements; those of an operator's shard say of which operator."""
    found: dict[str, Any] = json.loads(packet.payload)
    return {**found, "operator": packet.operator} if "shard" in found else found


def tables(packets: Iterable[Packet], kind: Kind) -> list[pa.Table]:
    """Unpack all tables of a kind, in arrival order."""
    found = sorted((p for p in packets if p.kind == kind), key=lambda p: (p.seq, p.shard))
    return [table_of(p) for p in found]
