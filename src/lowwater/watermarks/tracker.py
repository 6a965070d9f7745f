"""Trackers: watermark policies bound to the time column of one stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from lowwater.codec import applied
from lowwater.control.report import InputReport
from lowwater.control.watermark import Watermarks, latest

Memory = TypeVar("Memory")


class Tracker(ABC, Generic[Memory]):
    """A component that computes the watermarks of one stream from the measurements of each epoch.

    A tracker is stateless. The control log holds the tracker's memory, a frozen dataclass.
    """

    memory_type: type[Memory]
    """The dataclass of the tracker's memory."""
    source: str | None = None
    """The column that identifies sources, if each source has its own watermark."""
    tail: int = 0
    """Ingest reports the running maximum of time for this many rows at the end of each block."""
    consistent: bool = False
    """Whether a row that is late for one window misses all of its windows."""
    mark_when: str | None = None
    """The boolean column that is true in punctuations."""
    mark_since: str | None = None
    """The column with the start of the interval that a punctuation completes."""

    def begin(self) -> Memory:
        """Return the memory before the first epoch."""
        return self.memory_type()

    @abstractmethod
    def advance(self, memory: Memory, report: InputReport, now: int) -> tuple[Memory, Watermarks]:
        """Return the new memory and the watermarks after an epoch.

        The controller calls this method once per epoch, in order. While no rows arrive,
        `report` is empty, and the call tests whether the clock alone raises a watermark.
        """

    def reached(self, memory: Memory, report: InputReport) -> Watermarks:
        """Return the watermarks after an epoch if the slack were 0; empty if it is not adaptive."""
        del memory, report
        return Watermarks()


@dataclass(frozen=True)
class HeartbeatMemory(Generic[Memory]):
    """The memory of the inner tracker, the clock reading at the last row, and the newest time."""

    VERSION: ClassVar[int] = 1

    inner: Memory
    active: int | None = None
    newest: int | None = None


class Heartbeat(Tracker[HeartbeatMemory[Memory]]):
    """A tracker that raises the watermark with the wall clock while a stream is idle (OOP A.1.1).

    The watermark of an idle stream is at least the newest time plus the length of the silence minus
    `idle_timeout`; with `wall`, at least the wall clock minus `idle_timeout`.
    """

    def __init__(self, inner: Tracker[Memory], idle_timeout: int, *, wall: bool) -> None:
        self.inner, self.idle_timeout, self.wall = inner, idle_timeout, wall
        self.memory_type = applied(HeartbeatMemory, inner.memory_type)
        self.source, self.tail = inner.source, inner.tail
        self.consistent, self.mark_when = inner.consistent, inner.mark_when
        self.mark_since = inner.mark_since

    def begin(self) -> HeartbeatMemory[Memory]:  # noqa: D102
        return HeartbeatMemory(self.inner.begin())

    def advance(
        self, memory: HeartbeatMemory[Memory], report: InputReport, now: int
    ) -> tuple[HeartbeatMemory[Memory], Watermarks]:
        """Return the memory, and the inner tracker's watermarks, raised if the stream is idle."""
        inner, watermarks = self.inner.advance(memory.inner, report, now)
        active = memory.active
        if report.rows or report.marks != Watermarks() or active is None:
            active = now
        newest, silence = latest(memory.newest, report.newest), now - active
        if newest is not None and silence >= self.idle_timeout:
            beat = (now if self.wall else newest + silence) - self.idle_timeout
            watermarks = watermarks.raised(Watermarks(beat))
        return HeartbeatMemory(inner, active, newest), watermarks

    def reached(self, memory: HeartbeatMemory[Memory], report: InputReport) -> Watermarks:  # noqa: D102
        return self.inner.reached(memory.inner, report)


@dataclass(frozen=True)
class Gauge:
    """The tracker of one input, and limits for a watermark that only the clock advances.

    `wall` is whether the policy needs the wall clock of each epoch. If `grain` is not 0, the clock
    alone advances the watermark by at least `grain` ticks at a time, and only while an operator has
    state.
    """

    tracker: Tracker[Any]
    wall: bool = False
    grain: int = 0
