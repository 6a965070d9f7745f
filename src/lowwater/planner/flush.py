"""How results leave: at once, or little by little (OOP 6)."""

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
"""Each slice of a window's groups is kept by itself: with more of them an epoch costs more."""
_WINDOWS = re.compile(r"\s*(\d+(?:\.\d+)?)\s*windows?\s*")


@dataclass(frozen=True)
class Flush:
    """Results that are complete at once leave over a time of at most `max_delay`."""

    max_delay: Any
    keep: int | None = None

    def of(self, axis: Axis, size: int | None, word: str) -> GradualFlush:
        """Bind it to the attribute that results progress on; `size` is that of a window."""
        delay = self._ticks(axis, size)
        if delay <= 0:
            raise SpecError(f"{word}: max_delay={self.max_delay!r} must be greater than zero")
        return GradualFlush(delay, self.keep)

    def _ticks(self, axis: Axis, size: int | None) -> int:
        found = _WINDOWS.fullmatch(self.max_delay) if isinstance(self.max_delay, str) else None
        if found is None:
            return axis.span(self.max_delay, name="max_delay")
        if size is None:
            raise SpecError(
                f"max_delay={self.max_delay!r}: this join has no windows to count; give a duration"
            )
        return int(float(found[1]) * size)


def slow_flush(*, max_delay: Any) -> Flush:
    """Emit results evenly over `max_delay` of the stream's time: "2 windows", or a duration.

    Window bounds do not move, and no row gets in that would have been late; results only come out
    one slice of the groups after the other, so that no epoch has all of them to do (OOP 6). In an
    outer or anti join the same goes for rows without a partner.

    >>> slow_flush(max_delay="2 windows").max_delay
    '2 windows'
    """
    return Flush(max_delay)


def lazy_flush(*, max_delay: Any, keep: int) -> Flush:
    """Hold results back while there is room for them, at most for `max_delay`.

    They come out when more than `keep` cells (in a join: rows) are kept in all, and else spread
    over the second half of the delay.
    """
    if type(keep) is not int or keep < 0:
        raise SpecError(f"keep={keep!r} must be a whole number, of cells or rows to be kept")
    return Flush(max_delay, keep)


def smooth_windows(flush: Any, plan: WindowPlan) -> GradualFlush | None:
    """Return how the results of windows leave; raise SpecError if they cannot leave gradually."""
    given = _given(flush)
    if given is None:
        return None
    refuse("flush", plan.labels, f"flush={flush!r}")
    ((_, window),) = plan.fixed_windows
    return replace(given.of(plan.axis, window.slide, "flush"), slices=WINDOW_SLICES)


def smooth_join(flush: Any, axis: Axis, band: Band | SameWindow) -> GradualFlush | None:
    """Return how rows without a partner leave a join."""
    given = _given(flush)
    size = band.size if isinstance(band, SameWindow) else None
    return None if given is None else given.of(axis, size, "flush")


def _given(flush: Any) -> Flush | None:
    if flush is None or isinstance(flush, Flush):
        return flush
    raise SpecError(f"flush={flush!r}: give lw.slow_flush(...) or lw.lazy_flush(...)")
