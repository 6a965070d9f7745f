"""The interface between a query and its host, and the outcome of a bounded run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import pyarrow as pa

from lowwater.engine.clock import Clock
from lowwater.engine.pending_outputs import Ahead
from lowwater.engine.run import Run, notebook
from lowwater.engine.status import Status
from lowwater.errors import SpecError
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.sinks.sink import Memory, Outputs


@dataclass(frozen=True)
class Outcome:
    """The tables and the status of a bounded run; a table is None if a sink received its rows."""

    results: pa.Table | None
    late: pa.Table | None
    malformed: pa.Table | None
    status: Status
    dropped: pa.Table | None = None
    bad_files: pa.Table | None = None
    """The files that were not read, with the reason."""
    groups: tuple[str, ...] = ()
    """The result columns that identify a group."""

    def _repr_html_(self) -> str:
        return str(notebook().html_of(self))


def outcomes(run: Run, sinks: Mapping[str, Outputs]) -> dict[str, Outcome]:
    """Return the outcome of each output of an ended run, by the name of the output."""
    by_name = {}
    for name, writer in run.writers.items():
        tables = {
            kind: sink.table(schema) if isinstance(sink := sinks[name].sink(kind), Memory) else None
            for kind, schema in writer.schemas.items()
        }
        status = run.status(writer.operators)
        by_name[name] = Outcome(**tables, status=status, groups=writer.key[1:])
    return by_name


class Host(Protocol):
    """The component that runs queries: on Spark, or in one process."""

    def run(
        self,
        assembly: PhysicalPlan,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str | None,
        clock: Clock | None,
        shards: int | None,
        ahead: Ahead | None = None,
    ) -> dict[str, Outcome]:
        """Run a query to the end of its bounded streams; return the outcome of each output."""

    def start(
        self,
        assembly: PhysicalPlan,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str | None,
        trigger: str | None,
        clock: Clock | None = None,
        ahead: Ahead | None = None,
    ) -> Run:
        """Start a continuous run; without a checkpoint, the local host keeps state in memory."""


def host_named(name: str) -> Host:
    """Return the host `name`; its module is imported late, because hosts import this module."""
    if name not in ("local", "spark"):
        raise SpecError(f"host={name!r} is unknown; write 'spark' or 'local'")
    host: Host = import_module(f"lowwater.{name}.host").HOST
    return host
