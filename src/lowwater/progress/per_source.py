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
    each: Slack
    idle: Duration | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.each.span is None:
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
        assert isinstance(inner, TimeSlack)  # noqa: S101
        idle = None if self.idle is None else ticks(self.idle, name="idle")
        column = source_column("per_source", self.column, schema)
        return Sources(column, inner.span, idle, consistent=inner.consistent)


@dataclass(frozen=True)
class _One:
    """What is known of one source."""

    newest: int
    heard: int
    activity: Activity


class Sources(Tracker):
    """Follows every source and the minimum of those that count."""

    def __init__(self, column: str, span: int, idle: int | None, *, consistent: bool) -> None:
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
            known[source] = self._hear(known.get(source), newest, low, now)
        for source, one in known.items():
            if source not in seen.sources:
                known[source] = self._settle(one, now)
        active = [o.newest - self.span for o in known.values() if o.activity is Activity.ACTIVE]
        if active:
            low = min(active) if low is None else max(low, min(active))
        marks = Marks(low, {s: o.newest - self.span for s, o in known.items()})
        kept = [[s, o.newest, o.heard, o.activity.value] for s, o in known.items()]
        return {"low": low, "sources": kept}, marks

    def _hear(self, one: _One | None, newest: int, low: int | None, now: int) -> _One:
        """Take in rows. A source behind the common mark holds nothing back until it caught up."""
        if one is None:
            one = _One(newest, now, Activity.IDLE)
        newest = max(newest, one.newest)
        caught_up = low is None or newest - self.span >= low
        activity = Activity.ACTIVE if caught_up else one.activity
        return _One(newest, now, activity)

    def _settle(self, one: _One, now: int) -> _One:
        silent = self.idle is not None and now - one.heard >= self.idle
        if silent and one.activity is Activity.ACTIVE:
            return replace(one, activity=Activity.IDLE)
        return one


def _read(memory: Mapping[str, Any]) -> dict[Source, _One]:
    return {s: _One(n, h, Activity(a)) for s, n, h, a in memory["sources"]}
