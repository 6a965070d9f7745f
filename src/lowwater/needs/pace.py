"""The pace of a run: the lengths of its last epochs, and how far event time advances in each.

A pause of the run or of its source is not an epoch's length. So only epochs count that follow a
decision at once, and the longest of the last epochs does not count either: one epoch of a minute,
after the machine was asleep, says nothing about the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

REMEMBERED = 16
"""The number of epochs whose lengths are remembered."""
FEW = 4
"""With fewer epochs than this, the longest one counts, too."""


@dataclass(frozen=True)
class Pace:
    """The lengths of the last epochs on the system clock, and their steps of event time, in ticks.

    >>> pace = Pace()
    >>> for length in (10, 12, 11, 10, 5_000):
    ...     pace = pace.after(length, step=10)
    >>> pace.length, pace.step
    (12, 10)
    """

    VERSION: ClassVar[int] = 1

    lengths: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()

    def after(self, length: int | None, step: int) -> Pace:
        """Return the pace after an epoch, of which the length may be unknown."""
        return Pace(
            self.lengths if length is None else (*self.lengths, length)[-REMEMBERED:],
            (*self.steps, step)[-REMEMBERED:] if step > 0 else self.steps,
        )

    @property
    def length(self) -> int:
        """The length that nearly all epochs keep: the second longest of the last ones."""
        if not self.lengths:
            return 0
        return sorted(self.lengths)[-1 if len(self.lengths) < FEW else -2]

    @property
    def step(self) -> int:
        """The usual step of event time in an epoch: the median of those that were not zero."""
        return sorted(self.steps)[len(self.steps) // 2] if self.steps else 0
