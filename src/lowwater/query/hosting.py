"""What a query asks of a host, and what it gets back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from lowwater.control import ACCOUNTS, TALLIES, Entry
from lowwater.durations import Duration, Instant, instant_ticks, ticks
from lowwater.errors import SpecError
from lowwater.kernels import Packet, WindowPlan
from lowwater.kernels.late import late_tables
from lowwater.kernels.packets import Kind, tables
from lowwater.sinks import Memory, Sink
from lowwater.windows import Axis

if TYPE_CHECKING:
    from lowwater.query.query import Query


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


@dataclass(frozen=True)
class Status:
    """Where a query stands after its newest epoch.

    Attributes
    ----------
    counts
        Rows by what became of them; they add up (`balanced`). `status["late"]` reads one.
    lwm, newest
        The low-water mark and the newest time admitted, as values of the window attribute. The mark
        is None before there is one and after the stream has `ended`.
    cells, state_bytes
        Open partial aggregates, and what they take up.
    skew
        Rows of the busiest shard over the mean of all.
    rows_per_second
        Rows of the newest epoch by the time it took, where the host knows it.
    """

    epoch: int
    counts: Mapping[str, int]
    lwm: Any
    newest: Any
    ended: bool
    cells: int
    state_bytes: int
    skew: float
    rows_per_second: float | None = None

    @classmethod
    def of(cls, entry: Entry, axis: Axis, rows_per_second: float | None = None) -> Status:
        """Read the status off a log entry."""
        counts = dict(entry.totals)
        shards = list(counts.pop("shards", {}).values())
        rows = [r for *_, r in shards]
        return cls(
            entry.epoch,
            counts,
            None if entry.ended else axis.value(entry.standing.marks.low),
            axis.value(entry.standing.newest),
            entry.ended,
            sum(cells for cells, *_ in shards),
            sum(size for _, size, _ in shards),
            max(rows) * len(rows) / sum(rows) if sum(rows) else 1.0,
            rows_per_second,
        )

    def __getitem__(self, name: str) -> int:
        if name not in TALLIES:
            raise KeyError(f"{name!r} is not counted; these are: {', '.join(TALLIES)}")
        return self.counts.get(name, 0)

    @property
    def balanced(self) -> bool:
        """Whether every row that came in is accounted for."""
        return self["in"] == sum(self[a] for a in ACCOUNTS)


@dataclass
class Outputs:
    """The sinks of a query's three outputs."""

    results: Sink | None = None
    late: Sink | None = None
    malformed: Sink | None = None

    def in_memory(self) -> Outputs:
        """Return the outputs with memory sinks where the user named none."""
        return Outputs(*(s or Memory() for s in (self.results, self.late, self.malformed)))

    def write(self, epoch: int, plan: WindowPlan, packets: list[Packet]) -> dict[str, int]:
        """Write what an epoch emitted; return the number of rows by output."""
        written: dict[str, int] = {}
        outputs: tuple[tuple[Kind, Sink | None, pa.Schema], ...] = (
            ("results", self.results, plan.result_schema),
            ("late", self.late, plan.late_schema),
            ("malformed", self.malformed, plan.malformed_schema),
        )
        for kind, sink, schema in outputs:
            found = late_tables(plan, packets) if kind == "late" else tables(packets, kind)
            if found:
                rows = pa.concat_tables([t.cast(schema) for t in found])
                written[kind] = len(rows)
                if sink is not None:
                    sink.write(epoch, rows)
        return written


@dataclass(frozen=True)
class Outcome:
    """What a bounded run gave. A table is there if its rows went to memory, else it is None."""

    results: pa.Table | None
    late: pa.Table | None
    malformed: pa.Table | None
    status: Status

    @classmethod
    def of(cls, plan: WindowPlan, outputs: Outputs, status: Status) -> Outcome:
        """Gather what lies in memory."""

        def read(sink: Sink | None, schema: pa.Schema) -> pa.Table | None:
            return sink.table(schema) if isinstance(sink, Memory) else None

        return cls(
            read(outputs.results, plan.result_schema),
            read(outputs.late, plan.late_schema),
            read(outputs.malformed, plan.malformed_schema),
            status,
        )


class Run(ABC):
    """A running query."""

    @abstractmethod
    def status(self) -> Status:
        """Return where the query stands after its newest epoch."""

    @abstractmethod
    def stop(self) -> None:
        """Stop after the epoch at work; the checkpoint holds all that is needed to go on."""

    @abstractmethod
    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the query to end, or for some seconds; say whether it has ended."""


class Host(Protocol):
    """Runs kernels."""

    def run(
        self,
        query: Query,
        source: Any,
        outputs: Outputs,
        *,
        checkpoint: str | None,
        clock: Clock | None,
        shards: int | None,
    ) -> Outcome:
        """Run a bounded query to its end."""

    def start(
        self, query: Query, source: Any, outputs: Outputs, *, checkpoint: str, trigger: str | None
    ) -> Run:
        """Start a query that runs on."""


def host_named(name: str) -> Host:
    """Return a host. Hosts stand above queries, so they are looked up, not imported."""
    if name not in ("local", "spark"):
        raise SpecError(f"host={name!r} is unknown; it is 'spark' or 'local'")
    host: Host = import_module(f"lowwater.{name}.host").HOST
    return host
