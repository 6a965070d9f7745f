"""A tracker: a watermark policy bound to one stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from lowwater.codec import applied
from lowwater.control.report import InputReport
from lowwater.control.watermark import Watermarks, latest

Memory = TypeVar("Memory")


class Tracker(ABC, Generic[Memory]):
    """Computes the watermarks of one stream from the measurements of each epoch.

    A tracker is stateless. The control log holds its memory, a frozen dataclass.
    """

    memory_type: type[Memory]
    """The dataclass of its memory."""
    source: str | None = None
    """The column that identifies sources, if each source has a watermark of its own."""
    tail: int = 0
    """The number of newest rows whose times ingest measures one by one."""
    consistent: bool = False
    """Whether a row that is late for one window misses all of its windows."""
    mark_when: str | None = None
    """The boolean column whose true rows are punctuations."""
    mark_since: str | None = None
    """The column with the start of the interval that a punctuation completes."""

    def begin(self) -> Memory:
        """Return the memory before the first epoch."""
        return self.memory_type()

    @abstractmethod
    def advance(self, memory: Memory, report: InputReport, now: int) -> tuple[Memory, Watermarks]:
        """Return the new memory and the watermarks after an epoch.

        The controller calls this once per epoch, in order. While no row arrives, it also calls this
        with an empty report, only to learn whether the clock alone would raise a watermark.
        """


@dataclass(frozen=True)
class HeartbeatMemory(Generic[Memory]):
    """The memory of the inner tracker, the clock at the last row, and the newest event time."""

    VERSION: ClassVar[int] = 1

    inner: Memory
    active: int | None = None
    newest: int | None = None


class Heartbeat(Tracker[HeartbeatMemory[Memory]]):
    """Raises the watermark with the wall clock once a stream is idle for a timeout (OOP A.1.1).

    The heartbeat watermark is the newest event time plus the length of the silence minus the
    timeout; with `wall`, the wall clock minus the timeout.
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
        """Return the inner tracker's watermarks, raised by the heartbeat during silence."""
        inner, watermarks = self.inner.advance(memory.inner, report, now)
        active = memory.active
        if report.rows or report.marks != Watermarks() or active is None:
            active = now
        newest, silence = latest(memory.newest, report.newest), now - active
        if newest is not None and silence >= self.idle_timeout:
            beat = (now if self.wall else newest + silence) - self.idle_timeout
            watermarks = watermarks.raised(Watermarks(beat))
        return HeartbeatMemory(inner, active, newest), watermarks


@dataclass(frozen=True)
class Gauge:
    """How the watermark of one input is advanced.

    `wall`: the tracker reads the wall clock at the end of an epoch. Where windows may end at any
    tick, the clock alone advances the watermark only by `grain`, and only while an operator has
    state.
    """

    tracker: Tracker[Any]
    wall: bool = False
    grain: int = 0
