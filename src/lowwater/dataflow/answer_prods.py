"""Answers to prods: the results that an operator would emit if its streams ended now.

The kernel runs a second time, on its state after the epoch and on the provisional results of the
upstream operators, as if the watermarks of the prod were in force. The changes of state are
discarded. So no provisional value is stored, and an early result is computed exactly like a final.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.control.completeness import Completeness
from lowwater.control.message import ControlMessage
from lowwater.control.prod import Prod
from lowwater.control.watermark import Watermarks
from lowwater.dataflow.graph import Dataflow, Operator
from lowwater.operators.group_codes import compact
from lowwater.operators.kernel import META, StateOverlay
from lowwater.operators.operator import ROWS, OperatorPlan
from lowwater.operators.packet import Kind, Packet
from lowwater.operators.window.plan import WindowPlan
from lowwater.windows.axis import Axis

PROVISIONAL: dict[Kind, Kind] = {"cells": "early cells", "rows": "early rows", "ends": "early ends"}
"""Maps each kind of data packet to its provisional kind, which only answers to prods use."""
_ACTUAL: dict[Kind, Kind] = {early: kind for kind, early in PROVISIONAL.items()}


def state_for_answer(
    flow: Dataflow, number: int, state: Mapping[str, bytes], prods: Sequence[Prod]
) -> Mapping[str, bytes]:
    """Return `state` with all windows before the requested windows marked as emitted.

    Otherwise the answer would compute every window that still waits for late rows.
    """
    plan, asked = flow.operators[number].plan, [p for p in prods if p.asks(number)]
    lays_out = isinstance(plan, WindowPlan) and plan.laid_out and flow.only_leaves(number)
    in_turn = not (getattr(plan, "ranged", False) or getattr(plan, "sidelined", False))
    since = [p.since for p in asked if p.since is not None]
    if not (lays_out and in_turn) or not since or len(since) < len(asked) or META not in state:
        return state
    meta = json.loads(state[META])
    emitted = Watermarks.from_json(meta["marks"]).raised(Watermarks(min(since)))
    return StateOverlay(state, {META: json.dumps({**meta, "marks": emitted.to_json()}).encode()})


def actual(packets: Sequence[Packet]) -> list[Packet]:
    """Return the packets that are not provisional."""
    return [p for p in packets if p.kind not in _ACTUAL]


def provisional(packets: Sequence[Packet]) -> list[Packet]:
    """Return the data packets among `packets`, relabelled as provisional."""
    return [replace(p, kind=PROVISIONAL[p.kind]) for p in packets if p.kind in PROVISIONAL]


def prod_in(packets: Sequence[Packet]) -> ControlMessage | None:
    """Return the first control message with prods; None if no message has prods."""
    messages = (ControlMessage.from_bytes(p.payload) for p in packets if p.kind == "control")
    return next((message for message in messages if message.prods), None)


def as_if_ended(packets: Sequence[Packet]) -> list[Packet]:
    """Return the packets from which a kernel answers prods: provisional data and watermarks."""
    data = [replace(p, kind=_ACTUAL[p.kind]) for p in packets if p.kind in _ACTUAL]
    control = [(p, ControlMessage.from_bytes(p.payload)) for p in packets if p.kind == "control"]
    as_if = ((p, ControlMessage(c.as_if).to_bytes()) for p, c in control if c.prods)
    return [*data, *(replace(p, payload=payload) for p, payload in as_if)]


def matched(
    operator: Operator, number: int, rows: pa.Table, prods: Sequence[Prod]
) -> tuple[np.ndarray, dict[int, int]]:
    """Return a mask of the rows that `prods` request, and {number of a prod: count of its rows}."""
    wanted = np.zeros(len(rows), bool)
    matches: dict[int, int] = {}
    for prod in prods:
        if prod.asks(number):
            mine = _within(operator, rows, prod) & _of_groups(rows, prod.where)
            wanted |= mine
            matches[prod.number] = int(mine.sum())
    return wanted, matches


def window_ends(operator: Operator, rows: pa.Table, chosen: np.ndarray) -> tuple[int, ...]:
    """Return the window ends of the rows in the mask `chosen`, if they are known in advance."""
    if not chosen.any() or not operator.plan.scheduled_windows:
        return ()
    return tuple(np.unique(_ends(operator, rows)[chosen]).tolist())


def _within(operator: Operator, rows: pa.Table, prod: Prod) -> np.ndarray:
    """Return a mask of the rows in the interval of time that `prod` requests."""
    inside = np.ones(len(rows), bool)
    if prod.since is not None:
        inside &= _ends(operator, rows) > prod.since
    if prod.upto is not None:
        inside &= _ends(operator, rows) <= prod.upto
    return inside


def _ends(operator: Operator, rows: pa.Table) -> np.ndarray:
    """Return the window end of each result in ticks; for rows without windows, their time."""
    if isinstance(operator.plan, WindowPlan):
        return window_ticks(rows)[1]
    axis = operator.times[0]
    ticks, _ = axis.to_ticks(rows.column(axis.column))
    return ticks


def _of_groups(rows: pa.Table, where: Mapping[str, str | None]) -> np.ndarray:
    """Return a mask of the rows that have the column values in `where`."""
    mask = np.ones(len(rows), bool)
    for name, value in where.items():
        column = rows.column(name)
        same = (
            pc.is_null(column)
            if value is None
            else pc.equal(column, pa.scalar(value).cast(column.type)).fill_null(False)
        )
        mask &= same.combine_chunks().to_numpy(zero_copy_only=False)
    return mask


def labelled(rows: pa.Table) -> pa.Table:
    """Return `rows` with "early" in the column `kind`, if they have this column."""
    if "kind" not in rows.column_names:
        return rows
    at = rows.column_names.index("kind")
    return rows.set_column(at, "kind", pa.repeat(pa.scalar("early"), len(rows)))


def bare(rows: pa.Table) -> pa.Table:
    """Return early results without the hidden column `ROWS`, the number of rows per result."""
    return rows.drop_columns([ROWS]) if ROWS in rows.column_names else rows


def completeness(
    plan: OperatorPlan, rows: pa.Table, arrived: Completeness | None
) -> np.ndarray | None:
    """Return the expected share of each window's rows that have arrived; None if it is unknown."""
    if arrived is None or not plan.spreads_rows:
        return None
    start, end = window_ticks(rows)
    # The share is computed once per window, not per group.
    starts, nth_start = np.unique(start, return_inverse=True)
    ends, nth_end = np.unique(end, return_inverse=True)
    which, pair = compact(nth_start * len(ends) + nth_end, len(starts) * len(ends))
    shares = arrived.completeness(starts[pair // len(ends)], ends[pair % len(ends)])
    return np.asarray(shares[which])


def window_ticks(rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return (starts, ends) of the results' windows, in ticks."""
    window = rows.column("window").combine_chunks()
    start, end = (_ticks(pc.struct_field(window, name)) for name in ("start", "end"))
    return start, end


def _ticks(column: pa.Array) -> np.ndarray:
    """Return window bounds in ticks; a NULL start becomes a tick before all rows."""
    ticks, valid = Axis("bound", column.type).to_ticks(column)
    return ticks if valid.all() else np.where(valid, ticks, np.iinfo(np.int64).min // 4)


def completed(plan: OperatorPlan, rows: pa.Table, share: np.ndarray | None) -> pa.Table:
    """Return results extrapolated from the arrived `share` of a window's rows to all its rows."""
    if share is None:
        return rows
    for name, aggregate in plan.named_aggregates.items():
        at = rows.column_names.index(name)
        expected = aggregate.extrapolate(rows.column(at).combine_chunks(), share)
        rows = rows.set_column(at, rows.schema.field(at), expected)
    return rows
