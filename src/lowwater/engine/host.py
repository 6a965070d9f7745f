"""What a query asks of a host, and what it gets back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import pyarrow as pa

from lowwater.engine.outputs import OutputWriter
from lowwater.engine.run import Run, notebook
from lowwater.engine.status import Status
from lowwater.errors import SpecError
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.sinks.sink import Memory, Outputs, Sink
from lowwater.ticks import Duration, Instant, instant_ticks, ticks


class Clock(Protocol):
    """Tells the time of an epoch, in ticks."""

    def now(self, epoch: int) -> int:
        """Return the time at which an epoch is decided."""


class SystemClock:
    """The wall clock."""

    def now(self, epoch: int) -> int:
        """Return the time, in ticks."""
        return time.time_ns() // 1_000

    def took(self, epoch: int, began: float) -> int:
        """Return the ticks since `began`, a reading of `time.perf_counter`."""
        return round((time.perf_counter() - began) * 1e6)


@dataclass(frozen=True)
class VirtualClock:
    """A clock for tests: it stands at `start` in epoch 0 and goes on by `per_epoch`."""

    start: Instant = "1970-01-01"
    per_epoch: Duration = "1 second"

    def now(self, epoch: int) -> int:
        """Return the time of an epoch."""
        return instant_ticks(self.start, name="start") + epoch * ticks(self.per_epoch)


@dataclass(frozen=True)
class Outcome:
    """What a bounded run gave. A table is there if its rows went to memory, else it is None."""

    results: pa.Table | None
    late: pa.Table | None
    malformed: pa.Table | None
    status: Status
    dropped: pa.Table | None = None
    groups: tuple[str, ...] = ()
    """The columns of the results that name a group."""

    def _repr_html_(self) -> str:
        return str(notebook().html_of(self))

    @classmethod
    def of(cls, leaving: OutputWriter, outputs: Outputs, status: Status) -> Outcome:
        """Gather what lies in memory."""

        def read(sink: Sink | None, schema: pa.Schema) -> pa.Table | None:
            return sink.table(schema) if isinstance(sink, Memory) else None

        return cls(
            read(outputs.results, leaving.result_schema),
            read(outputs.late, leaving.late_schema),
            read(outputs.malformed, leaving.malformed_schema),
            status,
            read(outputs.dropped, leaving.shed_schema),
            leaving.key[1:],
        )


class Host(Protocol):
    """Runs kernels."""

    def run(
        self,
        assembly: PhysicalPlan,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str | None,
        clock: Clock | None,
        shards: int | None,
    ) -> dict[str, Outcome]:
        """Run to the end of bounded streams; return the outcome of each output."""

    def start(
        self,
        assembly: PhysicalPlan,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str | None,
        trigger: str | None,
    ) -> Run:
        """Start a query that runs on; None stores no checkpoint, which Spark refuses."""


def host_named(name: str) -> Host:
    """Return a host. Hosts stand above queries, so they are looked up, not imported."""
    if name not in ("local", "spark"):
        raise SpecError(f"host={name!r} is unknown; it is 'spark' or 'local'")
    host: Host = import_module(f"lowwater.{name}.host").HOST
    return host
