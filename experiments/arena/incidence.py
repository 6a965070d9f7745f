"""Rows in their windows, and the slack with which each row would reach each of its windows in time.

The watermark that is decided after epoch m is the newest time minus the slack. It closes windows
at the end of epoch m + 1, after the rows of that epoch. So a row of epoch i reaches a window that
ends at e if no watermark decided up to epoch i - 2 was at or past e: if the slack is more than the
newest time after epoch i - 2 minus e. That is the *needed* slack of the row for this window. It is
the same for all rows of an epoch and a window, so these are counted together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.arena.stream import ArenaStream, Ticks

NONE_NEEDED = np.int64(0)
DELAY = 2
"""The number of epochs from a newest time to the rows that its watermark makes late."""


@dataclass(frozen=True, eq=False)
class Incidences:
    """The pairs of an epoch and a window with rows, by epoch; `count` rows each.

    `window` counts from the first window that holds a row; `ends` are the ends of these windows,
    and `rows` the number of rows of each. `needed` is the slack that the rows need for the window.
    """

    ends: Ticks
    rows: Ticks
    window: Ticks
    epoch: Ticks
    needed: Ticks
    count: Ticks

    @classmethod
    def of(cls, stream: ArenaStream) -> Incidences:
        """Return all incidences of a stream."""
        number, epoch = _pairs(stream)
        ids, window = np.unique(number, return_inverse=True)
        places, count = np.unique(epoch * len(ids) + window, return_counts=True)
        epoch, window = np.divmod(places, len(ids))
        ends = ids * stream.slide + stream.range
        past = stream.newest[np.maximum(epoch - DELAY, 0)] - ends[window] + 1
        needed = np.where(epoch >= DELAY, np.maximum(past, NONE_NEEDED), NONE_NEEDED)
        rows = np.bincount(window, count).astype(np.int64)
        return cls(ends, rows, window, epoch, needed, count)


def _pairs(stream: ArenaStream) -> tuple[Ticks, Ticks]:
    """Return the number of each window of each row that passes the filter, and the row's epoch."""
    ts, epoch = stream.ts[stream.matches], stream.row_epoch[stream.matches]
    per_row = -(-stream.range // stream.slide)
    last = ts // stream.slide
    number = (last[:, None] - np.arange(per_row)[::-1]).ravel()
    at = np.repeat(np.arange(len(ts)), per_row)
    inside = (number * stream.slide + stream.range) > ts[at]
    return number[inside], epoch[at][inside]
