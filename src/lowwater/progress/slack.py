"""Slack: rows may be late by a bound, in time or in rows (WID 7.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from lowwater.control import Marks, Seen
from lowwater.errors import SpecError
from lowwater.progress.policy import Progress, Tracker, positive
from lowwater.windows import Axis

MAX_ROWS = 100_000


@dataclass(frozen=True, kw_only=True)
class Slack(Progress):
    """mark = newest admitted time - span; or the newest time more than `rows` rows ago."""

    span: Any = None
    rows: Any = None
    mode: Literal["generous", "consistent"] = "generous"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.span is None) == (self.rows is None):
            raise SpecError("slack takes a span, slack('10 seconds'), or rows, slack(rows=100)")
        if self.rows is not None and not (
            isinstance(self.rows, int) and 0 <= self.rows <= MAX_ROWS
        ):
            raise SpecError(
                f"slack(rows={self.rows!r}) must be a whole number from 0 to {MAX_ROWS:,}"
            )
        if self.mode not in ("generous", "consistent"):
            raise SpecError(f"mode={self.mode!r} is unknown; it is 'generous' or 'consistent'")

    @property
    def consistent(self) -> bool:  # noqa: D102
        return self.mode == "consistent"

    def track(self, axis: Axis, schema: pa.Schema) -> Tracker:  # noqa: D102
        if self.rows is not None:
            return RowSlack(self.rows, consistent=self.consistent)
        span = positive("slack", axis.span(self.span, name="slack"), self.span)
        return TimeSlack(span, consistent=self.consistent)


class TimeSlack(Tracker):
    """mark = newest - span; without a span, as much behind as was chosen."""

    def __init__(self, span: int | None, *, consistent: bool = False) -> None:
        self.span, self.consistent = span, consistent

    def begin(self) -> dict[str, Any]:  # noqa: D102
        return {"newest": None}

    def advance(  # noqa: D102
        self, memory: Mapping[str, Any], seen: Seen, now: int
    ) -> tuple[dict[str, Any], Marks]:
        del now
        times = [t for t in (memory["newest"], seen.newest) if t is not None]
        if not times:
            return dict(memory), Marks()
        newest = max(times)
        return {"newest": newest}, Marks(newest - (seen.slack if self.span is None else self.span))


class RowSlack(Tracker):
    """mark = the newest time among all rows but the last `rows`.

    If no row is more than `rows` places out of order, no later row is older than that.
    """

    def __init__(self, rows: int, *, consistent: bool) -> None:
        self.tail, self.consistent = max(rows, 1), consistent
        self.rows = rows

    def begin(self) -> dict[str, Any]:  # noqa: D102
        return {"count": 0, "at": [], "newest": []}

    def advance(  # noqa: D102
        self, memory: Mapping[str, Any], seen: Seen, now: int
    ) -> tuple[dict[str, Any], Marks]:
        del now
        count, at, newest = memory["count"], list(memory["at"]), list(memory["newest"])
        for rows, steps, running in seen.tails:
            for step, value in zip(steps, running, strict=True):
                if not newest or value > newest[-1]:
                    at.append(count + step)
                    newest.append(value)
            count += rows
        settled = [i for i, place in enumerate(at) if place < count - self.rows]
        if settled:  # of the settled steps only the last still matters
            at, newest = at[settled[-1] :], newest[settled[-1] :]
        marks = Marks(newest[0]) if settled else Marks()
        return {"count": count, "at": at, "newest": newest}, marks
