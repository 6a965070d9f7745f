"""The bound on state: the share of windows to drop so that the state of open windows fits."""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.intervals import Intervals, intersection
from lowwater.shedding.fair import Weighted

MARGIN = 0.9
"""The state aims at this share of the bound, because windows differ in size."""
LEARNING = 0.3
"""The weight of the newest epoch in the state of a slot."""


@dataclass(frozen=True)
class OpenSlots:
    """The slots that have begun and have no result: their number, and how many were dropped."""

    count: int
    dropped: float

    @classmethod
    def of(
        cls, closed: int, begun: int, slide: int, dropped: Intervals, classes: Weighted = ()
    ) -> OpenSlots:
        """Return the open slots with results from `closed` on that begin before `begun`.

        `classes` are intervals dropped for some groups, with their share of the rows.

        >>> OpenSlots.of(100, 200, 10, ((120, 150),))
        OpenSlots(count=10, dropped=3.0)
        >>> OpenSlots.of(100, 200, 10, (), ((0.5, ((120, 150),)),))
        OpenSlots(count=10, dropped=1.5)
        """
        if begun <= closed:
            return cls(0, 0)
        gone = 0.0
        for weight, intervals in ((1.0, dropped), *classes):
            mine = intersection(intervals, ((closed, begun),))
            gone += weight * (sum(end - start for start, end in mine) // slide)
        return cls(-(-(begun - closed) // slide), gone)


def slot_bytes(before: float | None, state: int, slots: OpenSlots) -> float | None:
    """Return the mean state of a kept slot in bytes, which follows the newest epoch.

    >>> slot_bytes(None, 700, OpenSlots(10, 3)), slot_bytes(200.0, 700, OpenSlots(10, 3))
    (100.0, 170.0)
    """
    kept = slots.count - slots.dropped
    if kept <= 0:
        return before
    return state / kept if before is None else before + LEARNING * (state / kept - before)


def needed_share(each: float | None, slots: OpenSlots, memory: int) -> float:
    """Return the share of slots to drop so that the state of all open slots fits in `memory`.

    >>> needed_share(100.0, OpenSlots(10, 3), 2_000), needed_share(100.0, OpenSlots(10, 3), 500)
    (0.0, 0.55)
    """
    full = (each or 0.0) * slots.count
    return round(max(0.0, 1 - MARGIN * memory / full), 4) if full > MARGIN * memory else 0.0
