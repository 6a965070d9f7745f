"""One epoch of an operator that takes in whole rows and gives out rows: what all of them share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from lowwater.control import Control
from lowwater.kernels.aggregate import META, Step
from lowwater.kernels.packets import Packet, measure_packet, table_of, table_packet
from lowwater.kernels.row_buckets import Kept, RowBuckets
from lowwater.kernels.rows import DEAD, LATE_DEGREE, TICK
from lowwater.windows import Axis

PORTION = 1_000_000
"""Results leave in packets of about so many rows, to bound memory."""


class RowPlan(Protocol):
    """What an epoch has to know of its plan, one of each for every port."""

    @property
    def ports(self) -> int:
        """How many streams come in."""

    @property
    def schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of the streams."""

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The attributes that the streams progress on."""

    @property
    def late_schemas(self) -> tuple[pa.Schema, ...]:
        """The columns of late rows."""


def late_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a late row: the row, how late it was, whether it took part after all.

    >>> late_schema(pa.schema([("admitted", pa.int64())])).names
    ['admitted', 'late_degree', 'admitted_']
    """
    more = [("late_degree", pa.int64()), ("admitted", pa.bool_())]
    fields = [pa.field(free(name, schema.names), kind) for name, kind in more]
    return pa.schema([*schema, *fields])


def free(name: str, taken: Sequence[str], suffix: str = "_") -> str:
    """Return a name that is not taken yet."""
    while name in taken:
        name += suffix
    return name


@dataclass(frozen=True)
class Arrivals:
    """The rows of one port in an epoch, in order of arrival."""

    table: pa.Table
    ticks: np.ndarray
    dead: np.ndarray
    seqs: list[int]
    bounds: list[int]
    """Packet i, which came as `seqs[i]`, holds the rows from `bounds[i]` to `bounds[i + 1]`."""

    def __len__(self) -> int:
        return len(self.ticks)

    @classmethod
    def of(cls, schema: pa.Schema, packets: Sequence[Packet]) -> Arrivals:
        """Bring the packets of a port together."""
        tables = [table_of(p) for p in packets]
        sizes = np.cumsum([0, *map(len, tables)])
        hidden = [(TICK, pa.int64()), (LATE_DEGREE, pa.int64()), (DEAD, pa.bool_())]
        wanted = pa.schema([*schema, *(pa.field(*h) for h in hidden)])
        fitting = [t if t.schema == wanted else t.select(wanted.names).cast(wanted) for t in tables]
        table = pa.concat_tables(fitting or [wanted.empty_table()]).combine_chunks()
        dead = table.column(DEAD).to_numpy()
        return cls(table, table.column(TICK).to_numpy(), dead, [p.seq for p in packets], [*sizes])

    def kept(self, chosen: np.ndarray, flags: np.ndarray | None = None) -> Kept:
        """Return some of the rows as they are kept in state."""
        rows = Kept.of(self.table.drop_columns([LATE_DEGREE, DEAD]), flags)
        return rows.where(chosen)


class RowEpoch:
    """One epoch of one shard: admit the rows, then act on the marks (semantics 2)."""

    def __init__(
        self,
        plan: RowPlan,
        shard: int,
        state: Mapping[str, bytes],
        more_stores: Sequence[type[RowBuckets]] = (),
    ) -> None:
        self.rows_plan, self.shard = plan, shard
        self.out = Step()
        self._meta = state.get(META)
        kept = None if self._meta is None else json.loads(self._meta)
        self.marks: list[int | None] = kept["marks"] if kept else [None] * plan.ports
        """The mark in force of each port."""
        self.noted: dict[str, Any] = kept.get("noted", {}) if kept else {}
        """What else an operator notes."""
        kinds: list[type[RowBuckets]] = [*[RowBuckets] * plan.ports, *more_stores]
        self.stores = [
            kind(number, state, self.out.changes, kept["rows"][number] if kept else None)
            for number, kind in enumerate(kinds)
        ]
        """The rows of each port, then what else an operator keeps."""
        self.counts = dict.fromkeys(("admitted", "late", "partly_late", "results"), 0)
        self._sent = 0

    def run(self, packets: Sequence[Packet]) -> Step:
        """Run the epoch; `packets` are in order of arrival."""
        arrivals = [
            Arrivals.of(schema, [p for p in packets if p.kind == "rows" and p.port == port])
            for port, schema in enumerate(self.rows_plan.schemas)
        ]
        self.advance(arrivals, self._raised(packets))
        stores = [store.to_json() for store in self.stores]
        noted = {"noted": self.noted} if self.noted else {}
        meta = json.dumps({"marks": self.marks, "rows": stores, **noted}).encode()
        if meta != self._meta:
            self.out.changes[META] = meta
        measures = {
            "shard": self.shard,
            "cells": sum(store.rows for store in self.stores),
            "bytes": sum(store.size for store in self.stores),
            **self.counts,
        }
        self.out.emissions.append(measure_packet(self.shard, 0, measures))
        return self.out

    def _raised(self, packets: Sequence[Packet]) -> list[int | None]:
        """Return the mark of each port after the epoch. Marks never fall."""
        marks = list(self.marks)
        for packet in packets:
            if packet.kind != "control":
                continue
            said, known = Control.from_bytes(packet.payload).marks.low, marks[packet.port]
            if said is not None and (known is None or said > known):
                marks[packet.port] = said
        return marks

    def advance(self, arrivals: list[Arrivals], marks: list[int | None]) -> None:
        """Admit the rows that came, then let the marks of all ports be `marks`."""
        raise NotImplementedError

    def account(
        self, port: int, rows: Arrivals, late: np.ndarray, partly: np.ndarray | None = None
    ) -> None:
        """Count the rows, and list those that are late or partly so."""
        shown = late if partly is None else late | partly
        self.counts["late"] += int(late.sum())
        self.counts["admitted"] += int(len(rows) - late.sum())
        self.counts["partly_late"] += 0 if partly is None else int(partly.sum())
        if not shown.any():
            return
        schema = self.rows_plan.late_schemas[port]
        for seq, (start, end) in zip(rows.seqs, pairwise(rows.bounds), strict=True):
            at = start + np.flatnonzero(shown[start:end])
            if len(at):
                chosen = rows.table.take(pa.array(at))
                columns = chosen.drop_columns([TICK, LATE_DEGREE, DEAD]).columns
                told = [*columns, chosen.column(LATE_DEGREE), pa.array(~late[at])]
                listed = pa.table(told, schema=schema)
                self.out.emissions.append(table_packet("late", self.shard, seq, listed, port))

    def give(self, rows: pa.Table) -> None:
        """Send results on."""
        for start in range(0, len(rows), PORTION):
            portion = rows.slice(start, PORTION)
            self.counts["results"] += len(portion)
            self.out.emissions.append(table_packet("results", self.shard, self._sent, portion))
            self._sent += 1
