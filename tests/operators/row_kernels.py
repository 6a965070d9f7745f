"""Running kernels that keep whole rows: packets in, plain rows out, state looked into."""

from __future__ import annotations

import copy
import json
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from lowwater.control.measures import NeededSlack
from lowwater.control.message import ControlMessage
from lowwater.control.watermark import Watermarks
from lowwater.operators import row_kernel as row_epoch
from lowwater.operators import row_store as row_buckets
from lowwater.operators.batch import DEAD, LATE_DEGREE, TICK
from lowwater.operators.join import kernel as joining
from lowwater.operators.join import ordered_kernel as timed_joining
from lowwater.operators.join.row_sample import SampleStore
from lowwater.operators.kernel import META
from lowwater.operators.packet import Packet, measure_of, table_of, table_packet
from lowwater.operators.row_store import RowStore
from lowwater.ticks import END

Row = dict[str, Any]
Epoch = tuple[list[tuple[int, Row]], list[int | None]]
"""Rows with their ports, and the mark each port is given afterwards."""


@contextmanager
def small_buckets(rows=2, portion=3):
    """Let a few rows fill buckets and packets, so that small examples have many of both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_buckets, "TARGET_ROWS", rows)
        patch.setattr(row_epoch, "PORTION", portion)
        patch.setattr(joining, "PORTION", portion)
        patch.setattr(timed_joining, "PORTION", portion)
        yield


@dataclass
class Said:
    """What a step gave out."""

    results: list[Row] = field(default_factory=list)
    late: list[tuple[int, Row]] = field(default_factory=list)
    measures: dict[str, int] = field(default_factory=dict)
    needed: dict[int, NeededSlack] = field(default_factory=dict)
    """The needed slacks by port."""
    made: tuple[tuple[int, int], ...] = ()
    lost: tuple[tuple[int, int], ...] = ()
    """Pairs by the end of their unit of time."""


def packets_of(plan, epoch: Epoch, cuts: int) -> list[Packet]:
    rows, marks = epoch
    packets = []
    for port, schema in enumerate(plan.schemas):
        hidden = [(TICK, pa.int64()), (LATE_DEGREE, pa.int64()), (DEAD, pa.bool_())]
        whole = pa.schema([*schema, *(pa.field(*h) for h in hidden)])
        mine = [r for p, r in rows if p == port]
        step = max(1, -(-len(mine) // cuts))
        for seq, start in enumerate(range(0, len(mine), step)):
            table = pa.Table.from_pylist(mine[start : start + step], whole)
            packets.append(table_packet("rows", 0, seq, table, port))
        if marks[port] is not None:
            control = ControlMessage(Watermarks(marks[port])).to_bytes()
            packets.append(Packet(0, 0, "control", control, port=port))
    return sorted(packets, key=lambda p: p.seq)


def said_of(plan, emissions: list[Packet]) -> Said:
    shard = measure_of(emissions[-1])
    said = Said(measures={"cells": shard.cells, "bytes": shard.bytes, **shard.counts})
    said.made, said.lost = shard.closed, shard.missed
    *needed, _ = [measure_of(p) for p in emissions if p.kind == "measure"]
    said.needed = {one.port: one for one in needed}
    assert len(said.needed) == len(needed) <= plan.ports
    tables = [(p, table_of(p)) for p in emissions if p.kind == "results"]
    assert [p.seq for p, _ in tables] == list(range(len(tables)))
    for _, table in tables:
        assert table.schema == plan.result_schema
        assert len(table) > 0
        said.results += table.to_pylist()
    for packet in emissions:
        if packet.kind == "late":
            table = table_of(packet)
            assert table.schema == plan.late_schemas[packet.port]
            said.late += [(packet.port, r) for r in table.to_pylist()]
    assert said.measures["results"] == len(said.results)
    assert said.measures["late"] + said.measures["partly_late"] == len(said.late)
    return said


class Runner:
    """A shard that runs epoch after epoch; between them its state is nothing but bytes."""

    def __init__(self, plan, kernel, cuts=1):
        self.plan, self.kernel, self.cuts = plan, kernel, cuts
        self.state: dict[str, bytes] = {}

    def run(self, epoch: Epoch) -> Said:
        packets = packets_of(self.plan, epoch, self.cuts)
        given = copy.deepcopy((packets, self.state))
        out = self.kernel(self.plan, 0, self.state).run(packets)
        again = self.kernel(self.plan, 0, self.state).run(packets)
        assert (out.changes, out.emissions) == (again.changes, again.emissions)
        assert (packets, self.state) == given
        after = {**self.state, **out.changes}
        self.state = {name: content for name, content in after.items() if content is not None}
        if not epoch[0] and not any(m is not None for m in epoch[1]) and given[1]:
            assert not out.changes
        said = said_of(self.plan, out.emissions)
        assert said.measures["admitted"] + said.measures["late"] == len(epoch[0])
        self._check_size(said)
        return said

    def _check_size(self, said: Said) -> None:
        content = [len(v) for name, v in self.state.items() if name != META]
        assert said.measures["bytes"] == sum(content)
        kinds = enumerate(self.kernel(self.plan, 0, {}).stores)
        stores = [n for n, store in kinds if not isinstance(store, SampleStore)]
        ports = self.plan.ports
        kept = [len(self.stored(n) if n < ports else self.queued(n)) for n in stores]
        assert said.measures["cells"] == sum(kept)

    def stored(self, port: int) -> list[tuple[Row, bool]]:
        """Return the rows of a store with their flags, by (tick, arrival); ports come first."""
        kept = json.loads(self.state[META])["rows"][port] if self.state else None
        buckets = RowStore(port, self.state, {}, kept)
        found = []
        for before, after in zip(buckets.all, buckets.all[1:], strict=False):
            assert before.high < after.low
        for bucket in buckets.all:
            rows = buckets.read(bucket)
            assert bucket.raised == rows.flags.sum()
            assert bucket.left == 0
            assert bucket.low == rows.ticks.min()
            assert bucket.high == rows.ticks.max()
            found += zip(rows.table.to_pylist(), rows.flags.tolist(), strict=True)
        return sorted(found, key=lambda f: f[0][TICK])

    def queued(self, number: int) -> list[Row]:
        """Return the rows of a store that wait, by (tick, arrival)."""
        kept = json.loads(self.state[META])["rows"][number] if self.state else None
        queue, found = RowStore(number, self.state, {}, kept), []
        for before, after in zip(queue.all, queue.all[1:], strict=False):
            assert before.high < after.low
        for bucket in queue.all:
            rows = queue.read(bucket)
            assert bucket.raised == rows.flags.sum()
            assert bucket.left == 0 or bucket is queue.all[0]
            waits = zip(rows.table.to_pylist(), rows.flags.tolist(), strict=True)
            waiting = sorted((r for r, f in waits if not f), key=lambda r: r[TICK])[bucket.left :]
            assert waiting
            assert all(bucket.low <= r[TICK] <= bucket.high for r in waiting)
            found += waiting
        return found


def bag(rows) -> Counter:
    """Return rows as a multiset in which NaN is one value and −0.0 differs from 0.0."""
    return Counter(repr(sorted(r.items())) for r in rows)


def bare(row: Row) -> Row:
    """Return a row without the columns that only kernels see."""
    return {n: v for n, v in row.items() if n not in {LATE_DEGREE, DEAD}}


def marks_upto(tick: int) -> st.SearchStrategy[int | None]:
    """Return marks: mostly none or in the midst of the rows, sometimes the end of the stream."""
    inside = st.integers(-tick, tick)
    return st.one_of(st.none(), inside, inside, st.sampled_from([END, END - 1, -(2**62)]))
