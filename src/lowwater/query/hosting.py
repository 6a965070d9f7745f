"""What a query asks of a host, and what it gets back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from lowwater.durations import Duration, Instant, instant_ticks, ticks
from lowwater.errors import SpecError
from lowwater.query.status import Status
from lowwater.sinks import Memory, Sink, both

if TYPE_CHECKING:
    from lowwater.query.assembly import Assembly
    from lowwater.query.handle import Run
    from lowwater.query.leaving import Leaving


class Clock(Protocol):
    """Tells the time of an epoch, in ticks."""

    def now(self, epoch: int) -> int:
        """Return the time at which an epoch is decided."""


@dataclass(frozen=True)
class VirtualClock:
    """A clock for tests: it stands at `start` in epoch 0 and goes on by `per_epoch`."""

    start: Instant = "1970-01-01"
    per_epoch: Duration = "1 second"

    def now(self, epoch: int) -> int:
        """Return the time of an epoch."""
        return instant_ticks(self.start, name="start") + epoch * ticks(self.per_epoch)


@dataclass
class Outputs:
    """The sinks of a query's outputs; `shed` takes the windows that were left out."""

    results: Sink | None = None
    late: Sink | None = None
    malformed: Sink | None = None
    shed: Sink | None = None

    def in_memory(self) -> Outputs:
        """Return the outputs with memory sinks where the user named none."""
        given = self.results, self.late, self.malformed, self.shed
        return Outputs(*(s or Memory() for s in given))

    def beside(self, tap: Outputs) -> Outputs:
        """Return outputs that another set of sinks sees as well."""
        mine, others = ((o.results, o.late, o.malformed, o.shed) for o in (self, tap))
        return Outputs(*(both(a, b) for a, b in zip(mine, others, strict=True)))


@dataclass(frozen=True)
class Outcome:
    """What a bounded run gave. A table is there if its rows went to memory, else it is None."""

    results: pa.Table | None
    late: pa.Table | None
    malformed: pa.Table | None
    status: Status
    shed: pa.Table | None = None
    groups: tuple[str, ...] = ()
    """The columns of the results that name a group."""

    def _repr_html_(self) -> str:
        return str(notebook().html_of(self))

    @classmethod
    def of(cls, leaving: Leaving, outputs: Outputs, status: Status) -> Outcome:
        """Gather what lies in memory."""

        def read(sink: Sink | None, schema: pa.Schema) -> pa.Table | None:
            return sink.table(schema) if isinstance(sink, Memory) else None

        return cls(
            read(outputs.results, leaving.result_schema),
            read(outputs.late, leaving.late_schema),
            read(outputs.malformed, leaving.malformed_schema),
            status,
            read(outputs.shed, leaving.shed_schema),
            leaving.key[1:],
        )


def notebook() -> Any:
    """Return how notebooks show things. That stands above queries, so it is looked up."""
    return import_module("lowwater.ui.notebook")


class Host(Protocol):
    """Runs kernels."""

    def run(
        self,
        assembly: Assembly,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str | None,
        clock: Clock | None,
        shards: int | None,
    ) -> dict[str, Outcome]:
        """Run to the end of bounded streams; return what came out, by output."""

    def start(
        self,
        assembly: Assembly,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str,
        trigger: str | None,
    ) -> Run:
        """Start a query that runs on."""


def host_named(name: str) -> Host:
    """Return a host. Hosts stand above queries, so they are looked up, not imported."""
    if name not in ("local", "spark"):
        raise SpecError(f"host={name!r} is unknown; it is 'spark' or 'local'")
    host: Host = import_module(f"lowwater.{name}.host").HOST
    return host
