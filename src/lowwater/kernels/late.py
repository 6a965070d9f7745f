"""How late a row was, settled once all blocks of its epoch are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lowwater.kernels.operators import OperatorPlan
from lowwater.kernels.packets import Packet, measures_of, start_of, table_of


def late_tables(
    plan: OperatorPlan, port: int, packets: Sequence[Packet], measures: Sequence[Packet]
) -> list[pa.Table]:
    """Return the late rows of a port in an epoch, in arrival order, their late degrees settled.

    Blocks are ingested side by side, so each knows only the rows before the epoch and its own; here
    the newest time of the blocks before it is known as well (semantics 25).
    """
    found = sorted(packets, key=lambda p: (p.seq, p.shard))
    measured = [(p.seq, measures_of(p).get("newest")) for p in measures] if found else []
    return [
        _settled(
            plan,
            port,
            table_of(p),
            [n for seq, n in measured if n is not None and _before(seq, p.seq)],
        )
        for p in found
    ]


def _before(earlier: int, seq: int) -> bool:
    """Say whether a block of the same input came earlier."""
    return earlier < seq and start_of(earlier) == start_of(seq)


def _settled(plan: OperatorPlan, port: int, rows: pa.Table, newest: list[int]) -> pa.Table:
    if not newest:
        return rows
    at = len(plan.schemas[port])
    axis = plan.axes[port]
    ticks, _ = axis.to_ticks(rows.column(axis.column))
    degree = np.maximum(np.asarray(rows.column(at)), max(newest) - ticks)
    return rows.set_column(at, rows.schema.field(at), pa.array(degree))
