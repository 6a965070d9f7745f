"""Delivery: rows at a port of an operator become packets.

For a window aggregate, rows ahead of the watermark are reduced to cells at once, so that packets
grow with groups and panes, not with rows. Rows behind the watermark are sent as whole rows,
because they may be emitted as late rows. Other operators receive only whole rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.base import RawRows
from lowwater.control.context import SlackReference
from lowwater.control.watermark import Watermarks
from lowwater.operators.batch import BEHIND, DEAD, LATE_DEGREE, TICK, Batch
from lowwater.operators.group_codes import compact, group_rows, normal_floats, shard_of
from lowwater.operators.operator import OperatorPlan
from lowwater.operators.packet import Packet, measure_packet, reference_packet, table_packet
from lowwater.operators.window.admit import row_watermarks
from lowwater.operators.window.cells import PackedCells, lift
from lowwater.operators.window.layout_row import RowEnds
from lowwater.operators.window.needed_slack import additions, needed_slacks
from lowwater.operators.window.plan import SECOND, WindowPlan


def deliver(
    plan: OperatorPlan,
    port: int,
    batches: Sequence[Batch],
    watermarks: Watermarks,
    reference: SlackReference | None = None,
) -> tuple[list[Packet], int]:
    """Return packets of `batches` for a port, and the number of rows that belong to no window.

    Batches are in arrival order; `watermarks` are in force at the port. With `reference`, packets
    measure the slack that rows need, or hold the time from which the kernel counts it.
    """
    packets: list[Packet] = []
    if not isinstance(plan, WindowPlan):
        for rows in batches:
            own = None if rows.own is None else plan.at_once().usable(port, rows.own).low
            dead = np.zeros(len(rows), bool) if own is None else np.asarray(rows.ticks < own)
            packets += _whole_rows(plan, port, rows, dead)
        if packets and reference is not None and reference.newest.low is not None:
            at = packets[0].seq, reference.newest.low, port
            packets += [reference_packet(shard, *at) for shard in {p.shard for p in packets}]
        return packets, 0
    outside, ahead, entering = 0, [], []
    for rows in batches:
        # Row windows: rows have no number yet, so none can be outside.
        gaps = plan.numbering is None and plan.spec.has_gaps
        inside = rows.keep(~plan.spec.outside(rows.ticks)) if gaps else rows
        outside += len(rows) - len(inside)
        if len(inside):
            table = _with_normal_keys(_with_second(plan, inside.table), plan.keys)
            inside = replace(inside, table=table)
            entering.append(inside)
            whole, left = _to_windows(plan, inside, watermarks)
            packets += whole
            ahead += [left] if len(left) else []
    if ahead:
        packets += _cell_packets(plan, _together(ahead), ahead[0].seq)
    if reference is not None and entering:
        packets += _measured(plan, entering, reference)
    return packets, outside


def _measured(
    plan: WindowPlan, rows: Sequence[Batch], reference: SlackReference
) -> Iterator[Packet]:
    """Yield packets with the slacks that rows need, or with what they add to results."""
    if plan.bound is not None:
        yield from additions(plan, rows, reference)
        return
    for one in needed_slacks(plan, rows, reference):
        yield measure_packet(0, rows[0].seq, one)


def _together(batches: Sequence[Batch]) -> RawRows:
    """Return the rows of all batches as one `RawRows`."""
    if len(batches) == 1:
        return RawRows(batches[0].table, batches[0].ticks)
    table = pa.concat_tables([rows.table for rows in batches]).combine_chunks()
    return RawRows(table, np.concatenate([rows.ticks for rows in batches]))


def _to_windows(
    plan: WindowPlan, rows: Batch, watermarks: Watermarks
) -> tuple[list[Packet], Batch]:
    """Return packets of the rows that are sent whole, and the rows that become cells."""
    behind = _behind(plan, rows, watermarks)
    dead = np.zeros(len(rows), bool)
    if rows.own is not None:
        dead = np.asarray(rows.ticks < row_watermarks(plan, rows.table, plan.deciding(rows.own)))
        behind |= dead
    packets = []
    if plan.ends_of_stream and not plan.counts_arrivals:
        alive = rows.keep(~dead)
        ends = RowEnds.of_rows(plan, alive.table, alive.ticks).to_table()
        packets += [table_packet("ends", s, rows.seq, ends) for s in range(plan.shards)]
    whole = np.ones(len(rows), bool) if plan.travels_whole else behind
    if whole.any():
        packets += _whole_rows(plan, 0, rows.keep(whole), dead[whole])
    return packets, rows.keep(~whole)


def _behind(plan: WindowPlan, rows: Batch, watermarks: Watermarks) -> np.ndarray:
    """Return a mask of the rows that may have missed a window."""
    if rows.behind is not None:
        return np.asarray(rows.ticks < rows.behind)
    if watermarks.nominal is not None:
        return np.asarray(rows.ticks < watermarks.nominal)
    behind = np.asarray(rows.ticks < row_watermarks(plan, rows.table, watermarks))
    for start, end in watermarks.ranges:
        behind |= (rows.ticks >= start) & (rows.ticks < end)
    return behind


def _with_second(plan: WindowPlan, table: pa.Table) -> pa.Table:
    """Return rows with the column `SECOND`: the start of their window on the second attribute."""
    if plan.second is None:
        return table
    ticks, _ = plan.second.to_ticks(table.column(plan.second.column))
    spec = plan.positioned
    return table.append_column(SECOND, pa.array(np.asarray(spec.start(spec.first(ticks)))))


def _whole_rows(plan: OperatorPlan, port: int, rows: Batch, dead: np.ndarray) -> list[Packet]:
    """Return packets of whole rows, one per shard; the keys of a row determine its shard."""
    table = rows.table
    hidden = {TICK: rows.ticks, LATE_DEGREE: rows.degree, DEAD: dead}
    if rows.behind is not None:
        hidden[BEHIND] = rows.behind
    for name, column in hidden.items():
        table = table.append_column(name, pa.array(column))
    if plan.shards == 1:
        return [table_packet("rows", 0, rows.seq, table, port)]
    names = plan.shard_keys[port]
    normal = _with_normal_keys(table.select(list(names)), names)
    keys = [column.combine_chunks() for column in normal.columns]
    codes, chosen = group_rows(keys, len(table))
    picked = [k.take(pa.array(chosen)) for k in keys]
    shard = shard_of(picked, len(chosen), plan.shards)[codes]
    return [
        table_packet("rows", int(s), rows.seq, table.filter(pa.array(shard == s)), port)
        for s in np.unique(shard)
    ]


def _with_normal_keys(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    """Return `table` with float keys normalised: one bit pattern for zero, and one for NaN."""
    for key in keys:
        at = table.schema.get_field_index(key)
        if pa.types.is_floating(table.schema.field(at).type):
            normal = normal_floats(table.column(at).combine_chunks())
            table = table.set_column(at, table.schema.field(at), normal)
    return table


def _cell_packets(plan: WindowPlan, rows: RawRows, seq: int) -> list[Packet]:
    """Return `rows` reduced to cells, in one packet for each shard that has cells."""
    packed = lift(plan, rows)
    columns = [packed.keys.column(k).combine_chunks() for k in plan.keys]
    shard = shard_of(columns, packed.groups, plan.shards)
    shards = np.unique(shard)
    if len(shards) == 1:
        return [Packet(int(shards[0]), seq, "cells", packed.to_bytes())]
    return [Packet(int(s), seq, "cells", of_groups(packed, shard == s).to_bytes()) for s in shards]


def of_groups(packed: PackedCells, mask: np.ndarray) -> PackedCells:
    """Return the cells of the groups for which `mask` is true."""
    chosen = mask[packed.code]
    code, named = compact(packed.code[chosen], packed.groups)
    columns = [c.filter(pa.array(chosen)) for c in packed.columns]
    keys = packed.keys.take(pa.array(named))
    return PackedCells(keys, len(named), code, packed.pane[chosen], columns)
