"""Observers of the window kernel: they count rows in closed windows, and rows that missed windows.

The quality tracker computes the share of lost rows from both counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lowwater.aggregates.accumulators.values import spread
from lowwater.control.measures import NeededSlack, ShardMeasure
from lowwater.control.watermark import SourceKey
from lowwater.operators.group_codes import group_values
from lowwater.operators.packet import Packet
from lowwater.operators.window.close import ClosedWindows
from lowwater.operators.window.plan import WindowPlan

K = TypeVar("K")
Tally = list[tuple[K, int]]
"""Pairs (key, number of rows); the key is a window id or a source."""


class Observer:
    """A window observer that measures nothing."""

    changes: Mapping[str, bytes | None] = MappingProxyType({})
    """The changes of the state that only the observer reads."""
    needed: Sequence[NeededSlack] = ()
    """The slacks that results needed."""

    def receive(self, packets: Sequence[Packet]) -> None:
        """Receive the packets of the epoch. Called first."""

    def missed(self, first: np.ndarray, end: np.ndarray, rows: pa.Table) -> None:
        """Called at admission: row i of `rows` missed the windows `first[i] <= wid < end[i]`."""

    def closed(self, windows: ClosedWindows, keys: pa.Table) -> None:
        """Called before `windows` are emitted; row i of `keys` is the group with code i."""

    def observed(self, measure: ShardMeasure, passed: int | None) -> ShardMeasure:
        """Return the measurement of the epoch with the counts of the observer. Called last.

        `passed` is the watermark after the epoch.
        """
        return measure


class LossCount(Observer):
    """An observer that counts the rows in closed windows, and the rows that missed windows.

    With `plan.tracked` "windows", it counts rows by the end of their window. With "rows", it counts
    rows in total; the key is then any window's id. If sources close groups, it also counts rows by
    source.
    """

    def __init__(self, plan: WindowPlan) -> None:
        self.plan = plan
        self.windows: dict[str, Tally[int]] = {"closed": [], "missed": []}
        self.sources: dict[str, Tally[SourceKey]] = {"closed": [], "missed": []}

    def observed(self, measure: ShardMeasure, passed: int | None) -> ShardMeasure:
        """Return the measurement with the counts by window and by source."""
        del passed
        return replace(
            measure,
            closed=tuple(self.windows["closed"]),
            missed=tuple(self.windows["missed"]),
            closed_of=tuple(self.sources["closed"]),
            missed_of=tuple(self.sources["missed"]),
        )

    def closed(self, windows: ClosedWindows, keys: pa.Table) -> None:
        """Count the rows of the closed windows, over all groups."""
        rows = windows.rows
        if self.plan.sources_close_groups:
            by_group = np.bincount(windows.code, rows, minlength=len(keys))
            self.sources["closed"] += self._by_source(keys, by_group)
        if self.plan.tracked == "windows":
            self.windows["closed"] += self._by_end(windows.wid, rows)
        else:
            self.windows["closed"].append((int(windows.wid[0]), int(rows.sum())))

    def missed(self, first: np.ndarray, end: np.ndarray, rows: pa.Table) -> None:
        """Count the rows that missed windows: a row counts once for every missed window."""
        if self.plan.sources_close_groups:
            self.sources["missed"] += self._by_source(rows, end - first)
        if self.plan.tracked == "windows":
            wid, _ = spread(first, end)
            self.windows["missed"] += self._by_end(wid, np.ones_like(wid))
        else:
            self.windows["missed"].append((int(first[0]), int((end - first).sum())))

    def _by_end(self, wid: np.ndarray, rows: np.ndarray) -> Tally[int]:
        """Return pairs (end of window, sum of `rows`) for each window id."""
        end = self.plan.positioned.end
        return [(int(end(w)), n) for w, n in _by_window(wid, rows)]

    def _by_source(self, table: pa.Table, rows: np.ndarray) -> Tally[SourceKey]:
        """Return pairs (source, sum of `rows`) for each source in `table`."""
        codes, names = group_values(table.column(self.plan.source))
        counts = np.bincount(codes, rows, minlength=len(names)).tolist()
        return [(name, int(n)) for name, n in zip(names, counts, strict=True) if n]


def _by_window(wid: np.ndarray, rows: np.ndarray) -> Tally[int]:
    """Return pairs (wid, sum of `rows`) for each window id."""
    if not len(wid):
        return []
    first = int(wid.min())
    if int(wid.max()) - first > 4 * len(wid):  # windows far apart
        distinct, place = np.unique(wid, return_inverse=True)
        counts = np.bincount(place, rows)
    else:
        counts = np.bincount(wid - first, rows)
        distinct = first + np.flatnonzero(counts)
        counts = counts[distinct - first]
    return [(w, int(n)) for w, n in zip(distinct.tolist(), counts.tolist(), strict=True)]
