"""The output of dropped windows, by which a reader can distinguish gaps from empty windows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.codec import decode, encode
from lowwater.engine.entry import Entry
from lowwater.operators.packet import Packet
from lowwater.operators.window.plan import NAME, WindowPlan
from lowwater.shedding.drop_geometry import window_runs
from lowwater.shedding.shed_memory import DroppedInterval

CLASS = "class"
"""The column with the class of groups whose window was dropped; NULL for all groups."""
REASONS = {
    "share": "share= was given",
    "latency": "the load was too high",
    "memory": "the state was too large",
    "closed": "the query was shut down: its bound could not be met",
}


def dropped_packets(before: Entry) -> list[Packet]:
    """Return the drops that became final in the previous epoch, as a list of one packet or none."""
    news = () if before.shed is None else before.shed.news
    return [Packet(0, 0, "shed", json.dumps(encode(news)).encode())] if news else []


def shed_schema(plan: Any, fair_by: str | None = None) -> pa.Schema:
    """Return the schema of the `dropped` output; empty for a plan without windows.

    If windows are dropped by the key `fair_by`, the column `class` has the class of its values.
    """
    if not isinstance(plan, WindowPlan):
        return pa.schema([])
    named = [pa.field(NAME, pa.string())] if plan.several else []
    numbers = [pa.field(name, pa.float64()) for name in ("share", "load")]
    window = plan.result_schema.field("window"), pa.field("wid", pa.int64())
    fair = [] if fair_by is None else [pa.field(CLASS, pa.int64())]
    return pa.schema([*window, *named, *fair, pa.field("reason", pa.string()), *numbers])


def shed_rows(
    plan: Any, operator: int, packets: Sequence[Packet], fair_by: str | None = None
) -> list[pa.Table]:
    """Return tables of an operator's dropped windows, read from the packets of an epoch."""
    if not isinstance(plan, WindowPlan):
        return []
    written = [one for p in packets if p.kind == "shed" for one in json.loads(p.payload)]
    intervals = (decode(DroppedInterval, one) for one in written)
    mine = (one for one in intervals if one.operator in {None, operator})
    return [table for one in mine for table in _windows(plan, one, fair_by)]


def _windows(plan: WindowPlan, dropped: DroppedInterval, fair_by: str | None) -> Iterator[pa.Table]:
    """Yield the windows of a dropped interval, as one table per sequence of consecutive wids."""
    schema = shed_schema(plan, fair_by)
    fair = () if fair_by is None else (dropped.number,)
    reason = REASONS[dropped.reason]
    if fair_by is None and dropped.number is not None:
        reason = f"{reason}, for the groups of class {dropped.number}"
    why = (*fair, reason, dropped.share, dropped.load)
    for name, window in plan.fixed_windows:
        for first, end in window_runs(window, ((dropped.start, dropped.end),)):
            wid = np.arange(first, end)
            bounds = [plan.bounds.from_ticks(at) for at in (window.start(wid), window.end(wid))]
            column = pa.StructArray.from_arrays(bounds, fields=list(schema.field("window").type))
            same = (name, *why) if plan.several else why
            kinds = schema.types[2:]
            rest = [
                pa.repeat(pa.scalar(value, kind), len(wid))
                for value, kind in zip(same, kinds, strict=True)
            ]
            yield pa.table([column, pa.array(wid), *rest], schema=schema)
