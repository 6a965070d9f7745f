"""The base class of sinks, and sinks that keep rows in memory or call a function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from lowwater.errors import SinkError, SpecError

Existing = Literal["append", "overwrite"]
"""What a sink does with rows of another query that are in its folder or table already."""


def checked_existing(existing: Existing | None) -> Existing | None:
    """Return the argument `existing` of a sink; raise SpecError if it is unknown."""
    if existing not in (None, "append", "overwrite"):
        raise SpecError(f"existing={existing!r} is unknown; write 'append' or 'overwrite'")
    return existing


@dataclass(frozen=True)
class History:
    """The epochs of a query that have an entry in its control log.

    - `query`, `checkpoint`: The id of the query, and the path of its checkpoint, "" without one.
    - `owner`: The token of the run.
    - `newest`: The number of the newest epoch with an entry, or -1.
    - `tags`: {epoch: tag} of the newest epochs. The tag shows which rows the epoch was opened for.
      An opened epoch after `newest` has a tag, too.
    - `owned`: A function that returns whether the run still owns its checkpoint.
    """

    query: str
    checkpoint: str
    owner: str
    newest: int
    tags: Mapping[int, str]
    owned: Callable[[], bool] = lambda: True

    def holds(self, epoch: int, tag: str) -> bool:
        """Return whether the epoch is in this history; an epoch older than all `tags` counts."""
        if epoch in self.tags:
            return self.tags[epoch] == tag
        return epoch < min(self.tags, default=0)


class Sink(ABC):
    """A receiver of the rows of one output, epoch by epoch."""

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:  # noqa: B027
        """Prepare for rows of `schema`; raise SpecError or SinkError if the sink cannot store them.

        Hosts call it before a run starts. `key` names the columns that identify a result (window
        and group); it is empty for rows without a key.
        """

    @property
    def places(self) -> tuple[str, ...]:
        """The places in which a second output would overwrite the rows, such as a folder."""
        return ()

    @abstractmethod
    def write(self, epoch: int, rows: pa.Table) -> None:
        """Store the rows of an epoch.

        Hosts call it on the driver, in order, once per epoch that has rows. After a crash they call
        it again with the same rows of the last epoch, which must be stored only once.
        """

    def take_over(self, history: History) -> None:  # noqa: B027
        """Become the sink of a run, before its first write.

        Raise SinkError if the sink holds rows of another query.
        """

    def ahead(self, history: History) -> int | None:
        """Return the last epoch in the sink if it is not in `history`; else None.

        A sink that does not remember its epochs returns None.
        """
        del history
        return None

    def truncate(self, history: History) -> None:
        """Remove the rows of all epochs that are not in `history`."""
        raise SinkError(f"{type(self).__name__} cannot remove rows; start with outputs='keep'")

    def write_epoch(self, epoch: int, rows: pa.Table, tag: str) -> None:
        """Store the rows of the epoch with this tag; sinks that remember epochs override it."""
        del tag
        self.write(epoch, rows)


@dataclass(frozen=True)
class Memory(Sink):
    """A sink that keeps all rows in memory."""

    epochs: dict[int, pa.Table] = field(default_factory=dict)

    @property
    def places(self) -> tuple[str, ...]:  # noqa: D102
        return (f"to_memory() at {id(self.epochs):#x}",)

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

    @property
    def places(self) -> tuple[str, ...]:  # noqa: D102
        return (*self.first.places, *self.second.places)

    def prepare(self, schema: pa.Schema, key: Sequence[str]) -> None:  # noqa: D102
        self.first.prepare(schema, key)
        self.second.prepare(schema, key)

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        self.write_epoch(epoch, rows, "")

    def take_over(self, history: History) -> None:  # noqa: D102
        self.first.take_over(history)
        self.second.take_over(history)

    def ahead(self, history: History) -> int | None:  # noqa: D102
        both = [self.first.ahead(history), self.second.ahead(history)]
        return max((epoch for epoch in both if epoch is not None), default=None)

    def truncate(self, history: History) -> None:  # noqa: D102
        for sink in (self.first, self.second):
            if sink.ahead(history) is not None:
                sink.truncate(history)

    def write_epoch(self, epoch: int, rows: pa.Table, tag: str) -> None:  # noqa: D102
        self.first.write_epoch(epoch, rows, tag)
        self.second.write_epoch(epoch, rows, tag)


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
