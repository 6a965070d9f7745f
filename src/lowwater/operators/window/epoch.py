"""One epoch of one shard of a window aggregate: its state, its output and its counts.

State is a map of names to bytes: `meta` (the watermarks in force and the index of the buckets) and
a few buckets of cells, each for an interval of panes. An epoch reads the buckets of its rows and of
its closing windows, and rewrites only the buckets of its rows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from lowwater.control.measures import Measure, ShardMeasure
from lowwater.control.watermark import Watermarks
from lowwater.errors import ResultOverflowError
from lowwater.operators.kernel import META, Step
from lowwater.operators.packet import measure_packet, table_packet
from lowwater.operators.window.cells import Cells, PackedCells
from lowwater.operators.window.close import ClosedWindows
from lowwater.operators.window.loss_count import LossCount, Observer
from lowwater.operators.window.plan import SECOND, WindowPlan
from lowwater.operators.window.value_ledger import ValueLedger
from lowwater.windows.common_panes import Shared
from lowwater.windows.landmark import Landmark

TARGET_CELLS = 16_384


@dataclass(frozen=True)
class Bucket:
    """The description of a bucket: its interval of panes, number of cells and size in bytes."""

    low: int
    high: int
    cells: int
    size: int

    @property
    def name(self) -> str:
        """The name of the bucket in the state."""
        return f"cells/{self.low}"


@dataclass
class CellStore:
    """The index of the buckets of a shard, as {first pane: bucket}."""

    all: dict[int, Bucket] = field(default_factory=dict)

    @classmethod
    def of(cls, buckets: Iterable[Bucket]) -> CellStore:
        """Return the index of `buckets`, sorted by their first pane."""
        return cls({b.low: b for b in sorted(buckets, key=lambda b: b.low)})

    def __iter__(self) -> Iterator[Bucket]:
        return iter(self.all.values())

    @property
    def cells(self) -> int:
        """The number of cells in all buckets."""
        return sum([b.cells for b in self.all.values()])

    @property
    def size(self) -> int:
        """The size of all buckets in bytes."""
        return sum([b.size for b in self.all.values()])

    def between(self, low: int | np.ndarray, high: int | np.ndarray) -> set[int]:
        """Return the keys of the buckets with panes in [low, high), or in any [low[i], high[i])."""
        return {b.low for b in self if np.any((b.low < high) & (b.high >= low))}

    def taking(self, panes: np.ndarray) -> set[int]:
        """Return the keys of the buckets to which new cells with these `panes` are added.

        A pane between two buckets goes into the earlier bucket, unless that bucket is full.
        """
        if not self.all or not len(panes):
            return set()
        known = list(self)
        before = np.searchsorted([b.low for b in known], panes, "right") - 1
        high = np.array([b.high for b in known])
        full = np.array([b.cells >= TARGET_CELLS for b in known])
        chosen = (before >= 0) & ((panes <= high[before]) | ~full[before])
        return {known[i].low for i in np.unique(before[chosen])}

    def intervals(self, panes: np.ndarray) -> list[tuple[int, int]]:
        """Divide sorted `panes` into new buckets, and return the indices [start, end) of each.

        A new bucket neither splits a pane nor overlaps a bucket of the store.
        """
        if not len(panes):
            return []
        starts = np.flatnonzero(np.diff(panes, prepend=panes[0] - 1))
        room = starts // TARGET_CELLS
        slot = np.searchsorted(list(self.all), panes[starts])
        new = (np.diff(room, prepend=-1) != 0) | (np.diff(slot, prepend=-1) != 0)
        return list(pairwise([*starts[new].tolist(), len(panes)]))


Kind = Literal["final", "revised"]


def window_bounds(
    plan: WindowPlan, first: np.ndarray, last: np.ndarray, ends: np.ndarray | None = None
) -> list[pa.Array]:
    """Return two columns: the starts of the windows `first`, and the ends of the windows `last`."""
    spec = plan.window
    missing = np.full(len(first), isinstance(spec, Landmark) and spec.landmark is None)
    return [
        plan.bounds.from_ticks(np.where(missing, 0, spec.start(first)), missing),
        plan.bounds.from_ticks(spec.end(last) if ends is None else ends),
    ]


def result_rows(
    plan: WindowPlan, cells: Cells, closed: ClosedWindows, kind: Kind
) -> tuple[pa.Table, int]:
    """Return the windows `closed` as result rows, and the number of values that overflowed.

    `cells` has the keys of their groups. Raise ResultOverflowError if `overflow="fail"`.
    """
    schema, named = plan.result_schema, []
    if isinstance(plan.spec, Shared):
        bounds = _shared_bounds(plan, plan.spec, closed)
        named = [pa.array([name for name, _ in plan.spec.named]).take(pa.array(closed.which))]
    else:
        bounds = window_bounds(plan, closed.wid, closed.wid, closed.ends)
    window = pa.StructArray.from_arrays(bounds, fields=list(schema.field("window").type))
    index = pa.array(closed.code)
    keys = [_key_values(plan, k, cells.keys.column(k).take(index)) for k in plan.keys]
    values, overflows = [], {}
    for name, a in plan.aggregates.items():
        parts = [plan.settled(p, closed.parts) for p in a.parts(plan.schema)]
        values.append(a.lower(parts, plan.schema))
        lost = a.overflowed(values[-1], parts)
        if lost is not None:
            overflows[name] = np.flatnonzero(lost)
    kinds = pa.repeat(pa.scalar(kind), len(closed.wid))
    rate = [pa.array(closed.rows / closed.parts[0].arrays[0])] if plan.shows_rate else []
    columns = [window, pa.array(closed.wid), *named, *keys, *values, *rate, kinds]
    rows = pa.table(columns, schema=schema)
    for name, lost in overflows.items():
        if plan.aggregates[name].overflow == "fail":
            raise _overflow(plan, name, rows.slice(lost[0], 1).to_pylist()[0])
    return rows, sum(len(lost) for lost in overflows.values())


def _overflow(plan: WindowPlan, name: str, row: Mapping[str, Any]) -> ResultOverflowError:
    """Return the error for the aggregate `name` of a result `row`, which does not fit its type."""
    window, kind = row["window"], plan.result_schema.field(name).type
    group = "".join(f", {key} = {row[key]!r}" for key in plan.group_keys)
    return ResultOverflowError(
        f"{plan.aggregates[name].written} as {name!r} in the window from {window['start']} to "
        f"{window['end']}{group} does not fit {kind}; write overflow='null' to get NULL, or make "
        f"the column a double before the window"
    )


def _shared_bounds(plan: WindowPlan, spec: Shared, closed: ClosedWindows) -> list[pa.Array]:
    """Return the starts and the ends of closed windows of several names, as columns."""
    layouts = [(w.origin, w.slide, w.range) for _, w in spec.named]
    origin, slide, size = np.array(layouts).T[:, closed.which]
    start = origin + closed.wid * slide
    return [plan.bounds.from_ticks(start), plan.bounds.from_ticks(start + size)]


def _key_values(plan: WindowPlan, key: str, values: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return the values of a key; values of the key `SECOND` become window starts and ends."""
    if plan.second is None or key != SECOND:
        return values
    start = values.combine_chunks().to_numpy()
    bounds = [plan.second.from_ticks(at) for at in (start, start + plan.spec.pane)]
    return pa.StructArray.from_arrays(bounds, fields=list(plan.key_field(SECOND).type))


@dataclass
class Meta:
    """The meta entry of the state: the watermarks in force, and the index of the buckets."""

    watermarks: Watermarks
    buckets: CellStore

    @classmethod
    def from_json(cls, content: Mapping[str, Any] | None) -> Meta:
        """Return the meta entry that `to_json` wrote; None is the content of a new shard."""
        if content is None:
            return cls(Watermarks(), CellStore())
        buckets = CellStore.of([Bucket(*b) for b in content.get("buckets", ())])
        return cls(Watermarks.from_json(content["marks"]), buckets)

    def to_json(self) -> dict[str, Any]:
        """Return the meta entry as JSON."""
        return {"marks": self.watermarks.to_json(), "buckets": [astuple(b) for b in self.buckets]}


class WindowEpoch:
    """One epoch of one shard: the state it reads, and the changes and emissions it writes.

    `waiting` is the number of rows in state that are in no cell yet. `more_cells` and `more_bytes`
    are the size of the state outside the buckets.
    """

    def __init__(self, plan: WindowPlan, shard: int, state: Mapping[str, bytes]) -> None:
        self.plan, self.shard, self.state = plan, shard, state
        self.meta = Meta.from_json(json.loads(state[META]) if META in state else None)
        self.out = Step()
        self.counts = dict.fromkeys(("admitted", "late", "partly_late", "outside", "results"), 0)
        self.observer = _observer(plan, state)
        self.waiting = self.more_cells = self.more_bytes = 0

    def read(self, buckets: Collection[int]) -> list[PackedCells]:
        """Return the cells of `buckets`, in the order of their panes."""
        known = self.meta.buckets.all
        return [PackedCells.from_bytes(self.state[known[b].name]) for b in sorted(buckets)]

    def read_all(self) -> list[PackedCells]:
        """Return the cells of all buckets, in the order of their panes."""
        return [PackedCells.from_bytes(self.state[b.name]) for b in self.meta.buckets]

    def rewrite(self, cells: Cells, touched: Collection[int]) -> None:
        """Replace the buckets `touched` with new buckets that hold `cells`."""
        buckets = self.meta.buckets
        for b in touched:
            self.out.changes[buckets.all.pop(b).name] = None
        order = np.argsort(cells.pane, kind="stable")
        panes = cells.pane[order]
        for start, end in buckets.intervals(panes):
            whole = end - start == len(cells)
            chosen = cells if whole else cells.take(np.sort(order[start:end]))
            content = chosen.pack(self.plan.parts).to_bytes()
            bucket = Bucket(int(panes[start]), int(panes[end - 1]), len(chosen), len(content))
            self.out.changes[bucket.name] = content
            buckets.all[bucket.low] = bucket
        self.meta.buckets = CellStore.of(buckets)

    def rewrite_all(self, cells: Cells) -> None:
        """Replace all buckets with new buckets that hold `cells`."""
        self.rewrite(cells, set(self.meta.buckets.all))

    def delete(self, bucket: Bucket) -> None:
        """Delete `bucket` from the state."""
        del self.meta.buckets.all[bucket.low]
        self.out.changes[bucket.name] = None

    def write_meta(self) -> None:
        """Write the meta entry."""
        self.out.changes[META] = json.dumps(self.meta.to_json()).encode()

    def emit(self, cells: Cells, closed: ClosedWindows, seq: int, kind: Kind = "final") -> None:
        """Emit the windows `closed` as results of `kind`; `cells` has the keys of their groups."""
        if len(closed.wid):
            self.counts["results"] += len(closed.wid)
            if kind == "final":
                self.observer.closed(closed, cells.keys)
            rows, overflows = result_rows(self.plan, cells, closed, kind)
            if overflows:
                self.counts["overflows"] = self.counts.get("overflows", 0) + overflows
            self.out.emissions.append(table_packet("results", self.shard, seq, rows))

    def measured(self) -> Step:
        """Return the changes and emissions of the epoch; the last emission is the measurement."""
        buckets = self.meta.buckets
        measure = ShardMeasure(
            self.shard,
            buckets.cells + self.waiting + self.more_cells,
            buckets.size + self.more_bytes,
            self.counts,
        )
        observed = self.observer.observed(measure, self.meta.watermarks.low)
        self.out.changes |= self.observer.changes
        measures: list[Measure] = [*self.observer.needed, observed]
        self.out.emissions += [measure_packet(self.shard, 0, one) for one in measures]
        return self.out


def _observer(plan: WindowPlan, state: Mapping[str, bytes]) -> Observer:
    """Return the observer that measures what the plan asks for."""
    if plan.bound is not None:
        return ValueLedger(plan, state)
    return LossCount(plan) if plan.tracked else Observer()
