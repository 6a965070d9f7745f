"""Late rows: their columns and their late degrees.

A late row has the columns of the row that arrived, then `late_degree`, then (only at a window
operator) columns about the missed windows, then `admitted`: whether some results contain the row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lowwater.control.measures import InputMeasure
from lowwater.operators.batch import LATE_DEGREE
from lowwater.operators.operator import OperatorPlan
from lowwater.operators.packet import Packet, measure_of, start_of, table_of


def late_schema(schema: pa.Schema, more: Sequence[pa.Field] = ()) -> pa.Schema:
    """Return the columns of a late row, with `more` between `late_degree` and `admitted`.

    >>> late_schema(pa.schema([("admitted", pa.int64())])).names
    ['admitted', 'late_degree', 'admitted_']
    """
    degree, admitted = pa.field("late_degree", pa.int64()), pa.field("admitted", pa.bool_())
    added = [f.with_name(free(f.name, schema.names)) for f in (degree, *more, admitted)]
    return pa.schema([*schema, *added])


def free(name: str, taken: Sequence[str], suffix: str = "_") -> str:
    """Return `name`, with `suffix` appended until the name is not in `taken`."""
    while name in taken:
        name += suffix
    return name


def late_rows(
    schema: pa.Schema, rows: pa.Table, admitted: np.ndarray, more: Sequence[pa.Array] = ()
) -> pa.Table:
    """Return `rows` as late rows of `schema`; `more` are the columns about missed windows."""
    own = [rows.column(name) for name in schema.names[: len(schema) - len(more) - 2]]
    return pa.table([*own, rows.column(LATE_DEGREE), *more, pa.array(admitted)], schema=schema)


def late_tables(
    plan: OperatorPlan, port: int, packets: Sequence[Packet], measures: Sequence[Packet]
) -> list[pa.Table]:
    """Return the late rows of a port in an epoch, in arrival order, with their final late degrees.

    Blocks are ingested in parallel, so ingest computes a late degree only from rows of earlier
    epochs and of the row's own block. This function also uses the newest times of the earlier
    blocks of the epoch.
    """
    blocks = [(p.seq, measure_of(p)) for p in measures] if packets else []
    known = [
        (start_of(seq), seq, block.newest)
        for seq, block in blocks
        if isinstance(block, InputMeasure) and block.newest is not None
    ]
    late = []
    for packet in sorted(packets, key=lambda p: (p.seq, p.shard)):
        start, end = start_of(packet.seq), packet.seq
        earlier = [tick for block, seq, tick in known if block == start and seq < end]
        late.append(_with_degrees(plan, port, table_of(packet), earlier))
    return late


def _with_degrees(plan: OperatorPlan, port: int, rows: pa.Table, newest: list[int]) -> pa.Table:
    """Return `rows`; a late degree below the row's distance behind max(newest) is raised to it."""
    if not newest:
        return rows
    at = len(plan.schemas[port])
    axis = plan.axes[port]
    ticks, _ = axis.to_ticks(rows.column(axis.column))
    degree = np.maximum(np.asarray(rows.column(at)), max(newest) - ticks)
    return rows.set_column(at, rows.schema.field(at), pa.array(degree))
