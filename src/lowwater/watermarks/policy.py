"""Watermark policies: the rules that compute the watermark of a stream (OOP 3.2).

The user sets a policy, such as `Slack`, for a stream. `bind` returns a tracker for the stream's
time column; the tracker computes watermarks from the measurements of each epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from lowwater.errors import SpecError, unknown_name
from lowwater.ticks import TICKS_PER_SECOND, Duration, ticks
from lowwater.watermarks.tracker import Heartbeat, Tracker
from lowwater.windows.axis import Axis

BY_CLOCK = "clock"
"""The default of `max_ahead`: only the machine's clock limits times in the future."""
CLOCK_AHEAD = 24 * 60 * 60 * TICKS_PER_SECOND
"""How far a time may be ahead of the machine's clock, in ticks: a day."""


@dataclass(frozen=True, kw_only=True)
class WatermarkPolicy(ABC):
    """A rule that computes the watermark of a stream. Every policy has these options.

    - `idle_timeout`: After this much silence of the stream (wall clock), the watermark advances
      with the wall clock, so that the last windows close.
    - `max_ahead`: By default "clock": a row whose time is more than a day ahead of this machine's
      clock is malformed and does not move the watermark. A distance, such as "1 hour", also makes
      rows malformed that are further ahead of the newest admitted row. None allows any time.
    - `clock`: "wall" declares that event times are wall-clock times: `idle_timeout` and `max_ahead`
      then count from the wall clock.
    """

    idle_timeout: Duration | None = None
    max_ahead: Any = BY_CLOCK
    clock: Literal["wall"] | None = None

    def __post_init__(self) -> None:
        if self.clock not in (None, "wall"):
            raise SpecError(f"clock={self.clock!r} is unknown; write clock='wall', or remove it")
        if self.idle_timeout is not None:
            span = ticks(self.idle_timeout, name="idle_timeout")
            positive("idle_timeout", span, self.idle_timeout)

    @property
    def source(self) -> str | None:
        """The column that identifies sources; None if sources have no watermarks of their own."""
        return None

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that the policy reads, besides the time column."""
        return () if self.source is None else (self.source,)

    @property
    def consistent(self) -> bool:
        """Whether a row that is late for one window misses all of its windows."""
        return False

    @abstractmethod
    def track(self, axis: Axis, schema: pa.Schema) -> Tracker[Any]:
        """Return the tracker for the time column; raise SpecError if the policy cannot use it."""

    def bind(self, axis: Axis, schema: pa.Schema) -> Tracker[Any]:
        """Return the tracker, wrapped in a `Heartbeat` if `idle_timeout` is set."""
        tracker = self.track(axis, schema)
        if self.idle_timeout is None:
            return tracker
        if axis.kind != "time":
            raise SpecError(
                f"idle_timeout={self.idle_timeout!r} needs windows over time, but {axis.column!r} "
                f"is a number; remove idle_timeout="
            )
        timeout = ticks(self.idle_timeout, name="idle_timeout")
        return Heartbeat(tracker, timeout, wall=self.clock == "wall")

    def guard(self, axis: Axis) -> int | None:
        """Return how many ticks a row may be ahead of the machine's clock; None if it may be any.

        Numbers are not compared with the clock.
        """
        return None if self.max_ahead is None or axis.kind != "time" else CLOCK_AHEAD

    def ahead(self, axis: Axis) -> int | None:
        """Return `max_ahead` in ticks if it is a distance from the newest row, else None."""
        if self.max_ahead is None or self.max_ahead == BY_CLOCK:
            return None
        return positive("max_ahead", axis.span(self.max_ahead, name="max_ahead"), self.max_ahead)


@dataclass(frozen=True, kw_only=True)
class NoPolicy(WatermarkPolicy):
    """The placeholder for a missing `watermark=`; a join with `quality=` supplies the policy."""

    def track(self, axis: Axis, schema: pa.Schema) -> Tracker[Any]:
        """Raise SpecError: without a watermark no window could close."""
        raise SpecError(
            f"watermark= is missing for the stream over {axis.column!r}, so no window of it could "
            f"close; give lw.slack('10 seconds'), lw.quality(0.95) or another policy, join it "
            f"with quality=, or run the query with need=lw.need(...)"
        )


def positive(name: str, span: int, value: Any) -> int:
    """Return `span`; raise SpecError if `span` is negative."""
    if span < 0:
        raise SpecError(f"{name}={value!r} must not be negative; give zero or more")
    return span


def source_column(name: str, column: str, schema: pa.Schema) -> str:
    """Return `column`; raise SpecError if it is missing or its type cannot identify sources."""
    if column not in schema.names:
        raise unknown_name("column", column, schema.names)
    t = schema.field(column).type
    if not (pa.types.is_string(t) or pa.types.is_integer(t) or pa.types.is_boolean(t)):
        raise SpecError(
            f"{name}={column!r} is {t}, but only text, integers and booleans can identify sources; "
            f"cast the column"
        )
    return column
