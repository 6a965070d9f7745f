"""How late a row was, settled once all blocks of its epoch are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lowwater.kernels.packets import Packet, measures_of, table_of
from lowwater.kernels.plan import WindowPlan


def late_tables(plan: WindowPlan, packets: Sequence[Packet]) -> list[pa.Table]:
    """Return the late rows of an epoch, in arrival order, their late degrees settled.

    Blocks are ingested side by side, so each knows only the rows before the epoch and its own; here
    the newest time of the blocks before it is known as well (semantics 25).
    """
    found = sorted((p for p in packets if p.kind == "late"), key=lambda p: (p.seq, p.shard))
    if not found:
        return []
    measured = [(p.seq, measures_of(p).get("newest")) for p in packets if p.kind == "measure"]
    return [
        _settled(plan, table_of(p), [n for seq, n in measured if n is not None and seq < p.seq])
        for p in found
    ]


def _settled(plan: WindowPlan, rows: pa.Table, newest: list[int]) -> pa.Table:
    if not newest:
        return rows
    at = len(plan.schema)
    ticks, _ = plan.axis.to_ticks(rows.column(plan.axis.column))
    degree = np.maximum(np.asarray(rows.column(at)), max(newest) - ticks)
    return rows.set_column(at, rows.schema.field(at), pa.array(degree))
