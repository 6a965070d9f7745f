"""Delivery: rows on their way to a port of an operator, as packets.

For a window aggregate, rows ahead of the marks are reduced to cells at once, so that what travels
grows with groups and panes, not with rows; rows behind a mark travel whole, for they may come out
as late rows. Other operators get all rows whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lowwater.aggregates import Rows
from lowwater.control import Marks, Pair
from lowwater.kernels.cells import Packed
from lowwater.kernels.ends import Ends
from lowwater.kernels.flush import at_once
from lowwater.kernels.groups import compact, group_rows, normal_floats, shard_of
from lowwater.kernels.lifting import lift
from lowwater.kernels.operators import OperatorPlan
from lowwater.kernels.packets import Packet, table_packet
from lowwater.kernels.plan import SECOND, WindowPlan
from lowwater.kernels.rows import BEHIND, DEAD, LATE_DEGREE, TICK
from lowwater.windows import FOREVER, Shared

_BEFORE_ALL = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Arriving:
    """Rows that arrive at a port: where each lies, how late it is, and what it must not be behind.

    `own` are the marks that consistent slack decides by: a row behind them misses all its windows,
    whatever is in force at the port. `behind` is the mark of each row that was put aside: the one
    in force when it came.
    """

    table: pa.Table
    ticks: np.ndarray
    degree: np.ndarray
    seq: int
    own: Marks | None = None
    behind: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ticks)

    def keep(self, mask: np.ndarray) -> Arriving:
        """Return the rows in `mask`."""
        if mask.all():
            return self
        return replace(
            self,
            table=self.table.filter(pa.array(mask)),
            ticks=self.ticks[mask],
            degree=self.degree[mask],
            behind=None if self.behind is None else self.behind[mask],
        )


@dataclass(frozen=True)
class Delivered:
    """What was sent to a port, and how many rows belong to no window there."""

    packets: list[Packet]
    outside: int


def deliver(plan: OperatorPlan, port: int, blocks: Sequence[Arriving], marks: Marks) -> Delivered:
    """Turn blocks in arrival order into packets for a port at which `marks` are in force."""
    packets: list[Packet] = []
    if not isinstance(plan, WindowPlan):
        for rows in blocks:
            own = None if rows.own is None else at_once(plan).usable(port, rows.own).low
            dead = np.zeros(len(rows), bool) if own is None else np.asarray(rows.ticks < own)
            packets += _whole_rows(plan, port, rows, dead)
        return Delivered(packets, 0)
    outside, ahead = 0, []
    for rows in blocks:
        inside = rows.keep(_inside(plan, rows.ticks)) if _leaves_gaps(plan) else rows
        outside += len(rows) - len(inside)
        if len(inside):
            made, left = _to_windows(plan, inside, marks)
            packets += made
            ahead += [left] if len(left) else []
    if ahead:
        packets += _cell_packets(plan, _together(ahead), ahead[0].seq)
    return Delivered(packets, outside)


def _together(blocks: Sequence[Arriving]) -> Rows:
    if len(blocks) == 1:
        return Rows(blocks[0].table, blocks[0].ticks)
    table = pa.concat_tables([rows.table for rows in blocks]).combine_chunks()
    return Rows(table, np.concatenate([rows.ticks for rows in blocks]))


def _leaves_gaps(plan: WindowPlan) -> bool:
    """Whether rows may belong to no window; by their number they do not before they have one."""
    return plan.numbering is None and plan.spec.has_gaps


def _inside(plan: WindowPlan, ticks: np.ndarray) -> np.ndarray:
    """Which rows belong to a window at all."""
    spec = plan.spec
    if isinstance(spec, Shared):
        return ~spec.outside(ticks)
    return np.asarray(spec.last(ticks) >= spec.first(ticks))


def _to_windows(plan: WindowPlan, rows: Arriving, marks: Marks) -> tuple[list[Packet], Arriving]:
    """Return what travels as it is, and the rows that are to be reduced to cells."""
    rows = replace(rows, table=_with_normal_keys(_with_second(plan, rows.table), plan.keys))
    behind = _behind(plan, rows, marks)
    dead = np.zeros(len(rows), bool)
    if rows.own is not None:
        dead = np.asarray(rows.ticks < row_marks(plan, rows.table, plan.deciding(rows.own)))
        behind |= dead
    packets = []
    if plan.ends_of_stream and not plan.counts_arrivals:
        believed = rows.keep(~dead)
        ends = _ends(plan, believed.table, believed.ticks).to_table()
        packets += [table_packet("ends", s, rows.seq, ends) for s in range(plan.shards)]
    whole = np.ones(len(rows), bool) if plan.travels_whole else behind
    if whole.any():
        packets += _whole_rows(plan, 0, rows.keep(whole), dead[whole])
    return packets, rows.keep(~whole)


def _behind(plan: WindowPlan, rows: Arriving, marks: Marks) -> np.ndarray:
    """Which rows may have missed a window."""
    if rows.behind is not None:
        return np.asarray(rows.ticks < rows.behind)
    if marks.nominal is not None:
        return np.asarray(rows.ticks < marks.nominal)
    behind = np.asarray(rows.ticks < row_marks(plan, rows.table, marks))
    for start, end in marks.ranges:
        behind |= (rows.ticks >= start) & (rows.ticks < end)
    return behind


def _with_second(plan: WindowPlan, table: pa.Table) -> pa.Table:
    """Return rows with where their window on the second attribute begins."""
    if plan.second is None:
        return table
    ticks, _ = plan.second.to_ticks(table.column(plan.second.column))
    spec = plan.positioned
    return table.append_column(SECOND, pa.array(np.asarray(spec.start(spec.first(ticks)))))


def _whole_rows(plan: OperatorPlan, port: int, rows: Arriving, dead: np.ndarray) -> list[Packet]:
    """Send rows as they are, each to the shard of its keys."""
    table = rows.table
    more = {TICK: rows.ticks, LATE_DEGREE: rows.degree, DEAD: dead}
    if rows.behind is not None:
        more[BEHIND] = rows.behind
    for name, column in more.items():
        table = table.append_column(name, pa.array(column))
    keys = [_normal(table.column(k).combine_chunks()) for k in plan.shard_keys[port]]
    if plan.shards == 1:
        return [table_packet("rows", 0, rows.seq, table, port)]
    codes, chosen = group_rows(keys, len(table))
    picked = [k.take(pa.array(chosen)) for k in keys]
    shard = shard_of(picked, len(chosen), plan.shards)[codes]
    return [
        table_packet("rows", int(s), rows.seq, table.filter(pa.array(shard == s)), port)
        for s in np.unique(shard)
    ]


def _normal(column: pa.Array) -> pa.Array:
    return normal_floats(column) if pa.types.is_floating(column.type) else column


def _with_normal_keys(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    for key in keys:
        at = table.schema.get_field_index(key)
        if pa.types.is_floating(table.schema.field(at).type):
            normal = _normal(table.column(at).combine_chunks())
            table = table.set_column(at, table.schema.field(at), normal)
    return table


def row_marks(plan: WindowPlan, table: pa.Table, marks: Marks) -> np.ndarray | int:
    """Return the mark that each row must not be behind."""
    low = _BEFORE_ALL if marks.low is None else marks.low
    if plan.second is not None:
        return _joint_marks(plan, table, int(low), marks.pair)
    if not (plan.sources_close_groups and marks.sources):
        return int(low)
    assert plan.source is not None  # noqa: S101
    column = table.column(plan.source).combine_chunks()
    codes, chosen = group_rows([column], len(column))
    own = [marks.of(s) for s in column.take(pa.array(chosen)).to_pylist()]
    known = np.array([_BEFORE_ALL if m is None else m for m in own], np.int64)
    return np.asarray(known[codes])


def _joint_marks(plan: WindowPlan, table: pa.Table, low: int, pair: Pair | None) -> np.ndarray:
    """Return the mark of each row where windows lie on two attributes (OOP 7).

    Rows whose second window the joint mark completes are complete up to the first joint mark; those
    whose second window is complete by itself, altogether.
    """
    start = table.column(SECOND).combine_chunks().to_numpy()
    mark = np.full(len(start), low)
    if pair is None:
        return mark
    end = start + plan.spec.pane
    mark = np.where(end <= pair.joint[1], max(low, pair.joint[0]), mark)
    return np.asarray(np.where(end <= pair.second, FOREVER, mark))


def _ends(plan: WindowPlan, table: pa.Table, ticks: np.ndarray) -> Ends:
    """Return where the rows may end windows."""
    if plan.end_count is None:
        return Ends.of(ticks, np.ones(len(ticks), np.int64))
    chosen = ticks[plan.end_count.chosen(table)]
    return Ends.of(chosen, np.ones(len(chosen), np.int64))


def _cell_packets(plan: WindowPlan, rows: Rows, seq: int) -> list[Packet]:
    packed = lift(plan, rows)
    columns = [packed.keys.column(k).combine_chunks() for k in plan.keys]
    shard = shard_of(columns, packed.groups, plan.shards)
    found = np.unique(shard)
    if len(found) == 1:
        return [Packet(int(found[0]), seq, "cells", packed.to_bytes())]
    return [Packet(int(s), seq, "cells", of_groups(packed, shard == s).to_bytes()) for s in found]


def of_groups(packed: Packed, mask: np.ndarray) -> Packed:
    """Return the cells of some groups."""
    chosen = mask[packed.code]
    code, named = compact(packed.code[chosen], packed.groups)
    columns = [c.filter(pa.array(chosen)) for c in packed.columns]
    keys = packed.keys.take(pa.array(named))
    return Packed(keys, len(named), code, packed.pane[chosen], columns)
