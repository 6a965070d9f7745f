"""The policy of needs: it limits the slack and requests early results, epoch by epoch.

A row waits up to an epoch before it is read, its epoch takes another one, and a decision acts in
the epoch after it. So whatever must happen within `fresh` is decided three epochs before.

If the finals that a slack of `fresh` minus this delay allows are right enough, they are the first
answers: the slack is at most that. Otherwise finals may take until `exact`, and early results of
the windows that have ended are requested in time for `fresh`. The rule of the slack itself chooses
below that: a wait that buys nothing is not taken.

The policy is a pure function of its memory, which the control log holds, and the news of an epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lowwater.control.watermark import latest
from lowwater.errors import SpecError
from lowwater.needs.memory import NeedMemory, PartMemory
from lowwater.needs.pace import Pace
from lowwater.needs.part import EpochTimes, NeedPart, PartNews
from lowwater.ticks import spoken


@dataclass(frozen=True)
class NeedNews:
    """The news of an epoch that ended at `now` and took `took` ticks, if that is known.

    `parts` has the news of each need.
    """

    now: int
    parts: Sequence[PartNews]
    took: int | None = None


@dataclass(frozen=True)
class NeedPolicy:
    """The policy of all needs of a run.

    >>> from lowwater.needs.statement import need
    >>> from lowwater.windows.sliding import Sliding
    >>> windows = (Sliding(range=10_000_000),)
    >>> board = NeedPart("results", 0, need(fresh="5 seconds", right=0.9), windows, (0,), ())
    >>> policy = NeedPolicy((board,))
    >>> memory = policy.begin()
    >>> for second in range(1, 17):
    ...     now = second * 1_000_000
    ...     memory = policy.advance(memory, NeedNews(now, [PartNews(newest=now)]), hurried=True)
    >>> policy.requests(memory)
    {'wanted': {0: 10000000}}
    """

    parts: tuple[NeedPart, ...]
    drops: bool = False
    """Whether the needs decide when windows are dropped."""

    def begin(self) -> NeedMemory:
        """Return the memory before the first epoch."""
        return NeedMemory(parts=tuple(PartMemory() for _ in self.parts))

    def advance(self, memory: NeedMemory, news: NeedNews, *, hurried: bool) -> NeedMemory:
        """Return the memory after an epoch; `hurried` is whether the epoch began without a pause.

        The memory has the decisions: the windows to request, and the largest slacks.
        """
        newest = latest(*(part.newest for part in news.parts))
        epoch = _times(memory, news, newest, hurried=hurried)
        parts = zip(self.parts, memory.parts, news.parts, strict=True)
        after = tuple([part.advance(kept, one, epoch) for part, kept, one in parts])
        return NeedMemory(news.now, newest, epoch.pace, after)

    def due(self, memory: NeedMemory, now: int) -> bool:
        """Return whether the clock alone requires early results, or finals, at `now`."""
        epoch = EpochTimes(now, now, memory.pace)
        return any(
            part.asked(kept, memory.newest, epoch).asked != kept.asked
            or (part.waits and part.closing(kept, memory.newest, epoch).cap != kept.cap)
            for part, kept in zip(self.parts, memory.parts, strict=True)
        )

    def requests(self, memory: NeedMemory) -> dict[str, Any]:
        """Return the setting with the last window end to request from each operator."""
        parts = zip(self.parts, memory.parts, strict=True)
        return {"wanted": {p.operator: k.asked for p, k in parts if k.asked is not None}}

    def load(self, memory: NeedMemory) -> dict[str, Any]:
        """Return the setting with the time that work may take, if the needs choose it."""
        known = [part.latency for part in memory.parts if part.latency is not None]
        return {"latency": spoken(min(known))} if self.drops and known else {}

    def limits(self, memory: NeedMemory) -> dict[int, int]:
        """Return the largest slack of each operator that has one."""
        parts = zip(self.parts, memory.parts, strict=True)
        return {p.operator: k.cap for p, k in parts if p.waits and k.cap is not None}

    @property
    def settings(self) -> dict[str, Any]:
        """The setting `need` that `run.retune()` can change: the arguments of each need."""
        parts = {part.name: part.need.to_parts() for part in self.parts}
        return {"need": next(iter(parts.values())) if len(parts) == 1 else parts}

    def tuned(self, values: Mapping[str, Any]) -> NeedPolicy:
        """Return the policy with the needs in `values`; memories stay valid."""
        if "need" not in values:
            return self
        given, names = values["need"], [part.name for part in self.parts]
        by_name = given if len(names) > 1 else {names[0]: given}
        for name in by_name:
            if name not in names:
                raise SpecError(
                    f"need={{{name!r}: ...}}: this query has no need; those with one are: "
                    f"{', '.join(names)}"
                )
        tuned = tuple(part.tuned(by_name.get(part.name, {})) for part in self.parts)
        return replace(self, parts=tuned)


def _times(memory: NeedMemory, news: NeedNews, newest: int | None, *, hurried: bool) -> EpochTimes:
    """Return the times of an epoch; after a pause, the epoch began when its work did."""
    elapsed = None if memory.now is None else news.now - memory.now
    step = 0 if newest is None or memory.newest is None else newest - memory.newest
    pace = memory.pace.after(_length(memory.pace, elapsed, news.took, hurried=hurried), step)
    spent = pace.length if news.took is None else max(news.took, pace.length)
    within = spent if elapsed is None else min(elapsed, spent)
    stopped = elapsed is not None and elapsed > 2 * spent
    return EpochTimes(news.now - within, news.now, pace, memory.now, stopped)


def _length(pace: Pace, elapsed: int | None, took: int | None, *, hurried: bool) -> int | None:
    """Return the length of an epoch; None if it shows nothing.

    An epoch that begins after a pause shows how long it took, but not how long a host waits between
    two epochs. So it counts only if it took longer than the epochs without a pause.
    """
    if hurried or not pace.lengths:
        return elapsed
    return took if took is not None and took > pace.length else None
