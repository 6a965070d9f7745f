"""Ingest: raw rows to packets, where the rows are.

Rows ahead of the marks are reduced to cells at once, so that what travels grows with groups and
panes, not with rows. Rows behind a mark travel whole, for they may come out as late rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.aggregates import Rows
from lowwater.control import Control, Controller, Entry, Marks, Standing
from lowwater.kernels.cells import Packed
from lowwater.kernels.ends import Ends
from lowwater.kernels.groups import compact, group_rows, normal_floats, shard_of
from lowwater.kernels.lifting import lift
from lowwater.kernels.packets import Packet, measure_packet, measures_of, table_packet
from lowwater.kernels.plan import WindowPlan
from lowwater.windows import Shared

TICK, LATE_DEGREE, DEAD = "__tick", "__late_degree", "__dead"
_BEFORE_ALL = np.iinfo(np.int64).min


@dataclass
class _Intake:
    """One block of rows on its way through ingest."""

    plan: WindowPlan
    table: pa.Table
    seq: int
    packets: list[Packet] = field(default_factory=list)
    measures: dict[str, Any] = field(default_factory=dict)

    def keep(self, mask: np.ndarray, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """Drop the rows outside `mask` from the table and from `columns`."""
        self.table = self.table.filter(pa.array(mask))
        return tuple(c[mask] for c in columns)


@np.errstate(over="ignore", invalid="ignore")
def ingest(plan: WindowPlan, table: pa.Table, standing: Standing, seq: int) -> list[Packet]:
    """Turn one block of rows, in arrival order, into packets; the last one is its measurements.

    `seq` is the block's place among the blocks of its epoch.
    """
    intake = _Intake(plan, table.combine_chunks(), seq)
    ticks, valid = plan.axis.to_ticks(table.column(plan.axis.column))
    future = valid & _ahead(plan, ticks, standing)
    if plan.mark_when is not None:
        ticks, valid, future = _take_out_marks(intake, ticks, valid, future)
    intake.measures["in"] = len(ticks)
    ticks = _set_malformed_aside(intake, ticks, valid, future)
    if len(ticks):
        _measure_progress(intake, ticks)
        degree = _late_degrees(ticks, standing.newest)
        ticks, degree = _set_outside_aside(intake, ticks, degree)
    if len(ticks):
        _send_rows(intake, ticks, degree, standing)
    intake.packets.append(measure_packet(0, seq, intake.measures))
    return intake.packets


def ingest_blocks(
    plan: WindowPlan, blocks: Iterable[pa.Table], entry: Entry, controller: Controller
) -> Iterator[list[Packet]]:
    """Ingest the blocks of an epoch that begins after `entry`.

    Consistent slack decides over each block by all blocks before it, also those of the same epoch.
    """
    for seq, block in enumerate(blocks):
        packets = ingest(plan, block, entry.standing, seq)
        yield packets
        if plan.consistent:
            entry = controller.foresee(entry, [measures_of(packets[-1])], now=0)


def _ahead(plan: WindowPlan, ticks: np.ndarray, standing: Standing) -> np.ndarray:
    """Which rows are further ahead than is believed (semantics 4)."""
    known = [t for t in (standing.newest, standing.wall) if t is not None]
    if plan.max_ahead is None or not known:
        return np.zeros(len(ticks), bool)
    return np.asarray(ticks > max(known) + plan.max_ahead)


def _take_out_marks(
    intake: _Intake, ticks: np.ndarray, valid: np.ndarray, future: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Turn the rows that are punctuations into control, for all shards and for the controller.

    A punctuation without a time, or from the future, says nothing: it is a malformed row.
    """
    plan = intake.plan
    flags = intake.table.column(plan.mark_when).fill_null(False)
    is_mark = np.asarray(flags.combine_chunks().to_numpy(zero_copy_only=False), bool)
    said = is_mark & valid & ~future
    intake.measures["punctuations"] = int(said.sum())
    if said.any():
        marks = _marks_said(plan, intake.table.filter(pa.array(said)), ticks[said])
        intake.measures["marks"] = marks.to_json()
        aligned = Marks(
            None if marks.low is None else plan.align(marks.low),
            {s: plan.align(m) for s, m in marks.sources.items()}
            if plan.sources_close_groups
            else {},
        )
        payload = Control(aligned).to_bytes()
        intake.packets += [Packet(s, intake.seq, "control", payload) for s in range(plan.shards)]
    return intake.keep(~said, ticks, valid, future)


def _marks_said(plan: WindowPlan, rows: pa.Table, ticks: np.ndarray) -> Marks:
    if plan.source is None:
        return Marks(int(ticks.max()))
    return Marks(None, newest_by_source(rows.column(plan.source), ticks))


def newest_by_source(column: pa.ChunkedArray, ticks: np.ndarray) -> dict[Any, int]:
    """Return the newest tick of each source."""
    values = column.combine_chunks()
    codes, chosen = group_rows([values], len(ticks))
    newest = np.full(len(chosen), _BEFORE_ALL)
    np.maximum.at(newest, codes, ticks)
    return dict(zip(values.take(pa.array(chosen)).to_pylist(), newest.tolist(), strict=True))


def _set_malformed_aside(
    intake: _Intake, ticks: np.ndarray, valid: np.ndarray, future: np.ndarray
) -> np.ndarray:
    plan = intake.plan
    bad = ~valid | future
    intake.measures["malformed"] = int(bad.sum())
    if not bad.any():
        return ticks
    reason = np.where(future[bad], "from the future", "time is NULL or unreadable")
    name = plan.malformed_schema.names[-1]
    rows = intake.table.filter(pa.array(bad)).append_column(name, pa.array(reason, pa.string()))
    intake.packets.append(table_packet("malformed", 0, intake.seq, rows))
    return intake.keep(~bad, ticks)[0]


def _measure_progress(intake: _Intake, ticks: np.ndarray) -> None:
    plan = intake.plan
    intake.measures["newest"] = int(ticks.max())
    if plan.source is not None:
        newest = newest_by_source(intake.table.column(plan.source), ticks)
        intake.measures["sources"] = [[s, t] for s, t in newest.items()]
    if plan.tail:
        running = np.maximum.accumulate(ticks)
        steps = np.flatnonzero(np.diff(running, prepend=running[0] - 1))
        recent = steps[max(0, np.searchsorted(steps, len(ticks) - plan.tail) - 1) :]
        intake.measures["tail"] = [recent.tolist(), running[recent].tolist()]


def _late_degrees(ticks: np.ndarray, newest: int | None) -> np.ndarray:
    """How far each row is behind the newest one that arrived before it (semantics 25)."""
    running = np.maximum.accumulate(ticks)
    if newest is not None:
        running = np.maximum(running, newest)
    return np.asarray(running - ticks)


def _set_outside_aside(
    intake: _Intake, ticks: np.ndarray, degree: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    spec = intake.plan.spec
    if intake.plan.numbering is not None or not spec.has_gaps:
        intake.measures["outside"] = 0
        return ticks, degree
    if isinstance(spec, Shared):
        inside = ~spec.outside(ticks)
    else:
        inside = spec.last(ticks) >= spec.first(ticks)
    intake.measures["outside"] = int((~inside).sum())
    if inside.all():
        return ticks, degree
    return intake.keep(inside, ticks, degree)  # type: ignore[return-value]


def _send_rows(intake: _Intake, ticks: np.ndarray, degree: np.ndarray, standing: Standing) -> None:
    plan = intake.plan
    table = _with_normal_keys(intake.table, plan.keys)
    mark = row_marks(plan, table, standing.marks)
    behind = np.asarray(ticks < mark)
    if plan.ends_of_stream and not plan.counts_arrivals:
        believed = ~behind if plan.consistent else np.ones(len(ticks), bool)
        ends = _ends(plan, table.filter(pa.array(believed)), ticks[believed]).to_table()
        intake.packets += [table_packet("ends", s, intake.seq, ends) for s in range(plan.shards)]
    whole = np.ones(len(ticks), bool) if plan.travels_whole else behind
    if whole.any():
        dead = behind if plan.consistent else np.zeros(len(ticks), bool)
        extra = {TICK: ticks, LATE_DEGREE: degree, DEAD: dead}
        rows = table
        for name, column in extra.items():
            rows = rows.append_column(name, pa.array(column))
        intake.packets += _row_packets(plan, rows.filter(pa.array(whole)), intake.seq)
    if not whole.all():
        if whole.any():
            table, ticks = table.filter(pa.array(~whole)), ticks[~whole]
        intake.packets += _cell_packets(plan, Rows(table, ticks), intake.seq)


def _with_normal_keys(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    for key in keys:
        at = table.schema.get_field_index(key)
        if pa.types.is_floating(table.schema.field(at).type):
            normal = normal_floats(table.column(at).combine_chunks())
            table = table.set_column(at, table.schema.field(at), normal)
    return table


def row_marks(plan: WindowPlan, table: pa.Table, marks: Marks) -> np.ndarray | int:
    """Return the mark that each row must not be behind."""
    low = _BEFORE_ALL if marks.low is None else marks.low
    if not (plan.sources_close_groups and marks.sources):
        return int(low)
    assert plan.source is not None  # noqa: S101
    column = table.column(plan.source).combine_chunks()
    codes, chosen = group_rows([column], len(column))
    own = [marks.of(s) for s in column.take(pa.array(chosen)).to_pylist()]
    known = np.array([_BEFORE_ALL if m is None else m for m in own], np.int64)
    return np.asarray(known[codes])


def _ends(plan: WindowPlan, table: pa.Table, ticks: np.ndarray) -> Ends:
    """Return where the rows may end windows."""
    if plan.end_count is None:
        return Ends.of(ticks, np.ones(len(ticks), np.int64))
    chosen = ticks[plan.end_count.chosen(table)]
    return Ends.of(chosen, np.ones(len(chosen), np.int64))


def _row_packets(plan: WindowPlan, rows: pa.Table, seq: int) -> list[Packet]:
    keys = [rows.column(k).combine_chunks() for k in plan.shard_keys]
    codes, chosen = group_rows(keys, len(rows))
    picked = [k.take(pa.array(chosen)) for k in keys]
    shard = shard_of(picked, len(chosen), plan.shards)[codes]
    return [
        table_packet("rows", int(s), seq, rows.filter(pa.array(shard == s)))
        for s in np.unique(shard)
    ]


def _cell_packets(plan: WindowPlan, rows: Rows, seq: int) -> list[Packet]:
    packed = lift(plan, rows)
    columns = [packed.keys.column(k).combine_chunks() for k in plan.keys]
    shard = shard_of(columns, packed.groups, plan.shards)
    found = np.unique(shard)
    if len(found) == 1:
        return [Packet(int(found[0]), seq, "cells", packed.to_bytes())]
    return [Packet(int(s), seq, "cells", _of_groups(packed, shard == s).to_bytes()) for s in found]


def _of_groups(packed: Packed, mask: np.ndarray) -> Packed:
    chosen = mask[packed.code]
    code, named = compact(packed.code[chosen], packed.groups)
    columns = [c.filter(pa.array(chosen)) for c in packed.columns]
    keys = packed.keys.take(pa.array(named))
    return Packed(keys, len(named), code, packed.pane[chosen], columns)
