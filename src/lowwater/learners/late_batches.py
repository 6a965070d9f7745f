"""Recurring batches of late rows: uploads of many rows at once, at regular times.

An epoch brings a batch if its very late rows are a large part of those of the last `FADES` windows.
If two distances between batches agree, the next batch is expected at the same distance. A batch
that does not come ends the expectation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

PART = 0.1
"""The least part of the faded number of very late rows that makes a batch.

With `FADES`, batches are known apart if they are more than about two windows apart.
"""
FADES = 20.0
"""The windows over which the number of very late rows fades."""
AGREE = 0.2
"""The largest difference of two distances that agree, as a share of the newer one."""
OVERDUE = 1.5
"""A batch is overdue after this many times the usual distance."""


@dataclass(frozen=True)
class LateBatches:
    """What is known of recurring batches.

    - `late`: The faded number of very late rows.
    - `last`: The newest time when the last batch came.
    - `distance`: The distance of the last two batches, in ticks.
    - `regular`: Whether the distance before it agrees.

    >>> batches = LateBatches()
    >>> for newest in range(0, 2_000, 100):
    ...     late = 40 if newest % 500 == 0 else 0
    ...     batches = batches.plus(newest, late, passed=1.0, shortest=100)
    >>> batches.last, batches.expected
    (1500, 2000)
    """

    late: float = 0.0
    last: int | None = None
    distance: int | None = None
    regular: bool = False

    @property
    def expected(self) -> int | None:
        """The newest time at which the next batch is expected; None if batches are irregular."""
        if self.last is None or self.distance is None or not self.regular:
            return None
        return self.last + self.distance

    def plus(self, newest: int, late: float, *, passed: float, shortest: int) -> LateBatches:
        """Return what is known after an epoch that brought `late` very late rows.

        `passed` is the advance of the newest time in windows. Batches nearer to each other than
        `shortest` ticks are one batch.
        """
        total = round(self.late * float(np.exp(-passed / FADES)) + late, 3)
        if late > 0 and late >= PART * total:
            return replace(self._with_batch(newest, shortest), late=total)
        due = self.expected is None or newest <= self.last + OVERDUE * self.distance  # type: ignore[operator]
        return replace(self, late=total, regular=self.regular and due)

    def _with_batch(self, newest: int, shortest: int) -> LateBatches:
        distance = None if self.last is None else newest - self.last
        if distance is None or distance < shortest:
            return replace(self, last=newest)
        before = self.distance
        regular = before is not None and abs(distance - before) <= AGREE * distance
        return replace(self, last=newest, distance=distance, regular=regular)
