"""The contract of a sink, and sinks in the process: rows in memory, or a function of the user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa


class Sink(ABC):
    """Receives the rows of one output, epoch by epoch."""

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:  # noqa: B027
        """Prepare for rows of `schema`; raise SpecError or SinkError if they cannot be stored.

        Called before a run starts. `key` names the columns that identify a result, a window and a
        group; it is empty for rows without a key.
        """

    @abstractmethod
    def write(self, epoch: int, rows: pa.Table) -> None:
        """Store the rows of an epoch.

        Called on the driver, in order, once per epoch that has rows. After a crash it is called
        again for the last epoch, with the same rows; the result must be the same.
        """


@dataclass(frozen=True)
class Memory(Sink):
    """Keeps all rows in memory."""

    epochs: dict[int, pa.Table] = field(default_factory=dict)

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        self.epochs[epoch] = rows

    def table(self, schema: pa.Schema) -> pa.Table:
        """Return all rows so far as one table."""
        tables = [self.epochs[e] for e in sorted(self.epochs)]
        return pa.concat_tables([schema.empty_table(), *tables])


@dataclass(frozen=True)
class Callback(Sink):
    """Calls a function with the rows of each epoch."""

    function: Callable[[int, pa.Table], None]

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        self.function(epoch, rows)


@dataclass(frozen=True)
class TeeSink(Sink):
    """Writes each epoch to two sinks."""

    first: Sink
    second: Sink

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:  # noqa: D102
        self.first.prepare(schema, key)
        self.second.prepare(schema, key)

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        self.first.write(epoch, rows)
        self.second.write(epoch, rows)


def tee(first: Sink | None, second: Sink | None) -> Sink | None:
    """Return a sink that writes to both; the other one if either is None."""
    return TeeSink(first, second) if first is not None and second is not None else first or second


def to_memory() -> Memory:
    """Return a sink that keeps rows in memory, for tests and small streams."""
    return Memory()


def to_callback(function: Callable[[int, pa.Table], None]) -> Callback:
    """Return a sink that calls `function(epoch, table)` for every epoch that has rows."""
    return Callback(function)


@dataclass
class Outputs:
    """The sinks of a query's outputs; `dropped` receives the dropped windows."""

    results: Sink | None = None
    late: Sink | None = None
    malformed: Sink | None = None
    dropped: Sink | None = None

    def in_memory(self) -> Outputs:
        """Return the outputs with memory sinks where the user named none."""
        given = self.results, self.late, self.malformed, self.dropped
        return Outputs(*(s or Memory() for s in given))

    def sink(self, kind: str) -> Sink | None:
        """Return the sink of a kind of rows."""
        sink: Sink | None = getattr(self, kind)
        return sink

    def beside(self, tap: Outputs) -> Outputs:
        """Return outputs that another set of sinks sees as well."""
        mine, others = ((o.results, o.late, o.malformed, o.dropped) for o in (self, tap))
        return Outputs(*(tee(a, b) for a, b in zip(mine, others, strict=True)))
