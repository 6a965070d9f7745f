"""The sidelining policy: rows of a burst are held, and released later (PROD 6.2 a).

A burst has hit a window if event time has passed the window's end while the window's rows are still
arriving: the stream is processed too slowly. Once the window has an early result, its other rows
can wait. So these rows are held, in whole panes, and later windows stay on time. Held rows are
released with low priority: one row for every few new rows, more rows while the stream is idle, and
each row within a maximum delay by the system clock.

After an outage, rows of many windows wait to be read, the oldest first, and results stay old until
the backlog is done. With `newest_first`, rows of the windows that ended longer ago are held, with
or without early results, so the newest windows come first.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowwater.errors import SpecError
from lowwater.ticks import Duration, ticks


@dataclass(frozen=True)
class Sideline:
    """A policy that holds rows up to `max_delay` ticks and releases one per `every` new rows.

    With `newest_first`, it holds the rows of windows that ended more than this many ticks ago.
    """

    every: int = 3
    max_delay: int = 60_000_000
    newest_first: int | None = None


def sideline(
    *, every: int = 3, max_delay: Duration = "1 minute", newest_first: Duration | None = None
) -> Sideline:
    """Return a policy that holds rows up to `max_delay` and releases one per `every` new rows.

    With `newest_first`, a backlog is read with the newest windows first: rows that arrive for
    windows that ended longer ago than this are held. Otherwise only rows of windows with an early
    result are held.

    >>> sideline(every=10)
    Sideline(every=10, max_delay=60000000, newest_first=None)
    """
    if type(every) is not int or every < 1:
        raise SpecError(
            f"lw.sideline(every={every!r}) must be a whole number, 1 or more: one held row is "
            f"released for this many new ones"
        )
    span = ticks(max_delay, name="max_delay")
    if span <= 0:
        raise SpecError(f"lw.sideline(max_delay={max_delay!r}) must be greater than zero")
    ago = None if newest_first is None else ticks(newest_first, name="newest_first")
    if ago is not None and ago <= 0:
        raise SpecError(f"lw.sideline(newest_first={newest_first!r}) must be greater than zero")
    return Sideline(every, span, ago)
