"""The competition of three estimates, by their records.

The median of the distribution, the early value as it is, and the early value divided by the
completeness compete. Each final adds their losses, 1 - accuracy, to the record of its *cell*: by
position, size of the group, and whether the group has a past. A cell with few finals leans towards
all cells of its position. The estimate with the smallest loss wins; the losses of the median count
a little more, because its record is kept with what is known when the final comes, which is more
than was known for the answer. The accuracy is relative to the final, so where finals have a long
tail, a value below the median can be better.

All of the record are whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lowwater.control.completeness import Floats, Ticks
from lowwater.early.accuracy import accuracy
from lowwater.early.calibration.early_rows import POSITIONS
from lowwater.early.calibration.groups import SIZES, GroupView
from lowwater.learners.error_bins import aged
from lowwater.learners.whole_numbers import Counts

ESTIMATES = 3
SHAPE = (2, len(POSITIONS) + 1, len(SIZES) + 1, 1 + ESTIMATES)
"""Past or none, position, size; the number of finals, then the losses of the estimates."""
SPAN = 60
"""The number of windows after which the record is halved."""
LEAN = 20.0
"""How many finals of all cells of a position are added to those of a cell."""
BEHIND = 1.05
"""The factor of the losses of the median."""
_FINE = 1024


@dataclass(frozen=True, eq=False)
class Cell:
    """The cell of each result."""

    past: Ticks
    position: Ticks
    size: Ticks

    @classmethod
    def of(cls, view: GroupView, missing: Floats) -> Cell:
        """Return the cells of results that lack the share `missing` of their rows."""
        position = np.searchsorted(POSITIONS, missing, side="right")
        return cls(1 - view.known, position, np.searchsorted(SIZES, view.size))


def winner(record: Counts, cell: Cell) -> Ticks:
    """Return the number of the winning estimate of each result; 0 without a record."""
    sums = record.astype(np.float64)
    every = sums.sum(axis=2)
    usual = every[..., 1:] / np.maximum(every[..., :1], 1)
    losses = sums[..., 1:] + LEAN * usual[:, :, None]
    losses[..., 0] *= BEHIND
    best = np.argmin(losses, axis=-1)
    return np.asarray(best[cell.past, cell.position, cell.size])


def taught(
    record: Counts,
    cell: Cell,
    estimates: Sequence[Floats],
    final: Floats,
    windows: tuple[int, int],
) -> Counts:
    """Return the record after finals; `estimates` has the values of all that compete.

    `windows` is the number of windows that were known before, and are known with these.
    """
    after = aged(record, *windows, SPAN).copy()
    losses = np.round((1 - accuracy(np.stack(estimates), final)) * _FINE)
    parts = np.stack([np.ones(len(final)), *losses], axis=-1).astype(np.int64)
    np.add.at(after, (cell.past, cell.position, cell.size), parts)
    return after
