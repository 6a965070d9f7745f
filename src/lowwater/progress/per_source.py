"""Progress by source: the stream is as far as its slowest source (WID 7.2, semantics 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa

from lowwater.control import Marks, Seen, Source
from lowwater.durations import Duration, ticks
from lowwater.errors import SpecError
from lowwater.progress.adapted import Chosen
from lowwater.progress.policy import Progress, Tracker, positive, source_column
from lowwater.progress.slack import Slack, TimeSlack
from lowwater.windows import Axis


class Activity(StrEnum):
    """Whether a source holds the common mark back."""

    ACTIVE = "active"
    IDLE = "idle"


@dataclass(frozen=True, kw_only=True)
class PerSource(Progress):
    """The minimum over the marks of the active sources, each learned by `each`."""

    column: str
    each: Slack | Chosen
    idle: Duration | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.each, Slack) and self.each.span is None:
            raise SpecError(
                f"per_source({self.column!r}, {self.each!r}): each source is tracked by "
                f"lw.slack(a span) or lw.ordered()"
            )
        for option in ("lull", "max_ahead", "clock"):
            if getattr(self.each, option) is not None:
                raise SpecError(f"{option}= belongs on per_source, not on what is inside it")
        if self.idle is not None:
            positive("idle", ticks(self.idle, name="idle"), self.idle)

    @property
    def source(self) -> str | None:  # noqa: D102
        return self.column

    @property
    def consistent(self) -> bool:  # noqa: D102
        return self.each.consistent

    def track(self, axis: Axis, schema: pa.Schema) -> Tracker:  # noqa: D102
        inner = self.each.track(axis, schema)
        idle = None if self.idle is None else ticks(self.idle, name="idle")
        column = source_column("per_source", self.column, schema)
        span = inner.span if isinstance(inner, TimeSlack) else None
        return Sources(column, span, idle, consistent=inner.consistent)


@dataclass(frozen=True)
class _One:
    """What is known of one source."""

    newest: int
    heard: int
    activity: Activity


class Sources(Tracker):
    """Follows every source and the minimum of those that count.

    Each is believed to be `span` late, or else as much as was chosen for it.
    """

    def __init__(
        self, column: str, span: int | None, idle: int | None, *, consistent: bool
    ) -> None:
        self.source, self.span, self.idle, self.consistent = column, span, idle, consistent

    def begin(self) -> dict[str, Any]:  # noqa: D102
        return {"low": None, "sources": []}

    def advance(  # noqa: D102
        self, memory: Mapping[str, Any], seen: Seen, now: int
    ) -> tuple[dict[str, Any], Marks]:
        marks_so_far = [m for m in (memory["low"], seen.out) if m is not None]
        low = max(marks_so_far, default=None)
        known = _read(memory)
        for source, newest in seen.sources.items():
            behind = self._span(source, seen)
            known[source] = self._hear(known.get(source), newest, behind, low, now)
        for source, one in known.items():
            if source not in seen.sources:
                known[source] = self._settle(one, now)
        own = {s: o.newest - self._span(s, seen) for s, o in known.items()}
        active = [own[s] for s, o in known.items() if o.activity is Activity.ACTIVE]
        if active:
            low = min(active) if low is None else max(low, min(active))
        marks = Marks(low, own)
        kept = [[s, o.newest, o.heard, o.activity.value] for s, o in known.items()]
        return {"low": low, "sources": kept}, marks

    def _span(self, source: Source, seen: Seen) -> int:
        return seen.slacks.get(source, seen.slack) if self.span is None else self.span

    @staticmethod
    def _hear(one: _One | None, newest: int, span: int, low: int | None, now: int) -> _One:
        """Take in rows. A source behind the common mark holds nothing back until it caught up."""
        if one is None:
            one = _One(newest, now, Activity.IDLE)
        newest = max(newest, one.newest)
        caught_up = low is None or newest - span >= low
        activity = Activity.ACTIVE if caught_up else one.activity
        return _One(newest, now, activity)

    def _settle(self, one: _One, now: int) -> _One:
        silent = self.idle is not None and now - one.heard >= self.idle
        if silent and one.activity is Activity.ACTIVE:
            return replace(one, activity=Activity.IDLE)
        return one


def _read(memory: Mapping[str, Any]) -> dict[Source, _One]:
    return {s: _One(n, h, Activity(a)) for s, n, h, a in memory["sources"]}
