"""Slack: a fixed distance of the watermark behind the newest time, in time or rows (WID 7.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa

from lowwater.control.report import InputReport
from lowwater.control.watermark import Watermarks, latest
from lowwater.errors import SpecError
from lowwater.watermarks.policy import WatermarkPolicy, positive
from lowwater.watermarks.tracker import Tracker
from lowwater.windows.axis import Axis

MAX_ROWS = 100_000


@dataclass(frozen=True, kw_only=True)
class Slack(WatermarkPolicy):
    """A policy with a fixed slack: the distance `span` in time, or the number of rows `rows`."""

    span: Any = None
    rows: Any = None
    mode: Literal["generous", "consistent"] = "generous"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.span is None) == (self.rows is None):
            raise SpecError(
                f"lw.slack({self.span!r}, rows={self.rows!r}) needs either a span or rows=; write "
                f"lw.slack('10 seconds') or lw.slack(rows=100)"
            )
        countable = isinstance(self.rows, int) and 0 <= self.rows <= MAX_ROWS
        if self.rows is not None and not countable:
            raise SpecError(
                f"lw.slack(rows={self.rows!r}) must be a whole number from 0 to {MAX_ROWS:,}"
            )
        if self.mode not in ("generous", "consistent"):
            raise SpecError(f"mode={self.mode!r} is unknown; write 'generous' or 'consistent'")

    @property
    def consistent(self) -> bool:  # noqa: D102
        return self.mode == "consistent"

    def track(self, axis: Axis, schema: pa.Schema) -> Tracker[Any]:  # noqa: D102
        if self.rows is not None:
            return RowSlack(self.rows, consistent=self.consistent)
        span = positive("slack", axis.span(self.span, name="slack"), self.span)
        return TimeSlack(span, consistent=self.consistent)


@dataclass(frozen=True)
class TimeSlackMemory:
    """The newest admitted time."""

    VERSION: ClassVar[int] = 1

    newest: int | None = None


class TimeSlack(Tracker[TimeSlackMemory]):
    """The watermark is the newest time minus `span` (the adapter's slack if `span` is None)."""

    memory_type = TimeSlackMemory

    def __init__(self, span: int | None, *, consistent: bool = False) -> None:
        self.span, self.consistent = span, consistent

    def advance(  # noqa: D102
        self, memory: TimeSlackMemory, report: InputReport, now: int
    ) -> tuple[TimeSlackMemory, Watermarks]:
        del now
        newest = latest(memory.newest, report.newest)
        if newest is None:
            return memory, Watermarks()
        span = report.slack if self.span is None else self.span
        return TimeSlackMemory(newest), Watermarks(newest - span)

    def reached(self, memory: TimeSlackMemory, report: InputReport) -> Watermarks:  # noqa: D102
        return (
            Watermarks()
            if self.span is not None
            else Watermarks(latest(memory.newest, report.newest))
        )


@dataclass(frozen=True)
class RowSlackMemory:
    """The number of rows, and each increase of the newest time: its row number and its new time."""

    VERSION: ClassVar[int] = 1

    count: int = 0
    at: tuple[int, ...] = ()
    newest: tuple[int, ...] = ()


class RowSlack(Tracker[RowSlackMemory]):
    """A tracker: the watermark is the newest time among all rows except the last `rows`.

    If every row is at most `rows` places out of order, no row is behind the watermark.
    """

    memory_type = RowSlackMemory

    def __init__(self, rows: int, *, consistent: bool) -> None:
        self.rows, self.tail, self.consistent = rows, max(rows, 1), consistent

    def advance(  # noqa: D102
        self, memory: RowSlackMemory, report: InputReport, now: int
    ) -> tuple[RowSlackMemory, Watermarks]:
        del now
        count, at, newest = memory.count, list(memory.at), list(memory.newest)
        for rows, steps, running in report.tails:
            for step, value in zip(steps, running, strict=True):
                if not newest or value > newest[-1]:
                    at.append(count + step)
                    newest.append(value)
            count += rows
        settled = [i for i, place in enumerate(at) if place < count - self.rows]
        if settled:  # later epochs need only the last settled increase
            at, newest = at[settled[-1] :], newest[settled[-1] :]
        watermarks = Watermarks(newest[0]) if settled else Watermarks()
        return RowSlackMemory(count, tuple(at), tuple(newest)), watermarks
