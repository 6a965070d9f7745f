"""Flush policies, which spread the results of closed windows over time (OOP 6)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from lowwater.errors import SpecError
from lowwater.operators.join.band import Band, SameWindow
from lowwater.operators.operator import GradualFlush
from lowwater.operators.window.plan import WindowPlan
from lowwater.planner.compatibility import refuse
from lowwater.windows.axis import Axis

WINDOW_SLICES = 8
"""The groups of a window are divided into this number of slices, which are emitted in turn."""
_WINDOWS = re.compile(r"\s*(\d+(?:\.\d+)?)\s*windows?\s*")


@dataclass(frozen=True)
class Flush:
    """A policy that spreads results over at most `max_delay`, instead of emitting all at once."""

    max_delay: Any
    keep: int | None = None

    def of(self, axis: Axis, size: int | None) -> GradualFlush:
        """Return this flush with its delay in ticks; `size` is the length of a window in ticks."""
        delay = self._ticks(axis, size)
        if delay <= 0:
            raise SpecError(f"flush: max_delay={self.max_delay!r} must be greater than zero")
        return GradualFlush(delay, self.keep)

    def _ticks(self, axis: Axis, size: int | None) -> int:
        windows = _WINDOWS.fullmatch(self.max_delay) if isinstance(self.max_delay, str) else None
        if windows is None:
            return axis.span(self.max_delay, name="max_delay")
        if size is None:
            raise SpecError(
                f"max_delay={self.max_delay!r}: this join has no windows to count; give a duration"
            )
        return int(float(windows[1]) * size)


def slow_flush(*, max_delay: Any) -> Flush:
    """Return a policy that emits results evenly over `max_delay`: "2 windows", or a duration.

    Windows close as usual, and late rows stay late. The groups of a window are divided into slices,
    which are emitted one by one, so no epoch has to emit all results (OOP 6). In an outer or anti
    join, the policy spreads the rows without a partner.

    >>> slow_flush(max_delay="2 windows").max_delay
    '2 windows'
    """
    return Flush(max_delay)


def lazy_flush(*, max_delay: Any, keep: int) -> Flush:
    """Return a policy that delays results while state has room, for at most `max_delay`.

    Results are emitted when state has more than `keep` cells (in a join: rows). Otherwise they are
    spread over the second half of the delay.
    """
    if type(keep) is not int or keep < 0:
        raise SpecError(
            f"keep={keep!r} must be a whole number, 0 or more, of cells or rows that state may "
            f"hold before results are emitted"
        )
    return Flush(max_delay, keep)


def smooth_windows(flush: Any, plan: WindowPlan) -> GradualFlush | None:
    """Return the flush for the results of `plan`; raise SpecError if `flush` does not fit it."""
    given = _given(flush)
    if given is None:
        return None
    refuse("flush", plan.labels, f"flush={flush!r}")
    ((_, window),) = plan.fixed_windows
    return replace(given.of(plan.axis, window.slide), slices=WINDOW_SLICES)


def smooth_join(flush: Any, axis: Axis, band: Band | SameWindow) -> GradualFlush | None:
    """Return the flush for a join's rows that have no partner; None if `flush` is None."""
    given = _given(flush)
    size = band.size if isinstance(band, SameWindow) else None
    return None if given is None else given.of(axis, size)


def _given(flush: Any) -> Flush | None:
    if flush is None or isinstance(flush, Flush):
        return flush
    raise SpecError(
        f"flush={flush!r} is not a way to flush; give lw.slow_flush(...) or lw.lazy_flush(...)"
    )
