"""What a progress policy is: a way to learn that time has passed (OOP 3.2).

A policy is a noun that the user writes (`Slack`); bound to a window attribute it becomes a tracker,
which turns what an epoch showed into marks. A tracker keeps its memory as JSON, because it lives in
the control log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from lowwater.control import Marks, Seen
from lowwater.durations import Duration, ticks
from lowwater.errors import SpecError, unknown_name
from lowwater.windows import Axis


class Tracker(ABC):
    """A policy at work on one stream."""

    source: str | None = None
    """The column that tells sources apart, if marks are kept for each."""
    tail: int = 0
    """How many of the newest rows must be known one by one."""
    consistent: bool = False
    """Whether a row that is late for one window misses all."""
    mark_when: str | None = None
    """The boolean column whose true rows are punctuations."""
    mark_since: str | None = None
    """The column that says where the stretch begins that a punctuation is about."""

    def begin(self) -> dict[str, Any]:
        """Return the memory of a stream that has not begun."""
        return {}

    @abstractmethod
    def advance(
        self, memory: Mapping[str, Any], seen: Seen, now: int
    ) -> tuple[dict[str, Any], Marks]:
        """Return the new memory and the marks after an epoch.

        Called once per epoch, in order; and, with nothing seen and the answer thrown away, while no
        row arrives, to learn whether the clock alone would move a mark.
        """


@dataclass(frozen=True, kw_only=True)
class Progress(ABC):
    """How a stream's progress is learned. `lull`, `max_ahead` and `clock` are open to every kind.

    Attributes
    ----------
    lull
        A stream that is silent for longer than this (wall clock) is believed to go on in step with
        the wall clock, this much behind it, so that its last windows close.
    max_ahead
        A row further ahead of the newest admitted one is malformed and moves nothing.
    clock
        "wall" says that event times are wall-clock times: `lull` and `max_ahead` then count from
        the wall clock itself.
    """

    lull: Duration | None = None
    max_ahead: Any = None
    clock: Literal["wall"] | None = None

    def __post_init__(self) -> None:
        if self.clock not in (None, "wall"):
            raise SpecError(f"clock={self.clock!r} is unknown; it is 'wall' or left out")
        if self.lull is not None:
            positive("lull", ticks(self.lull, name="lull"), self.lull)

    @property
    def source(self) -> str | None:
        """The column whose values have marks of their own, if there is one."""
        return None

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns it reads, besides the time."""
        return () if self.source is None else (self.source,)

    @property
    def consistent(self) -> bool:
        """Whether a row that is late for one window misses all."""
        return False

    @abstractmethod
    def track(self, axis: Axis, schema: pa.Schema) -> Tracker:
        """Bind the policy to a window attribute; raise what does not fit."""

    def bind(self, axis: Axis, schema: pa.Schema) -> Tracker:
        """Return the tracker, with `lull` if one is set."""
        tracker = self.track(axis, schema)
        if self.lull is None:
            return tracker
        if axis.kind != "time":
            raise SpecError(
                f"lull={self.lull!r} needs a window over time; {axis.column!r} is a number"
            )
        return Lull(tracker, ticks(self.lull, name="lull"), wall=self.clock == "wall")

    def ahead(self, axis: Axis) -> int | None:
        """Return `max_ahead` in ticks."""
        if self.max_ahead is None:
            return None
        return positive("max_ahead", axis.span(self.max_ahead, name="max_ahead"), self.max_ahead)


@dataclass(frozen=True, kw_only=True)
class Unsaid(Progress):
    """Nothing is said of a stream's progress yet: a join with a quality target will."""

    def track(self, axis: Axis, schema: pa.Schema) -> Tracker:
        """Refuse: without progress nothing could ever be complete."""
        raise SpecError(
            f"progress= is missing for the stream over {axis.column!r}, so no window of it could "
            f"close; give lw.slack('10 seconds'), lw.quality(0.95) or another policy, or join it "
            f"with quality="
        )


class Lull(Tracker):
    """Heartbeats: during silence a mark follows the wall clock (OOP A.1.1)."""

    def __init__(self, inner: Tracker, lull: int, *, wall: bool) -> None:
        self.inner, self.lull, self.wall = inner, lull, wall
        self.source, self.tail = inner.source, inner.tail
        self.consistent, self.mark_when = inner.consistent, inner.mark_when
        self.mark_since = inner.mark_since

    def begin(self) -> dict[str, Any]:
        """Return the memory of a stream that has not begun."""
        return {"inner": self.inner.begin(), "heard": None, "newest": None}

    def advance(
        self, memory: Mapping[str, Any], seen: Seen, now: int
    ) -> tuple[dict[str, Any], Marks]:
        """Follow the stream while it speaks, the clock when it is silent."""
        inner, marks = self.inner.advance(memory["inner"], seen, now)
        heard, newest = memory["heard"], memory["newest"]
        if seen.rows or seen.marks != Marks() or heard is None:
            heard = now
        if seen.newest is not None:
            newest = seen.newest if newest is None else max(newest, seen.newest)
        kept = {"inner": inner, "heard": heard, "newest": newest}
        beat = self._beat(kept, now)
        return kept, marks if beat is None else marks.raised(Marks(beat))

    def _beat(self, memory: Mapping[str, Any], now: int) -> int | None:
        if memory["newest"] is None or now - memory["heard"] < self.lull:
            return None
        if self.wall:
            return now - self.lull
        return int(memory["newest"] + (now - memory["heard"]) - self.lull)


def positive(name: str, span: int, value: Any) -> int:
    """Return a span that must not be negative."""
    if span < 0:
        raise SpecError(f"{name}={value!r} must not be negative; give zero or more")
    return span


def source_column(name: str, column: str, schema: pa.Schema) -> str:
    """Check a column that tells sources apart."""
    if column not in schema.names:
        raise unknown_name("column", column, schema.names)
    t = schema.field(column).type
    if not (pa.types.is_string(t) or pa.types.is_integer(t) or pa.types.is_boolean(t)):
        raise SpecError(
            f"{name}={column!r}: sources are told apart by text, integers or booleans, not {t}; "
            f"cast the column"
        )
    return column
