"""Pending outputs: the tables of an epoch that are not yet written to the sinks.

The tables of an epoch are written to one file of the checkpoint before the epoch's entry is
appended, and to the sinks afterwards. If a run is killed in between, the next run writes the tables
of the file to the sinks and deletes the file. A file whose epoch has no entry is only deleted,
because the epoch runs again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lowwater.engine.entry import OutputTable
from lowwater.engine.log import ControlLog
from lowwater.engine.outputs import OutputWriter
from lowwater.errors import StateError, located
from lowwater.operators.packet import Packet, packed, unpacked
from lowwater.sinks.sink import Outputs
from lowwater.storage import AtomicFolder

_ENDING = ".outputs"
_FOOTER_BYTES = 8


@dataclass(frozen=True)
class PendingTable:
    """A table of an epoch for one sink, with the name of the output and the kind of rows."""

    output: str
    kind: str
    rows: pa.Table


class PendingOutputs:
    """The sinks of a run, by output; pending tables are stored unless `folder` is None."""

    def __init__(
        self,
        writers: Mapping[str, OutputWriter],
        sinks: Mapping[str, Outputs],
        folder: str | None = None,
    ) -> None:
        self.writers, self.sinks = writers, dict(sinks)
        self._folder = None if folder is None else AtomicFolder(folder)

    def watch(self, tap: Outputs) -> None:
        """Write the rows of the first output also to the sinks of `tap`, from the next epoch on."""
        first = next(iter(self.sinks))
        self.sinks[first] = self.sinks[first].beside(tap)

    def stage(self, epoch: int, packets: Sequence[Packet]) -> list[PendingTable]:
        """Store and return the tables of an epoch, except tables without a sink."""
        tables = [
            PendingTable(name, kind, rows)
            for name, sinks in self.sinks.items()
            for kind, rows in self.writers[name].tables(packets).items()
            if sinks.sink(kind) is not None
        ]
        if tables and self._folder is not None:
            self._folder.write(_name(epoch), _to_bytes(tables))
        return tables

    def publish(self, epoch: int, tables: Sequence[PendingTable]) -> None:
        """Write the tables of an epoch to their sinks, then delete the stored copies."""
        for table in tables:
            sink = self.sinks.get(table.output, Outputs()).sink(table.kind)
            if sink is not None:
                with located(f"the sink of {table.kind}"):
                    sink.write(epoch, table.rows)
        if tables and self._folder is not None:
            self._folder.delete(_name(epoch))

    def recover(self, log: ControlLog) -> None:
        """Publish stored tables of epochs that have an entry; delete the tables of other epochs."""
        if self._folder is None:
            return
        self._folder.remove_partial()
        for name in sorted(self._folder.names()):
            epoch = int(name.removesuffix(_ENDING))
            content = self._folder.read(name)
            if content is not None and log.read(epoch) is not None:
                self.publish(epoch, list(_from_bytes(content, name)))
            self._folder.delete(name)


def manifest(tables: Sequence[PendingTable]) -> tuple[OutputTable, ...]:
    """Return the records of `tables` for the epoch's entry."""
    return tuple(OutputTable(t.output, t.kind, len(t.rows)) for t in tables)


def _to_bytes(tables: Sequence[PendingTable]) -> bytes:
    contents = [packed(table.rows) for table in tables]
    index = [[t.output, t.kind, len(c)] for t, c in zip(tables, contents, strict=True)]
    footer = json.dumps(index).encode()
    return b"".join((*contents, footer, len(footer).to_bytes(_FOOTER_BYTES, "big")))


def _from_bytes(content: bytes, name: str) -> Iterator[PendingTable]:
    length = int.from_bytes(content[-_FOOTER_BYTES:], "big")
    end = len(content) - _FOOTER_BYTES - length
    if end < 0:
        raise StateError(
            f"the pending outputs {name} of the checkpoint are damaged; start the query with a new "
            f"checkpoint"
        )
    start = 0
    for output, kind, size in json.loads(content[end:-_FOOTER_BYTES]):
        yield PendingTable(output, kind, unpacked(content[start : start + size]))
        start += size


def _name(epoch: int) -> str:
    return f"{epoch:012d}{_ENDING}"
