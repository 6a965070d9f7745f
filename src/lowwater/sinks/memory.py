"""Sinks that stay in the process: a list of tables, or the user's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lowwater.sinks.sink import Sink


@dataclass(frozen=True)
class Memory(Sink):
    """Keeps all rows in memory."""

    epochs: dict[int, pa.Table] = field(default_factory=dict)

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        self.epochs[epoch] = rows

    def table(self, schema: pa.Schema) -> pa.Table:
        """Return all rows so far."""
        tables = [self.epochs[e] for e in sorted(self.epochs)]
        return pa.concat_tables([schema.empty_table(), *tables])


@dataclass(frozen=True)
class Callback(Sink):
    """Hands each epoch to a function."""

    function: Callable[[int, pa.Table], None]

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        self.function(epoch, rows)


@dataclass(frozen=True)
class Both(Sink):
    """Hands each epoch to two sinks."""

    first: Sink
    second: Sink

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:  # noqa: D102
        self.first.prepare(schema, key)
        self.second.prepare(schema, key)

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        self.first.write(epoch, rows)
        self.second.write(epoch, rows)


def both(first: Sink | None, second: Sink | None) -> Sink | None:
    """Return a sink for all that two sinks take."""
    return Both(first, second) if first is not None and second is not None else first or second


def memory() -> Memory:
    """Keep results in memory: for tests and small streams."""
    return Memory()


def callback(function: Callable[[int, pa.Table], None]) -> Callback:
    """Call `function(epoch, table)` with the rows of every epoch that has some."""
    return Callback(function)
