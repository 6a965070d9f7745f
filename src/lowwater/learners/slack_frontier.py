"""The frontier of waits: the share of rows that are in time for their windows, by slack."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SlackFrontier:
    """Slacks in ascending order, and the completeness of windows with each of them.

    >>> frontier = SlackFrontier((0, 10, 50), (0.9, 0.99, 1.0))
    >>> frontier.completeness_at(20), frontier.least(0.95)
    (0.99, 10)
    """

    slacks: Sequence[int] = ()
    completeness: Sequence[float] = ()

    def completeness_at(self, slack: int) -> float | None:
        """Return the completeness with `slack`; None if nothing is known yet."""
        place = bisect_right(self.slacks, slack) - 1
        if not self.slacks:
            return None
        return self.completeness[place] if place >= 0 else 0.0

    def least(self, completeness: float) -> int | None:
        """Return the smallest slack with this completeness; None if no known slack has it."""
        pairs = zip(self.slacks, self.completeness, strict=True)
        return next((slack for slack, share in pairs if share >= completeness), None)
