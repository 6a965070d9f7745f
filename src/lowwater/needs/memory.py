"""The memory of needs: which window ends were reached when, and which windows have an answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from lowwater.intervals import Intervals, intersection
from lowwater.needs.pace import Pace
from lowwater.needs.rightness import Rightness
from lowwater.needs.tally import Tally

MOST = 128
"""The largest number of sections of window ends in memory."""


@dataclass(frozen=True)
class Section:
    """The window ends after `since` and up to `end`, which the newest time reached at `moment`.

    `asked` is the clock at which early results of these windows were first requested, or None.
    """

    since: int
    end: int
    moment: int
    asked: int | None = None


@dataclass(frozen=True)
class PartMemory:
    """The memory of one need.

    - `reached`: The last window end that the newest time has reached; None before the first row.
    - `asked`: The last window end of which early results were requested.
    - `sections`: The window ends that were reached and are not closed, in order.
    - `answered`: Window ends with an early answer, as intervals that contain their upper end.
    - `alone`: Whether finals are right enough by `fresh`, so that they are the first answers.
    - `cap`: The largest slack that the need allows; None if it allows any.
    - `latency`: How long work on a window may take before windows are dropped; None for any time.
    - `tally`: The account of the need.
    - `rightness`: The account of how right first answers were.
    """

    VERSION: ClassVar[int] = 1

    reached: int | None = None
    asked: int | None = None
    sections: tuple[Section, ...] = ()
    answered: Intervals = ()
    alone: bool = False
    cap: int | None = None
    latency: int | None = None
    tally: Tally = field(default_factory=Tally)
    rightness: Rightness = field(default_factory=Rightness)

    def section(self, end: int) -> Section | None:
        """Return the section of a window end; None if it was not reached, or is closed."""
        return next((s for s in self.sections if s.since < end <= s.end), None)

    def has_answered(self, end: int) -> bool:
        """Return whether the window that ends at `end` has an early answer."""
        return any(since < end <= upto for since, upto in self.answered)

    def above(self, low: int | None) -> PartMemory:
        """Return the memory without the window ends up to the watermark `low`."""
        if low is None:
            return self
        sections = tuple(replace(s, since=max(s.since, low)) for s in self.sections if s.end > low)
        known = [at for at in (low, self.reached, self.asked) if at is not None]
        return replace(
            self, sections=sections, answered=intersection(self.answered, ((low, max(known)),))
        )


@dataclass(frozen=True)
class NeedMemory:
    """The memory of all needs of a run.

    - `now`, `newest`: The clock at the end of the last epoch, and the newest time.
    - `pace`: The pace of the run.
    - `parts`: The memory of each need.
    """

    VERSION: ClassVar[int] = 1

    now: int | None = None
    newest: int | None = None
    pace: Pace = field(default_factory=Pace)
    parts: tuple[PartMemory, ...] = ()


def thinned(sections: tuple[Section, ...]) -> tuple[Section, ...]:
    """Return at most `MOST` sections: neighbours are joined, which keeps the earlier moment.

    >>> [s.end for s in thinned(tuple(Section(n, n + 1, n) for n in range(MOST + 2)))][:2]
    [2, 4]
    """
    if len(sections) <= MOST:
        return sections
    pairs = zip(sections[::2], [*sections[1::2], None], strict=False)
    return tuple([one if other is None else replace(one, end=other.end) for one, other in pairs])
