"""What is seen of a run: its results as they come, and where it stands after each epoch."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa

import lowwater as lw
from lowwater.durations import instant
from lowwater.windows import FOREVER

_RATE_SECONDS = 5.0
_RECENT_WINDOWS = 40

Line = dict[str, tuple[int, float]]
"""Flights and mean delay by airport, of one window."""


@dataclass
class Journal:
    """The results of each epoch, and the status and the wall clock when it was first seen."""

    results: dict[int, pa.Table] = field(default_factory=dict)
    epochs: dict[int, lw.Status] = field(default_factory=dict)
    walls: dict[int, float] = field(default_factory=dict)
    recent: dict[datetime, Line] = field(default_factory=dict)
    mark: datetime | None = None

    def take(self, epoch: int, rows: pa.Table) -> None:
        """Take the results of an epoch; called by the sink, in a thread of its own."""
        self.results[epoch] = rows
        windows = {start: dict(line) for start, line in self.recent.items()}
        for row in rows.to_pylist():
            line = windows.setdefault(row["window"]["start"], {})
            line[row["origin"]] = (row["flights"], row["delay"])
        newest = sorted(windows)[-_RECENT_WINDOWS:]
        # Assigned whole: the screen reads it meanwhile.
        self.recent = {start: windows[start] for start in newest}

    def note(self, status: lw.Status) -> None:
        """Take down where the query stands."""
        if status.epoch in self.epochs or status.epoch < 0:
            return
        self.epochs[status.epoch] = status
        self.walls[status.epoch] = time.monotonic()
        if status.mark is not None and status.mark < FOREVER:
            self.mark = instant(status.mark)

    @property
    def status(self) -> lw.Status | None:
        """Where the query stood when it was last looked at."""
        return self.epochs[max(self.epochs)] if self.epochs else None

    def count(self, name: str) -> int:
        """Return one of the counts: "in", "late", "partly_late", "results"."""
        return self.status.counts.get(name, 0) if self.status else 0

    @property
    def newest(self) -> datetime | None:
        """The newest event time."""
        return (
            None
            if self.status is None or self.status.newest is None
            else instant(self.status.newest)
        )

    @property
    def ended(self) -> bool:
        """Whether the stream has ended and every window is closed."""
        return self.status is not None and self.status.ended and not self.status.cells

    def rate(self) -> float:
        """Return rows per second of wall time, over the last seconds."""
        now = time.monotonic()
        before = [e for e, wall in self.walls.items() if wall < now - _RATE_SECONDS]
        rows = self.epochs[max(before)].counts["in"] if before else 0
        began = now - _RATE_SECONDS if before else min(self.walls.values(), default=now)
        return (self.count("in") - rows) / max(now - began, 0.5)

    def table(self, schema: pa.Schema) -> pa.Table:
        """Return all results."""
        return pa.concat_tables([schema.empty_table(), *self.results.values()])

    def epoch_seconds(self) -> float:
        """Return the median time of an epoch by the wall clock."""
        walls = [self.walls[e] for e in sorted(self.walls)]
        return float(np.median(np.diff(walls))) if len(walls) > 1 else 0.0

    def waits(self, arrivals: pd.Series[pd.Timestamp]) -> pd.Series[pd.Timedelta]:
        """Return how long after its window's end each result came, on the stream's own clock.

        That clock stands at the arrival of the last row that the result's epoch read. Results that
        only the end of the stream brought out are not counted: they waited for nothing.
        """
        order = arrivals.sort_values(ignore_index=True)
        closing = min((e for e, s in self.epochs.items() if s.ended), default=None)
        waits = [
            order.iloc[self._rows_read(epoch) - 1] - _ends(rows)
            for epoch, rows in self.results.items()
            if closing is None or epoch <= closing
        ]
        return pd.concat(waits, ignore_index=True) if waits else order.diff().iloc[:0]

    def _rows_read(self, epoch: int) -> int:
        noted = min(e for e in self.epochs if e >= epoch)
        return int(self.epochs[noted].counts["in"])


def _ends(rows: pa.Table) -> pd.Series[pd.Timestamp]:
    windows = rows.column("window").combine_chunks()
    ends: pd.Series[pd.Timestamp] = windows.field("end").to_pandas()
    return ends
