"""Dropped windows as rows of an output: a gap is never mistaken for an empty window."""

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
from lowwater.shedding.shedder import DroppedInterval
from lowwater.windows.common_panes import Shared
from lowwater.windows.sliding import Sliding

REASONS = {
    "share": "share= was given",
    "latency": "the load was too high",
    "closed": "the query was shut down: its bound could not be met",
}


def told(before: Entry) -> list[Packet]:
    """Return the packet of dropped windows that had begun when the epoch began."""
    news = () if before.shed is None else before.shed.news
    return [Packet(0, 0, "shed", json.dumps(encode(news)).encode())] if news else []


def shed_schema(plan: Any) -> pa.Schema:
    """Return the columns of a dropped window; none for a plan without windows."""
    if not isinstance(plan, WindowPlan):
        return pa.schema([])
    named = [pa.field(NAME, pa.string())] if plan.several else []
    numbers = [pa.field(name, pa.float64()) for name in ("share", "load")]
    said = [pa.field("reason", pa.string()), *numbers]
    window = plan.result_schema.field("window")
    return pa.schema([window, pa.field("wid", pa.int64()), *named, *said])


def shed_rows(plan: Any, operator: int, packets: Sequence[Packet]) -> list[pa.Table]:
    """Return the dropped windows of an operator among the packets of an epoch."""
    if not isinstance(plan, WindowPlan):
        return []
    found = []
    for packet in packets:
        if packet.kind == "shed":
            for written in json.loads(packet.payload):
                one = decode(DroppedInterval, written)
                if one.operator is None or one.operator == operator:
                    why = (REASONS[one.reason], one.share, one.load)
                    found += list(_windows(plan, (one.start, one.end), why))
    return found


def _windows(
    plan: WindowPlan, stretch: tuple[int, int], why: tuple[str, float, float | None]
) -> Iterator[pa.Table]:
    schema, spec = shed_schema(plan), plan.spec
    for name, window in spec.named if isinstance(spec, Shared) else (("", spec),):
        assert isinstance(window, Sliding)  # noqa: S101
        for first, end in window_runs(window, (stretch,)):
            wid = np.arange(first, end)
            bounds = [plan.bounds.from_ticks(at) for at in (window.start(wid), window.end(wid))]
            held = pa.StructArray.from_arrays(bounds, fields=list(schema.field("window").type))
            named = [pa.repeat(pa.scalar(name), len(wid))] if plan.several else []
            said = [pa.repeat(pa.scalar(value), len(wid)) for value in why]
            yield pa.table([held, pa.array(wid), *named, *said], schema=schema)
