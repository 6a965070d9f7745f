"""A stream of the arena: rows in order of arrival, the windows over them, and its epochs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

Ticks = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Change = Literal["steady", "changing"]
Split = Literal["tuning", "held out"]


@dataclass(frozen=True, eq=False)
class ArenaStream:
    """Rows in order of arrival, with event times and arrivals in ticks of one clock.

    Attributes
    ----------
    name, split
        The name of the stream, and whether policies may be tuned on it.
    change
        Whether its lateness or rate changes in the long run, as its family or its source says.
    ts, arrived, key, value
        Event times, arrivals, groups and values of the rows.
    matches
        Which rows pass the filter before the windows; the others only show that time has passed.
    range, slide, epoch
        The windows that are judged, and the time of arrival between two epochs, in ticks.
    """

    name: str
    split: Split
    change: Change
    ts: Ticks
    arrived: Ticks
    key: Ticks
    value: Floats
    matches: npt.NDArray[np.bool_]
    range: int
    slide: int
    epoch: int

    @classmethod
    def of(cls, ts: Ticks, arrived: Ticks, **given: object) -> ArenaStream:
        """Return the stream of rows in any order."""
        order = np.argsort(arrived, kind="stable")
        columns = {
            "key": np.zeros(len(ts), np.int64),
            "value": np.ones(len(ts)),
            "matches": np.ones(len(ts), bool),
            **given,
        }
        sorted_columns = {
            name: np.asarray(column)[order] if isinstance(column, np.ndarray) else column
            for name, column in columns.items()
        }
        mine = {"ts": np.asarray(ts, np.int64)[order], "arrived": np.asarray(arrived)[order]}
        return cls(**mine, **sorted_columns)  # type: ignore[arg-type]

    @cached_property
    def cuts(self) -> Ticks:
        """The ends of the epochs: of each span with rows, and of the span after it.

        A live query runs an epoch where rows have arrived, and one more for its watermark.
        """
        filled = np.unique(self.arrived // self.epoch)
        spans = np.unique(np.concatenate([filled, filled + 1]))
        return np.asarray((spans + 1) * self.epoch, np.int64)

    @cached_property
    def row_epoch(self) -> Ticks:
        """The number of the epoch of each row."""
        return np.searchsorted(self.cuts, self.arrived, side="right")

    @cached_property
    def newest(self) -> Ticks:
        """The newest time at the end of each epoch."""
        ends = np.searchsorted(self.row_epoch, np.arange(len(self.cuts)), side="right")
        running = np.maximum.accumulate(self.ts)
        return np.asarray(running[np.maximum(ends - 1, 0)], np.int64)

    def tumbling(self, range: int) -> ArenaStream:
        """Return the stream with other windows, that tumble."""
        return replace(self, range=range, slide=range)
