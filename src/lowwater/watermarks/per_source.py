"""Watermarks per source: the slowest source limits the stream's watermark (WID 7.2)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar

import pyarrow as pa

from lowwater.control.report import InputReport
from lowwater.control.watermark import SourceKey, Watermarks, latest
from lowwater.errors import SpecError
from lowwater.ticks import ticks
from lowwater.watermarks.adaptive.policies import AdaptiveSlack
from lowwater.watermarks.policy import BY_CLOCK, WatermarkPolicy, source_column
from lowwater.watermarks.slack import Slack, TimeSlack
from lowwater.watermarks.tracker import Tracker
from lowwater.windows.axis import Axis


class Activity(StrEnum):
    """The activity of a source: only active sources count for the stream's watermark."""

    ACTIVE = "active"
    IDLE = "idle"


@dataclass(frozen=True, kw_only=True)
class PerSource(WatermarkPolicy):
    """A policy: the minimum of the active sources' watermarks, which policy `each` computes."""

    column: str
    each: Slack | AdaptiveSlack

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.each, Slack) and self.each.span is None:
            raise SpecError(
                f"lw.per_source({self.column!r}, {self.each!r}): slack in rows cannot be counted "
                f"by source; write lw.slack('10 seconds') or lw.ordered() for each source"
            )
        for option, default in (("max_ahead", BY_CLOCK), ("clock", None)):
            if getattr(self.each, option) != default:
                raise SpecError(
                    f"{option}= is set on the policy inside lw.per_source, where it has no effect; "
                    f"set it on lw.per_source itself"
                )

    @property
    def source(self) -> str | None:  # noqa: D102
        return self.column

    @property
    def consistent(self) -> bool:  # noqa: D102
        return self.each.consistent

    def track(self, axis: Axis, schema: pa.Schema) -> Tracker[Any]:  # noqa: D102
        inner = self.each.track(axis, schema)
        timeout = self.each.idle_timeout
        idle = None if timeout is None else ticks(timeout, name="idle_timeout")
        column = source_column("per_source", self.column, schema)
        span = inner.span if isinstance(inner, TimeSlack) else None
        return SourcesTracker(column, span, idle, consistent=inner.consistent)


@dataclass(frozen=True)
class SourceMemory:
    """The newest time of one source, the clock reading at its last row, and its activity."""

    newest: int
    active_at: int
    activity: Activity


@dataclass(frozen=True)
class SourcesMemory:
    """The watermark of the stream, and the memory of each source."""

    VERSION: ClassVar[int] = 1

    low: int | None = None
    sources: dict[SourceKey, SourceMemory] = field(default_factory=dict)


class SourcesTracker(Tracker[SourcesMemory]):
    """A tracker that computes a watermark per source, and the minimum over active sources.

    The watermark of a source is its newest time minus `span`; if `span` is None, minus the slack
    that the adapter chose. A source with new rows becomes active when its watermark is at least the
    stream's watermark. A source without rows for `idle` ticks becomes idle.
    """

    memory_type = SourcesMemory

    def __init__(
        self, column: str, span: int | None, idle: int | None, *, consistent: bool
    ) -> None:
        self.source, self.span, self.idle, self.consistent = column, span, idle, consistent

    def advance(  # noqa: D102
        self, memory: SourcesMemory, report: InputReport, now: int
    ) -> tuple[SourcesMemory, Watermarks]:
        low, sources = latest(memory.low, report.out), dict(memory.sources)
        for source, time in report.sources.items():
            one = sources.get(source, SourceMemory(time, now, Activity.IDLE))
            newest = max(time, one.newest)
            caught_up = low is None or newest - self._span(source, report) >= low
            activity = Activity.ACTIVE if caught_up else one.activity
            sources[source] = SourceMemory(newest, now, activity)
        for source, one in sources.items():
            silent = self.idle is not None and now - one.active_at >= self.idle
            if silent and source not in report.sources:
                sources[source] = replace(one, activity=Activity.IDLE)
        own = {s: one.newest - self._span(s, report) for s, one in sources.items()}
        active = [own[s] for s, one in sources.items() if one.activity is Activity.ACTIVE]
        low = latest(low, min(active, default=None))
        return SourcesMemory(low, sources), Watermarks(low, own)

    def reached(self, memory: SourcesMemory, report: InputReport) -> Watermarks:  # noqa: D102
        if self.span is not None:
            return Watermarks()
        newest = {source: one.newest for source, one in memory.sources.items()}
        for source, time in report.sources.items():
            newest[source] = max(time, newest.get(source, time))
        idle = (s for s, one in memory.sources.items() if one.activity is Activity.IDLE)
        active = newest.keys() - (set(idle) - report.sources.keys())
        return Watermarks(min((newest[s] for s in active), default=None), newest)

    def _span(self, source: SourceKey, report: InputReport) -> int:
        return report.slacks.get(source, report.slack) if self.span is None else self.span
