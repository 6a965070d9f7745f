"""Packets: rows travel between operators as bytes that the hosts need not understand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from lowwater.codec import decode, encode
from lowwater.control.measures import KINDS, Measure, ShardMeasure

Kind = Literal[
    "cells", "rows", "ends", "control", "early cells", "early rows", "early ends",
    "malformed", "measure", "results", "early", "late", "shed", "filled",
]  # fmt: skip

LEAVING: frozenset[Kind] = frozenset(
    {"malformed", "measure", "results", "early", "late", "shed", "filled"}
)
"""Kinds that leave the query; operators do not read them."""


@dataclass(frozen=True)
class Packet:
    """A piece of a stream; `seq` is its place in arrival order within its epoch.

    `operator` and `port` are the destination of data and control, and the origin of results, late
    rows and measurements.
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
    """Return the table from the bytes of `packed`."""
    return pa.ipc.open_stream(pa.BufferReader(payload)).read_all()


_PLACES = 48


def placed(start: int, seq: int) -> int:
    """Return the place in arrival order of packet `seq` from an input or operator `start`."""
    return start << _PLACES | seq


def start_of(seq: int) -> int:
    """Return the input or operator that sent a packet, given its place in arrival order."""
    return seq >> _PLACES


def table_packet(kind: Kind, shard: int, seq: int, table: pa.Table, port: int = 0) -> Packet:
    """Return a packet with a table."""
    return Packet(shard, seq, kind, packed(table), port=port)


def table_of(packet: Packet) -> pa.Table:
    """Return the table of a packet."""
    return unpacked(packet.payload)


def measure_packet(shard: int, seq: int, measure: Measure) -> Packet:
    """Return a packet with a measurement."""
    return Packet(shard, seq, "measure", json.dumps([measure.KIND, encode(measure)]).encode())


def measure_of(packet: Packet) -> Measure:
    """Return the measurement of a packet; that of a shard gets the packet's operator."""
    kind, written = json.loads(packet.payload)
    measure = decode(KINDS[kind], written)
    if isinstance(measure, ShardMeasure):
        return replace(measure, operator=packet.operator)
    return measure


def tables(packets: Iterable[Packet], kind: Kind) -> list[pa.Table]:
    """Return the tables of all packets of a kind, in arrival order."""
    chosen = [p for p in packets if p.kind == kind]
    return [table_of(p) for p in sorted(chosen, key=lambda p: (p.seq, p.shard))]
