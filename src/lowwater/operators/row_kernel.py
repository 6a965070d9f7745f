"""The base class of kernels whose input and output are rows, not cells."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

import numpy as np
import pyarrow as pa

from lowwater.control.measures import Measure, ShardMeasure
from lowwater.control.message import ControlMessage
from lowwater.control.watermark import latest
from lowwater.operators.batch import DEAD, LATE_DEGREE, TICK
from lowwater.operators.kernel import META, Step
from lowwater.operators.late import late_rows
from lowwater.operators.operator import OperatorPlan
from lowwater.operators.packet import (
    Packet,
    measure_packet,
    newest_times,
    table_of,
    table_packet,
)
from lowwater.operators.row_store import RowStore, StoredRows

PORTION = 1_000_000
"""Results are emitted in packets of about this many rows, to bound memory."""


@dataclass(frozen=True)
class PortRows:
    """All rows of one port in an epoch, in arrival order.

    Packet i contains the rows `[bounds[i], bounds[i + 1])` and has place `seqs[i]` in arrival
    order. Its late rows are emitted with the same place.
    """

    table: pa.Table
    ticks: np.ndarray
    dead: np.ndarray
    seqs: list[int]
    bounds: list[int]

    def __len__(self) -> int:
        return len(self.ticks)

    @classmethod
    def of(cls, schema: pa.Schema, packets: Sequence[Packet]) -> PortRows:
        """Return the rows of `packets`, all from one port, whose columns are `schema`."""
        tables = [table_of(p) for p in packets]
        sizes = np.cumsum([0, *map(len, tables)])
        hidden = [(TICK, pa.int64()), (LATE_DEGREE, pa.int64()), (DEAD, pa.bool_())]
        wanted = pa.schema([*schema, *(pa.field(*h) for h in hidden)])
        fitting = [t if t.schema == wanted else t.select(wanted.names).cast(wanted) for t in tables]
        table = pa.concat_tables(fitting or [wanted.empty_table()]).combine_chunks()
        dead = table.column(DEAD).to_numpy()
        return cls(table, table.column(TICK).to_numpy(), dead, [p.seq for p in packets], [*sizes])

    @property
    def out_of_order(self) -> bool:
        """Whether any row has an earlier time than a row that arrived before it."""
        return len(self) > 0 and bool(self.table.column(LATE_DEGREE).chunk(0).to_numpy().max() > 0)

    def stored(self, chosen: np.ndarray, flags: np.ndarray | None = None) -> StoredRows:
        """Return the rows in the mask `chosen`, with their flags, ready to be stored."""
        rows = StoredRows.of(self.table.drop_columns([LATE_DEGREE, DEAD]), flags)
        return rows.where(chosen)


class RowKernel:
    """One epoch of one shard: it admits the rows, then acts on the watermarks."""

    def __init__(
        self,
        plan: OperatorPlan,
        shard: int,
        state: Mapping[str, bytes],
        more_stores: Sequence[type[RowStore]] = (),
    ) -> None:
        self.row_plan, self.shard = plan, shard
        self.out = Step()
        self._meta = state.get(META)
        meta = None if self._meta is None else json.loads(self._meta)
        self.watermarks: list[int | None] = meta["marks"] if meta else [None] * plan.ports
        """The watermark in force at each port."""
        known = meta["rows"] if meta else []
        kinds: list[type[RowStore]] = [*[RowStore] * plan.ports, *more_stores]
        self.stores = [
            kind(number, state, self.out.changes, content)
            for number, (kind, content) in enumerate(zip_longest(kinds, known[: len(kinds)]))
        ]
        """The row store of each port, then the stores that strategies add."""
        self.counts = dict.fromkeys(("admitted", "late", "partly_late", "results"), 0)
        self.newest: dict[int, int] = {}
        """By port, the newest time from which the slack that its rows need counts."""
        self._packets = 0

    def run(self, packets: Sequence[Packet]) -> Step:
        """Return the changes and emissions of the epoch; `packets` are in arrival order."""
        arrivals = [
            PortRows.of(schema, [p for p in packets if p.kind == "rows" and p.port == port])
            for port, schema in enumerate(self.row_plan.schemas)
        ]
        self.newest = newest_times(packets)
        self.advance(arrivals, self._raised(packets))
        stores = [store.to_json() for store in self.stores]
        meta = json.dumps({"marks": self.watermarks, "rows": stores}).encode()
        if meta != self._meta:
            self.out.changes[META] = meta
        rows, size = (sum(getattr(s, n) for s in self.stores) for n in ("open_rows", "size"))
        for measure in self.measures(ShardMeasure(self.shard, rows, size, self.counts)):
            self.out.emissions.append(measure_packet(self.shard, 0, measure))
        return self.out

    def _raised(self, packets: Sequence[Packet]) -> list[int | None]:
        """Return the watermark of each port after the epoch. Watermarks never fall."""
        watermarks = list(self.watermarks)
        for packet in packets:
            if packet.kind == "control":
                low = ControlMessage.from_bytes(packet.payload).marks.low
                watermarks[packet.port] = latest(watermarks[packet.port], low)
        return watermarks

    def measures(self, shard: ShardMeasure) -> Sequence[Measure]:
        """Return the measurements of the epoch, that of the shard as the last one."""
        return [shard]

    def advance(self, arrivals: list[PortRows], watermarks: list[int | None]) -> None:
        """Admit the rows of each port, then act on the new watermarks. Called once in an epoch."""
        raise NotImplementedError

    def account(
        self, port: int, rows: PortRows, late: np.ndarray, partly: np.ndarray | None = None
    ) -> None:
        """Count rows as admitted, late or partly late, and emit late and partly late rows."""
        behind = late if partly is None else late | partly
        self.counts["late"] += int(late.sum())
        self.counts["admitted"] += int(len(rows) - late.sum())
        self.counts["partly_late"] += 0 if partly is None else int(partly.sum())
        if not behind.any():
            return
        schema = self.row_plan.late_schemas[port]
        for seq, (start, end) in zip(rows.seqs, pairwise(rows.bounds), strict=True):
            at = start + np.flatnonzero(behind[start:end])
            if len(at):
                listed = late_rows(schema, rows.table.take(pa.array(at)), ~late[at])
                self.out.emissions.append(table_packet("late", self.shard, seq, listed, port))

    def emit(self, rows: pa.Table) -> None:
        """Emit `rows` as results, in packets of at most `PORTION` rows."""
        for start in range(0, len(rows), PORTION):
            portion = rows.slice(start, PORTION)
            self.counts["results"] += len(portion)
            self.out.emissions.append(table_packet("results", self.shard, self._packets, portion))
            self._packets += 1
