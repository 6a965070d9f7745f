"""Packets: the messages between operators, whose content hosts do not interpret."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from lowwater.codec import decode, encode
from lowwater.control.measures import KINDS, Measure, NeededSlack, ShardMeasure

Kind = Literal[
    "cells", "rows", "ends", "additions", "reference", "control", "early cells", "early rows",
    "early ends", "malformed", "bad_files", "measure", "results", "early", "late", "shed", "filled",
]  # fmt: skip

LEAVING: frozenset[Kind] = frozenset(
    {"malformed", "bad_files", "measure", "results", "early", "late", "shed", "filled"}
)
"""The kinds of packets that no operator reads: outputs of the query, and measurements."""


@dataclass(frozen=True)
class Packet:
    """A message with data, control or output; `seq` is its place in the epoch's arrival order.

    `operator` and `port` are the destination of data and control, and the origin of results, late
    rows and measurements.
    """

    shard: int
    seq: int
    kind: Kind
    payload: bytes
    operator: int = 0
    port: int = 0


_FORMAT = pa.ipc.IpcWriteOptions()
"""The format of all streams; without it, pyarrow asks the environment for each stream."""


def packed(*tables: pa.Table) -> bytes:
    """Return each table as the bytes of an Arrow IPC stream, one stream after the other."""
    sink = pa.BufferOutputStream()
    for table in tables:
        with pa.ipc.new_stream(sink, table.schema, options=_FORMAT) as writer:
            writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def unpacked(payload: bytes) -> pa.Table:
    """Return the table that `packed` wrote."""
    return pa.ipc.open_stream(pa.BufferReader(payload)).read_all()


_PLACES = 48


def placed(start: int, seq: int) -> int:
    """Return a packet's place in arrival order: number `seq` from the input or operator `start`."""
    return start << _PLACES | seq


def start_of(seq: int) -> int:
    """Return the input or operator that a packet came from, given its place in arrival order."""
    return seq >> _PLACES


def table_packet(kind: Kind, shard: int, seq: int, table: pa.Table, port: int = 0) -> Packet:
    """Return a packet that contains `table`."""
    return Packet(shard, seq, kind, packed(table), port=port)


def table_of(packet: Packet) -> pa.Table:
    """Return the table in `packet`."""
    return unpacked(packet.payload)


def reference_packet(shard: int, seq: int, newest: int, port: int) -> Packet:
    """Return a packet with the newest time from which the slack that rows of a port need counts."""
    return Packet(shard, seq, "reference", json.dumps(newest).encode(), port=port)


def newest_times(packets: Iterable[Packet]) -> dict[int, int]:
    """Return {port: newest time} of the packets that `reference_packet` returned."""
    return {p.port: json.loads(p.payload) for p in packets if p.kind == "reference"}


def measure_packet(shard: int, seq: int, measure: Measure) -> Packet:
    """Return a packet that contains `measure`."""
    return Packet(shard, seq, "measure", json.dumps([measure.KIND, encode(measure)]).encode())


def measure_of(packet: Packet) -> Measure:
    """Return the measurement in `packet`, with the packet's operator if an operator took it."""
    kind, written = json.loads(packet.payload)
    measure = decode(KINDS[kind], written)
    if isinstance(measure, ShardMeasure | NeededSlack):
        return replace(measure, operator=packet.operator)
    return measure


def tables(packets: Iterable[Packet], kind: Kind) -> list[pa.Table]:
    """Return the tables of all packets of the kind `kind`, in arrival order."""
    chosen = [p for p in packets if p.kind == kind]
    return [table_of(p) for p in sorted(chosen, key=lambda p: (p.seq, p.shard))]
