"""Rows on their way to an operator: a batch, and the hidden columns that travel with its rows.

Two classes besides `Batch` hold rows with their ticks, each for a reason: `RawRows` (aggregates)
is the input of accumulators, which lie below operators; `StoredRows` (row_store) holds rows in
state, whose table carries the ticks so that both are written as one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lowwater.control.watermark import Watermarks

TICK = "__tick"
"""The row's time on the attribute of the port, in ticks."""
LATE_DEGREE = "__late_degree"
"""How far the row is behind the newest row that arrived before it (semantics 25)."""
KEPT = "__kept"
"""Whether the row has passed the filters so far; it may be dropped once progress is measured."""
BEHIND = "__behind"
"""For a row that was held: the watermark that was in force when it arrived."""
STRETCH = "__stretch"
"""The number of the held interval that the row belongs to."""
DEAD = "__dead"
"""Whether the row is late whatever is still open (consistent slack)."""


def without_hidden(table: pa.Table) -> pa.Table:
    """Return rows as the operator's user knows them, without the hidden columns of a port."""
    hidden = [c for c in (TICK, LATE_DEGREE, DEAD, BEHIND) if c in table.column_names]
    return table.drop_columns(hidden)


@dataclass(frozen=True)
class Batch:
    """Rows on a route or at a port: element i of each array belongs to row i.

    `ticks` are the times of the rows and `degree` their late degrees. `fault` is 0 for a row with a
    readable time, otherwise the number of its fault. `seq` is the batch's place in arrival order.
    `own` are the watermarks that consistent slack judges by: a row behind them misses all its
    windows, whatever watermark is in force at the port. `behind` is set for rows that were held:
    the watermark in force when each arrived.
    """

    table: pa.Table
    ticks: np.ndarray
    degree: np.ndarray
    fault: np.ndarray
    seq: int
    own: Watermarks | None = None
    behind: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ticks)

    @property
    def sound(self) -> np.ndarray:
        """Which rows have a readable time."""
        return np.asarray(self.fault == 0)

    def keep(self, mask: np.ndarray) -> Batch:
        """Return the rows in `mask`."""
        if mask.all():
            return self
        return replace(
            self,
            table=self.table.filter(pa.array(mask)),
            ticks=self.ticks[mask],
            degree=self.degree[mask],
            fault=self.fault[mask],
            behind=None if self.behind is None else self.behind[mask],
        )
