"""What WID is compared with: keep the rows, materialise each window's extent, compute it anew.

Twice, both with numpy over one extent at a time:

- `buffered` is an operator for Lowwater's own host. Rows are read, checked, accounted for, held in
  state between epochs and turned into results just as they are for WID; only the kernel differs.
- `bare` is a loop without any of that: it reads one column, trusts rows to be in order with none
  missing, and writes nothing down. No program that recomputes can do much less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import RawRows
from lowwater.control.watermark import Watermarks
from lowwater.engine.clock import SystemClock
from lowwater.local.host import LocalEpochs, blocks_of, until_the_end
from lowwater.operators.kernel import Step
from lowwater.operators.packet import Packet, packed, table_packet, tables, unpacked
from lowwater.operators.window.cells import PackedCells
from lowwater.operators.window.completion import WatermarkCompletion
from lowwater.operators.window.kernel import WindowKernel
from lowwater.operators.window.plan import WindowPlan
from lowwater.query.stream import Query
from lowwater.sources.files import Files
from lowwater.windows.sliding import Sliding

BUFFER = "buffer"


class WholeRows(WindowPlan):
    """A plan whose rows reach the operator as they are."""

    @property
    def travels_whole(self) -> bool:
        """Always: what is not kept as rows cannot be computed anew."""
        return True


class BufferedRows(WatermarkCompletion):
    """Stores rows instead of partial aggregates: one shard, one maximum, no groups."""

    def advance(
        self, fresh: list[PackedCells], rows: list[RawRows], watermarks: Watermarks
    ) -> None:
        """Add the rows to the buffer, compute complete windows, drop rows no open one needs."""
        del fresh
        spec, epoch = self.plan.spec, self.epoch
        assert isinstance(spec, Sliding)  # noqa: S101
        before, stored = epoch.meta.watermarks, epoch.state.get(BUFFER)
        tables = ([] if stored is None else [unpacked(stored)]) + [r.table for r in rows]
        epoch.meta.watermarks = watermarks
        if tables:
            whole = pa.concat_tables(tables)
            number, speed = (whole.column(c).to_numpy() for c in ("row_num", "speed"))
            low = spec.first(number[0]) if before.low is None else spec.first_open(before.low)
            high = low if watermarks.low is None else spec.first_open(watermarks.low)
            wid = np.arange(low, min(high, spec.last(number[-1]) + 1))
            begin = np.asarray(np.searchsorted(number, spec.start(wid)))
            end = np.asarray(np.searchsorted(number, spec.end(wid)))
            self._emit(wid, maxima(speed, begin, end))
            needed = int(np.searchsorted(number, spec.start(high)))
            epoch.out.changes[BUFFER] = packed(whole.slice(needed))
        epoch.write_meta()

    def _emit(self, wid: np.ndarray, fastest: np.ndarray) -> None:
        if len(wid):
            epoch, window = self.epoch, self.plan.window
            epoch.counts["results"] += len(wid)
            bounds = pa.StructArray.from_arrays(
                [pa.array(window.start(wid)), pa.array(window.end(wid))], ["start", "end"]
            )
            columns = [bounds, pa.array(wid), pa.array(fastest), pa.repeat("final", len(wid))]
            rows = pa.table(columns, schema=self.plan.result_schema)
            epoch.out.emissions.append(table_packet("results", epoch.shard, 0, rows))


def maxima(values: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the maximum of each extent [begin, end); a slice copies nothing."""
    pairs = zip(begin.tolist(), end.tolist(), strict=True)
    return np.array([values[a:b].max() for a, b in pairs], np.float64)


def buffered(query: Query, source: Files) -> pa.Table:
    """Return the results of a query over the maximum of `speed`, by an operator that buffers."""
    plan = WholeRows(**{f.name: getattr(query.plan, f.name) for f in fields(query.plan)})
    flow = query.assembly.flow
    whole = replace(flow, operators=(replace(flow.operators[0], plan=plan),))
    one = replace(query.assembly, flow=whole).with_shards(1)

    def step(
        plan: WindowPlan, shard: int, state: Mapping[str, bytes], packets: Sequence[Packet]
    ) -> Step:
        kernel = WindowKernel(plan, shard, state)
        kernel.completion = BufferedRows(kernel.epoch, kernel.layout)
        return kernel.run(sorted(packets, key=lambda p: p.seq))

    epochs = LocalEpochs(one, SystemClock(), step)
    found = [plan.result_schema.empty_table()]
    for blocks, last in until_the_end([blocks_of(source)]):
        found += tables(epochs.run(blocks, last=last), "results")
    return pa.concat_tables(found)


def bare(source: Files, size: int, slide: int) -> pa.Table:
    """Return wid and maximum of each extent [w·slide, w·slide + size) that holds a row."""
    buffer, first, w = np.empty(0), 0, -size // slide + 1
    found = []

    def compute(until: int) -> None:
        wid = np.arange(w, max(w, until))
        begin, end = np.maximum(wid * slide - first, 0), wid * slide - first + size
        found.append(pa.table({"wid": wid, "fastest": maxima(buffer, begin, end)}))

    for speeds in columns(source, "speed"):
        buffer = np.concatenate([buffer, speeds])
        complete = (first + len(buffer) - size) // slide + 1
        compute(complete)
        w = max(w, complete)
        kept = max(w * slide - first, 0)
        buffer, first = buffer[kept:], first + kept
    compute(-(-(first + len(buffer)) // slide))
    return pa.concat_tables(found)


def columns(source: Files, name: str) -> Iterator[np.ndarray]:
    """Read one column of the files, one after the other, as the host reads them."""
    for blocks in blocks_of(source):
        yield from (table.column(name).to_numpy() for table, _ in blocks)
