"""The base class of sinks, and sinks that keep rows in memory or call a function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa


class Sink(ABC):
    """A receiver of the rows of one output, epoch by epoch."""

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:  # noqa: B027
        """Prepare for rows of `schema`; raise SpecError or SinkError if the sink cannot store them.

        Hosts call it before a run starts. `key` names the columns that identify a result (window
        and group); it is empty for rows without a key.
        """

    @abstractmethod
    def write(self, epoch: int, rows: pa.Table) -> None:
        """Store the rows of an epoch.

        Hosts call it on the driver, in order, once per epoch that has rows. After a crash they call
        it again with the same rows of the last epoch, which must be stored only once.
        """


@dataclass(frozen=True)
class Memory(Sink):
    """A sink that keeps all rows in memory."""

    epochs: dict[int, pa.Table] = field(default_factory=dict)

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        self.epochs[epoch] = rows

    def table(self, schema: pa.Schema) -> pa.Table:
        """Return all rows so far as one table."""
        tables = [self.epochs[e] for e in sorted(self.epochs)]
        return pa.concat_tables([schema.empty_table(), *tables])


@dataclass(frozen=True)
class Callback(Sink):
    """A sink that calls a function with the rows of each epoch."""

    function: Callable[[int, pa.Table], None]

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        self.function(epoch, rows)


@dataclass(frozen=True)
class TeeSink(Sink):
    """A sink that writes each epoch to two sinks."""

    first: Sink
    second: Sink

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:  # noqa: D102
        self.first.prepare(schema, key)
        self.second.prepare(schema, key)

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        self.first.write(epoch, rows)
        self.second.write(epoch, rows)


def to_memory() -> Memory:
    """Return a sink that keeps rows in memory, for tests and small streams."""
    return Memory()


def to_callback(function: Callable[[int, pa.Table], None]) -> Callback:
    """Return a sink that calls `function(epoch, table)` for every epoch that has rows."""
    return Callback(function)


@dataclass
class Outputs:
    """The sinks of a query's outputs.

    `dropped` receives the dropped windows, `bad_files` the files that were not read.
    """

    results: Sink | None = None
    late: Sink | None = None
    malformed: Sink | None = None
    dropped: Sink | None = None
    bad_files: Sink | None = None

    def in_memory(self) -> Outputs:
        """Return these outputs, with a memory sink for each output without a sink."""
        return Outputs(*(Memory() if sink is None else sink for sink in vars(self).values()))

    def sink(self, kind: str) -> Sink | None:
        """Return the sink of output `kind`; None if it has no sink."""
        sink: Sink | None = getattr(self, kind)
        return sink

    def beside(self, tap: Outputs) -> Outputs:
        """Return outputs that write to these sinks and to the sinks of `tap`."""
        both = dict(vars(self))
        for kind, sink in vars(tap).items():
            if sink is not None:
                both[kind] = sink if both[kind] is None else TeeSink(both[kind], sink)
        return Outputs(**both)
