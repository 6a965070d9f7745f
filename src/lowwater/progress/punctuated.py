"""Punctuation that comes inside the stream (WID 5.1): linear, or by group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lowwater.control import Marks, Seen
from lowwater.errors import SpecError, unknown_name
from lowwater.progress.policy import Progress, Tracker, source_column
from lowwater.windows import Axis


@dataclass(frozen=True, kw_only=True)
class Punctuated(Progress):
    """Rows where `when` is true say: no later row (of this `by`) has a time before mine.

    Or, where `since` is not NULL: none has a time from `since` up to mine.
    """

    when: str
    by: str | None = None
    since: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by is not None and self.since is not None:
            raise SpecError(
                f"by={self.by!r} and since={self.since!r}: a punctuation is about a group or about "
                f"a stretch of time, not both; leave one out"
            )

    @property
    def source(self) -> str | None:  # noqa: D102
        return self.by

    @property
    def reads(self) -> tuple[str, ...]:  # noqa: D102
        since = () if self.since is None else (self.since,)
        return (self.when, *since, *super().reads)

    def track(self, axis: Axis, schema: pa.Schema) -> Tracker:  # noqa: D102
        if self.when not in schema.names:
            raise unknown_name("column", self.when, schema.names)
        if not pa.types.is_boolean(schema.field(self.when).type):
            raise SpecError(
                f"when={self.when!r} is {schema.field(self.when).type}; punctuations are told from "
                f"rows by a boolean column"
            )
        by = None if self.by is None else source_column("by", self.by, schema)
        if self.since is not None:
            if self.since not in schema.names:
                raise unknown_name("column", self.since, schema.names)
            begins = Axis(self.since, schema.field(self.since).type)
            if (begins.kind, begins.per_unit) != (axis.kind, axis.per_unit):
                raise SpecError(
                    f"since={self.since!r} is {begins.type}, but {axis.column!r}, which stretches "
                    f"of time are of, is {axis.type}; cast it"
                )
        return InStream(self.when, by, self.since)


class InStream(Tracker):
    """Remembers the marks that the stream itself has said."""

    def __init__(self, when: str, by: str | None, since: str | None) -> None:
        self.mark_when, self.source, self.mark_since = when, by, since

    def begin(self) -> dict[str, Any]:  # noqa: D102
        return {"marks": Marks().to_json(), "known": []}

    def advance(  # noqa: D102
        self, memory: Mapping[str, Any], seen: Seen, now: int
    ) -> tuple[dict[str, Any], Marks]:
        del now
        marks = Marks.from_json(memory["marks"]).raised(seen.marks)
        if self.source is None:
            return {"marks": marks.to_json(), "known": []}, marks
        known = list(dict.fromkeys([*memory["known"], *seen.sources, *marks.sources]))
        said = [marks.sources.get(s) for s in known]
        low = None if not said or None in said else min(m for m in said if m is not None)
        kept = {"marks": marks.to_json(), "known": known}
        return kept, marks.raised(Marks(low))
