"""Rows in their windows, and the slack with which each row would reach each of its windows in time.

The watermark that is decided after epoch m is the newest time minus the slack. It closes windows
at the end of epoch m + 1, after the rows of that epoch. So a row of epoch i reaches a window that
ends at e if no watermark decided up to epoch i - 2 was at or past e: if the slack is more than the
newest time after epoch i - 2 minus e. That is the *needed* slack of the row for this window.
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
    """The pairs of a row and one of its windows, in order of arrival.

    `window` counts from the first window that holds a row; `ends` are the ends of these windows,
    and `rows` the number of rows of each. `needed` is the slack that a row needs for a window.
    """

    ends: Ticks
    rows: Ticks
    window: Ticks
    epoch: Ticks
    needed: Ticks

    @classmethod
    def of(cls, stream: ArenaStream) -> Incidences:
        """Return all incidences of a stream."""
        per_row = -(-stream.range // stream.slide)
        last = stream.ts // stream.slide
        number = (last[:, None] - np.arange(per_row)[::-1]).ravel()
        at = np.repeat(np.arange(len(stream.ts)), per_row)
        inside = (number * stream.slide + stream.range) > stream.ts[at]
        number, at = number[inside], at[inside]
        ids, window = np.unique(number, return_inverse=True)
        ends = ids * stream.slide + stream.range
        epoch = stream.row_epoch[at]
        decided = np.maximum(epoch - DELAY, 0)
        past = stream.newest[decided] - ends[window] + 1
        needed = np.where(epoch >= DELAY, np.maximum(past, NONE_NEEDED), NONE_NEEDED)
        return cls(ends, np.bincount(window), window, epoch, needed)
