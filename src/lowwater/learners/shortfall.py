"""Shortfalls of arrivals: fewer rows arrive than usual, so rows are probably on their way.

A shortfall is seen at once, before a late row is. The number of missing rows is a cumulative sum of
the usual number minus the arrived number; rows that arrive later reduce it. A small part of the
usual number does not count, so a stream whose rate falls slowly has no shortfall.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

IGNORED = 0.1
"""The part of the usual number of rows that may be absent without a shortfall."""
CHANCE = 4.0
"""The standard deviations by which the number of rows in a window may vary by chance."""


@dataclass(frozen=True)
class Shortfall:
    """The number of missing rows, and the newest time before the first of them.

    >>> none = Shortfall()
    >>> some = none.plus(newest=100, rows=40.0, usual=100.0)
    >>> some.missing, some.since, some.certain(rate=100.0)
    (50.0, 100, True)
    >>> some.plus(newest=200, rows=150.0, usual=100.0).missing
    0.0
    """

    missing: float = 0.0
    since: int | None = None

    def plus(self, newest: int, rows: float, usual: float) -> Shortfall:
        """Return the shortfall after an epoch with `rows` rows, where `usual` rows are usual."""
        missing = max(0.0, self.missing + (1.0 - IGNORED) * usual - rows)
        return Shortfall(round(missing, 3), self.since if self.missing > 0 else newest)

    def certain(self, rate: float) -> bool:
        """Return whether more rows are missing than by chance; a window usually has `rate` rows."""
        return self.missing > CHANCE * float(np.sqrt(max(rate, 1.0)))
