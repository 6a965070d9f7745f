"""Watermark policies: how the watermark of a stream is computed (OOP 3.2).

The user gives a stream a policy (`Slack`). Bound to the stream's time column it becomes a tracker,
which computes watermarks from the measurements of each epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from lowwater.errors import SpecError, unknown_name
from lowwater.ticks import Duration, ticks
from lowwater.watermarks.tracker import Heartbeat, Tracker
from lowwater.windows.axis import Axis


@dataclass(frozen=True, kw_only=True)
class WatermarkPolicy(ABC):
    """How the watermark of a stream is computed. Every policy has these options.

    - `idle_timeout`: If the stream is silent for longer than this (wall clock), its watermark
      follows the wall clock, behind it by this much, so that the last windows close.
    - `max_ahead`: A row further ahead of the newest admitted row is malformed and moves no
      watermark.
    - `clock`: "wall" declares that event times are wall-clock times: `idle_timeout` and `max_ahead`
      then count from the wall clock itself.
    """

    idle_timeout: Duration | None = None
    max_ahead: Any = None
    clock: Literal["wall"] | None = None

    def __post_init__(self) -> None:
        if self.clock not in (None, "wall"):
            raise SpecError(f"clock={self.clock!r} is unknown; write clock='wall', or remove it")
        if self.idle_timeout is not None:
            span = ticks(self.idle_timeout, name="idle_timeout")
            positive("idle_timeout", span, self.idle_timeout)

    @property
    def source(self) -> str | None:
        """The column whose values have watermarks of their own, or None."""
        return None

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that the policy reads, besides the time."""
        return () if self.source is None else (self.source,)

    @property
    def consistent(self) -> bool:
        """Whether a row that is late for one window misses all of its windows."""
        return False

    @abstractmethod
    def track(self, axis: Axis, schema: pa.Schema) -> Tracker[Any]:
        """Return the tracker for a time column; raise SpecError if the policy does not fit it."""

    def bind(self, axis: Axis, schema: pa.Schema) -> Tracker[Any]:
        """Return the tracker, inside a heartbeat if `idle_timeout` is set."""
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

    def ahead(self, axis: Axis) -> int | None:
        """Return `max_ahead` in ticks."""
        if self.max_ahead is None:
            return None
        return positive("max_ahead", axis.span(self.max_ahead, name="max_ahead"), self.max_ahead)


@dataclass(frozen=True, kw_only=True)
class NoPolicy(WatermarkPolicy):
    """A stream without `watermark=`: a join with a quality target supplies the policy."""

    def track(self, axis: Axis, schema: pa.Schema) -> Tracker[Any]:
        """Raise SpecError: without a watermark no window could close."""
        raise SpecError(
            f"watermark= is missing for the stream over {axis.column!r}, so no window of it could "
            f"close; give lw.slack('10 seconds'), lw.quality(0.95) or another policy, or join it "
            f"with quality="
        )


def positive(name: str, span: int, value: Any) -> int:
    """Return the span; raise SpecError if it is negative."""
    if span < 0:
        raise SpecError(f"{name}={value!r} must not be negative; give zero or more")
    return span


def source_column(name: str, column: str, schema: pa.Schema) -> str:
    """Return the name of a source column; raise SpecError if its type cannot identify sources."""
    if column not in schema.names:
        raise unknown_name("column", column, schema.names)
    t = schema.field(column).type
    if not (pa.types.is_string(t) or pa.types.is_integer(t) or pa.types.is_boolean(t)):
        raise SpecError(
            f"{name}={column!r} is {t}, but only text, integers and booleans can identify sources; "
            f"cast the column"
        )
    return column
