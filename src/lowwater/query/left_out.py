"""The windows that were left out, as rows: a gap is never mistaken for an empty window."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.control import Entry
from lowwater.control.controller import SHED
from lowwater.kernels import Packet, WindowPlan
from lowwater.kernels.plan import NAME
from lowwater.shedding.reaching import window_runs
from lowwater.windows import Shared, Sliding

REASONS = {
    "p": "p was given",
    "latency": "the load was too high",
    "closed": "the query was shut down: its bound could not be met",
}


def told(before: Entry) -> list[Packet]:
    """Return what an epoch has to tell of windows left out: those that had begun when it began."""
    news = before.prodding.get(SHED, {}).get("news")
    return [Packet(0, 0, "shed", json.dumps(news).encode())] if news else []


def shed_schema(plan: Any) -> pa.Schema:
    """Return the columns of a window that was left out; nothing where there are no windows."""
    if not isinstance(plan, WindowPlan):
        return pa.schema([])
    named = [pa.field(NAME, pa.string())] if plan.several else []
    said = [pa.field("reason", pa.string()), *(pa.field(n, pa.float64()) for n in ("p", "load"))]
    window = plan.result_schema.field("window")
    return pa.schema([window, pa.field("wid", pa.int64()), *named, *said])


def shed_rows(plan: Any, operator: int, packets: Sequence[Packet]) -> list[pa.Table]:
    """Return the windows of an operator that an epoch tells were left out."""
    if not isinstance(plan, WindowPlan):
        return []
    found = []
    for packet in packets:
        if packet.kind == "shed":
            for *stretch, p, load, why, closed in json.loads(packet.payload):
                if closed is None or closed == operator:
                    found += list(_windows(plan, tuple(stretch), (REASONS[why], p, load)))
    return found


def _windows(
    plan: WindowPlan, stretch: tuple[int, int], why: tuple[str, float, float]
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
