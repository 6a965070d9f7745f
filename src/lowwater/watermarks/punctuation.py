"""Punctuations as rows of the stream (WID 5.1): for all rows, for a group, or for an interval."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from lowwater.control.report import InputReport
from lowwater.control.watermark import SourceKey, Watermarks
from lowwater.errors import SpecError, unknown_name
from lowwater.watermarks.policy import WatermarkPolicy, source_column
from lowwater.watermarks.tracker import Tracker
from lowwater.windows.axis import Axis


@dataclass(frozen=True, kw_only=True)
class Punctuation(WatermarkPolicy):
    """A policy that reads punctuations: rows in which the column `when` is true.

    A punctuation with time t promises that no later row (with the same value of `by`) has a time
    before t. If `since` is not NULL, the promise covers only times from `since` up to t.
    """

    when: str
    by: str | None = None
    since: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by is not None and self.since is not None:
            raise SpecError(
                f"lw.punctuated(by={self.by!r}, since={self.since!r}): a punctuation completes a "
                f"group or an interval of time, not both; remove by= or since="
            )

    @property
    def source(self) -> str | None:  # noqa: D102
        return self.by

    @property
    def reads(self) -> tuple[str, ...]:  # noqa: D102
        since = () if self.since is None else (self.since,)
        return (self.when, *since, *super().reads)

    def track(self, axis: Axis, schema: pa.Schema) -> Tracker[Any]:  # noqa: D102
        if self.when not in schema.names:
            raise unknown_name("column", self.when, schema.names)
        if not pa.types.is_boolean(schema.field(self.when).type):
            raise SpecError(
                f"when={self.when!r} is {schema.field(self.when).type}; punctuations are the rows "
                f"in which a boolean column is true. Name a boolean column"
            )
        by = None if self.by is None else source_column("by", self.by, schema)
        if self.since is not None:
            if self.since not in schema.names:
                raise unknown_name("column", self.since, schema.names)
            begins = Axis(self.since, schema.field(self.since).type)
            if (begins.kind, begins.per_unit) != (axis.kind, axis.per_unit):
                raise SpecError(
                    f"since={self.since!r} is {begins.type}, but the time column {axis.column!r} "
                    f"is {axis.type}; cast {self.since!r} to the same type"
                )
        return PunctuationTracker(self.when, by, self.since)


@dataclass(frozen=True)
class PunctuationMemory:
    """The watermarks that punctuations have set so far, and the sources that have sent rows."""

    VERSION: ClassVar[int] = 1

    watermarks: Watermarks = field(default_factory=Watermarks)
    sources: tuple[SourceKey, ...] = ()


class PunctuationTracker(Tracker[PunctuationMemory]):
    """A tracker that collects the watermarks of the stream's punctuations.

    With punctuations by group, the stream's watermark is the minimum of the groups' watermarks.
    The stream has no watermark until every group has one.
    """

    memory_type = PunctuationMemory

    def __init__(self, when: str, by: str | None, since: str | None) -> None:
        self.mark_when, self.source, self.mark_since = when, by, since

    def advance(  # noqa: D102
        self, memory: PunctuationMemory, report: InputReport, now: int
    ) -> tuple[PunctuationMemory, Watermarks]:
        del now
        watermarks = memory.watermarks.raised(report.marks)
        if self.source is None:
            return PunctuationMemory(watermarks), watermarks
        sources = tuple(dict.fromkeys([*memory.sources, *report.sources, *watermarks.sources]))
        own = [watermarks.sources.get(source) for source in sources]
        low = None if not own or None in own else min(w for w in own if w is not None)
        return PunctuationMemory(watermarks, sources), watermarks.raised(Watermarks(low))
