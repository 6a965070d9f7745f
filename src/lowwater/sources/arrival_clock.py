"""The arrival clock of a recording, and the epochs that a live query would have cut on it.

A live query runs an epoch over the rows that have arrived since the last one. A recording that is
read in a few large blocks hides lateness, because all rows of a block arrive at once. So a
recording is cut into spans of its arrival clock, and each span with rows is an epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from time import time_ns
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.errors import SpecError
from lowwater.ticks import TICKS_PER_SECOND
from lowwater.windows.axis import LIMIT, Axis

Ticks: TypeAlias = npt.NDArray[np.int64]
FUTURE = 24 * 60 * 60 * TICKS_PER_SECOND
"""A time so far ahead of this machine's clock, in ticks, is malformed in a query."""


@dataclass(frozen=True)
class ArrivalClock:
    """The clock by which the rows of a recording arrived.

    `column` has the times of arrival: timestamps, or numbers of seconds. With `progress`, the
    column has event times, rows arrive in the order of the file, and the clock shows the newest
    event time so far.
    """

    column: str
    progress: bool = False

    def ticks(self, table: pa.Table) -> tuple[Ticks, np.ndarray]:
        """Return (ticks, valid) of the column; event times of the future are not valid."""
        axis = Axis(self.column, table.schema.field(self.column).type)
        ticks, valid = axis.to_ticks(table.column(self.column))
        if axis.kind == "time" and self.progress:
            # One time of the distant future must not make all later rows arrive at once.
            valid &= ticks <= time_ns() // 1_000 + FUTURE
        if axis.kind == "time" or self.progress:
            return ticks, valid
        per_second = TICKS_PER_SECOND // axis.per_unit
        if (np.abs(ticks[valid]) > LIMIT // per_second).any():
            raise SpecError(
                f"arrival column {self.column!r}: its numbers cannot be seconds, they are too "
                f"large; name their unit, as in arrival={self.column}:ms (s, ms, us or ns)"
            )
        return ticks * per_second, valid

    def order(self, table: pa.Table) -> Ticks:
        """Return the rows of a table in the order of arrival; rows without an arrival are last."""
        if self.progress:
            return np.arange(len(table))
        ticks, valid = self.ticks(table)
        return np.argsort(np.where(valid, ticks, np.iinfo(np.int64).max), kind="stable")

    def read(self, table: pa.Table) -> Ticks:
        """Return the arrival of each row of a table in the order of arrival.

        A row without a time arrives with the row before it.

        >>> clock = ArrivalClock("t", progress=True)
        >>> clock.read(pa.table({"t": [3, 5, None, 4, 9]})).tolist()
        [3, 5, 5, 5, 9]
        """
        ticks, valid = self.ticks(table)
        first = ticks[valid].min() if valid.any() else 0
        return np.asarray(np.maximum.accumulate(np.where(valid, ticks, first)), np.int64)


@dataclass(frozen=True, eq=False)
class ArrivalEpochs:
    """The epochs of recordings that arrive together: spans of `length` ticks of one clock.

    `filled` are the numbers of the spans with rows. A span after rows is an epoch, too: there the
    watermark of these rows acts. In a silence, epochs follow at twice the distance each time, so
    that the clock can close windows meanwhile.

    >>> epochs = ArrivalEpochs.of([np.array([3, 4, 95])], length=10)
    >>> epochs.cuts.tolist()
    [10, 20, 30, 50, 90, 100, 110]
    """

    length: int
    filled: Ticks

    @classmethod
    def of(cls, arrivals: Iterable[Ticks], length: int) -> ArrivalEpochs:
        """Return the epochs of rows with these arrivals, one array for each recording."""
        spans = [np.unique(arrived // length) for arrived in arrivals]
        return cls(length, np.unique(np.concatenate([*spans, np.zeros(0, np.int64)])))

    @cached_property
    def cuts(self) -> Ticks:
        """The end of each epoch."""
        if not len(self.filled):
            return np.zeros(0, np.int64)
        pause = np.append(np.diff(self.filled), 2)
        spans, step = [self.filled], 1
        while (longer := pause > step).any():
            spans.append(self.filled[longer] + step)
            step *= 2
        return np.asarray((np.sort(np.concatenate(spans)) + 1) * self.length, np.int64)

    def rows(self, arrived: Ticks) -> Ticks:
        """Return the number of rows that have arrived by the end of each epoch."""
        return np.searchsorted(arrived, self.cuts, side="left")
