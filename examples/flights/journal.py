"""The record of a run: its results as they are emitted, and its status after each epoch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa

import lowwater as lw

_RECENT_WINDOWS = 40

Line = dict[str, tuple[int, float]]
"""Flights and mean delay by airport, of one window."""


@dataclass
class Journal:
    """The results of each epoch, and the status and the wall clock after it."""

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
        """Note the status of the query."""
        if status.epoch < 0:
            return
        self.epochs[status.epoch] = status
        self.walls.setdefault(status.epoch, time.monotonic())
        self.mark = status.watermark or self.mark

    @property
    def status(self) -> lw.Status | None:
        """The newest status of the query."""
        return self.epochs[max(self.epochs)] if self.epochs else None

    def count(self, name: str) -> int:
        """Return one of the counts: "in", "late", "partly_late", "results"."""
        return self.status[name] if self.status else 0

    @property
    def newest(self) -> datetime | None:
        """The newest event time."""
        return self.status.newest if self.status else None

    @property
    def rate(self) -> float:
        """Rows per second of wall time, in the newest epoch that had some."""
        rates = (self.epochs[e].rows_per_second for e in sorted(self.epochs, reverse=True))
        return next((r for r in rates if r), 0.0)

    @property
    def ended(self) -> bool:
        """Whether the stream has ended and every window is closed."""
        return self.status is not None and self.status.ended and not self.status.cells

    def table(self, schema: pa.Schema) -> pa.Table:
        """Return all results."""
        return pa.concat_tables([schema.empty_table(), *self.results.values()])

    def epoch_seconds(self) -> float:
        """Return the median time of an epoch by the wall clock."""
        walls = [self.walls[e] for e in sorted(self.walls)]
        return float(np.median(np.diff(walls))) if len(walls) > 1 else 0.0

    def cuts(self) -> dict[int, int]:
        """Return how many rows had been read at the end of each epoch, to the last that had any."""
        total = self.count("in")
        last = min(e for e, status in self.epochs.items() if status["in"] == total)
        return {e: self.epochs[e]["in"] for e in sorted(self.epochs) if e <= last}


def waits(
    results: Mapping[int, pa.Table], cuts: Mapping[int, int], arrivals: pd.Series[pd.Timestamp]
) -> pd.Series[pd.Timedelta]:
    """Return how long after its window's end each result came, by the stream's own clock.

    That clock stands at the arrival of the last row that the result's epoch has read. Results of
    later epochs, which only the end of the stream closed, did not wait.
    """
    found = []
    for epoch, rows in results.items():
        read = min((e for e in cuts if e >= epoch), default=None)
        if read is not None:
            ends = rows.column("window").combine_chunks().field("end").to_pandas()
            found.append(arrivals.iloc[cuts[read] - 1] - ends)
    return pd.concat(found, ignore_index=True) if found else arrivals.diff().iloc[:0]
