"""Batches of rows on the way to an operator, and the hidden columns of these rows.

Two classes besides `Batch` hold rows with their ticks. `RawRows` is the input of accumulators,
because the package `aggregates` does not import operators. `StoredRows` holds rows in state: its
table has the ticks as a column, so one write stores both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lowwater.control.watermark import Watermarks

TICK = "__tick"
"""The time of the row in ticks."""
LATE_DEGREE = "__late_degree"
"""The late degree of the row in ticks: its distance behind the newest time that had arrived."""
KEPT = "__kept"
"""Whether the row has passed all filters; ingest removes the other rows after measuring times."""
BEHIND = "__behind"
"""The watermark in force when a held row arrived."""
STRETCH = "__stretch"
"""The number of the held interval that the row belongs to."""
DEAD = "__dead"
"""Whether the row misses all its windows, even open ones, under consistent slack."""


def without_hidden(table: pa.Table) -> pa.Table:
    """Return `table` without the hidden columns that rows have at a port."""
    hidden = [c for c in (TICK, LATE_DEGREE, DEAD, BEHIND) if c in table.column_names]
    return table.drop_columns(hidden)


@dataclass(frozen=True)
class Batch:
    """A batch of rows on a route or at a port: element i of each array belongs to row i.

    `ticks` are the times of the rows, and `degree` their late degrees. `fault` is 0 for a row with
    a readable time, otherwise the number of its fault. `seq` is the batch's place in arrival order.
    `own` are the watermarks that decide under consistent slack: a row behind them misses all its
    windows, whatever watermark is in force at the port. For rows that were held, `behind` is the
    watermark that was in force when the row arrived. `lines` has the texts of malformed rows, and
    the reasons of those whose lines could not be read; None if no text is known.
    """

    table: pa.Table
    ticks: np.ndarray
    degree: np.ndarray
    fault: np.ndarray
    seq: int
    own: Watermarks | None = None
    behind: np.ndarray | None = None
    lines: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.ticks)

    @property
    def sound(self) -> np.ndarray:
        """A mask of the rows with a readable time."""
        return np.asarray(self.fault == 0)

    def keep(self, mask: np.ndarray) -> Batch:
        """Return the batch with only the rows in `mask`."""
        if mask.all():
            return self
        return replace(
            self,
            table=self.table.filter(pa.array(mask)),
            ticks=self.ticks[mask],
            degree=self.degree[mask],
            fault=self.fault[mask],
            behind=None if self.behind is None else self.behind[mask],
            lines=None if self.lines is None else self.lines.filter(pa.array(mask)),
        )
