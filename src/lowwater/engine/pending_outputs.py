"""Pending outputs: the tables of an epoch that are not yet written to the sinks.

The tables of an epoch are written to one file of the checkpoint before the epoch's entry is
appended; the entry names the file and its checksum. Then the tables are written to the sinks. A new
run publishes the file of the newest entry again, unless the log shows that its owner has published
it. The file is deleted after the next entry, so it exists as long as a run may need it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from lowwater.engine.checksum import checksum
from lowwater.engine.entry import Entry, OutputTable, PendingFile
from lowwater.engine.fault_points import reached
from lowwater.engine.log import ControlLog
from lowwater.engine.outputs import OutputWriter
from lowwater.errors import StateError, located
from lowwater.operators.packet import Packet, packed, unpacked
from lowwater.sinks.sink import History, Outputs
from lowwater.storage.folder import AtomicFolder

Ahead = Literal["truncate", "keep"]
"""What to do with epochs in a sink that are not in the checkpoint."""
_ENDING = ".outputs"
_FOOTER_BYTES = 8


@dataclass(frozen=True)
class PendingTable:
    """A table of an epoch for one sink, with the name of the output and the kind of rows."""

    output: str
    kind: str
    rows: pa.Table


@dataclass(frozen=True)
class StagedOutputs:
    """The tables of an epoch, and the file that stores them; None if they are not stored."""

    tables: Sequence[PendingTable] = ()
    file: PendingFile | None = None

    @property
    def manifest(self) -> tuple[OutputTable, ...]:
        """The records of the tables, for the epoch's entry."""
        return tuple(OutputTable(t.output, t.kind, len(t.rows)) for t in self.tables)


class PendingOutputs:
    """The sinks of a run by output, and a `folder` of pending tables (None: do not store them)."""

    def __init__(
        self,
        writers: Mapping[str, OutputWriter],
        sinks: Mapping[str, Outputs],
        folder: str | None = None,
        query: str = "",
        *,
        checkpoint: str = "",
        ahead: Ahead | None = None,
    ) -> None:
        self.writers, self.sinks, self.query = writers, dict(sinks), query
        self.checkpoint, self.ahead = checkpoint, ahead
        self._folder = None if folder is None else AtomicFolder(folder)

    def watch(self, tap: Outputs) -> None:
        """Write the rows of the first output also to the sinks of `tap`, from the next epoch on."""
        first = next(iter(self.sinks))
        self.sinks[first] = self.sinks[first].beside(tap)

    def stage(self, epoch: int, packets: Sequence[Packet], owner: str) -> StagedOutputs:
        """Store and return the tables of an epoch, except tables without a sink."""
        tables = [
            PendingTable(name, kind, rows)
            for name, sinks in self.sinks.items()
            for kind, rows in self.writers[name].tables(packets).items()
            if sinks.sink(kind) is not None
        ]
        if not tables or self._folder is None:
            return StagedOutputs(tables)
        name, content = f"{epoch:012d}-{owner}{_ENDING}", _to_bytes(tables)
        self._folder.write(name, content)
        return StagedOutputs(tables, PendingFile(name, checksum(content, self.query, name)))

    def publish(self, entry: Entry, tables: Sequence[PendingTable]) -> None:
        """Write the tables of the epoch of `entry` to their sinks."""
        for table in tables:
            sink = self.sinks.get(table.output, Outputs()).sink(table.kind)
            if sink is not None:
                with located(f"the sink of {table.kind}"):
                    sink.write_epoch(entry.epoch, table.rows, entry.tag)
                reached("sink")

    def take_over(self, log: ControlLog) -> None:
        """Make this run the owner of its sinks; raise StateError if a sink is ahead of the log.

        A sink is ahead if it holds an epoch that is not in the log. With `self.ahead`, the sink is
        truncated, or kept as it is.
        """
        history = _history(log, self.query, self.checkpoint)
        before: list[str] = []
        for name, outputs in self.sinks.items():
            for kind, sink in vars(outputs).items():
                if sink is None:
                    continue
                sink.take_over(history)
                epoch = sink.ahead(history)
                if epoch is not None and self.ahead == "truncate":
                    sink.truncate(history)
                elif epoch is not None:
                    before.append(f"{kind} of {name!r} has epoch {epoch}")
        if before and self.ahead is None:
            raise StateError(
                f"outputs are ahead of the checkpoint, which ends at epoch {history.newest}: "
                f"{'; '.join(before)}. The checkpoint was rewound or restored. Start with "
                f"outputs='truncate' to remove these epochs, or outputs='keep' to leave them: "
                f"their rows may come twice"
            )

    def publish_again(self, entry: Entry) -> None:
        """Publish the stored tables of `entry`, whose run may have ended before it published."""
        if self._folder is None or entry.pending is None:
            return
        name = entry.pending.name
        content, path = self._folder.read(name), self._folder.path(name)
        if content is None:
            raise StateError(f"{path} is missing: the outputs of epoch {entry.epoch}; {_REMEDY}")
        if checksum(content, self.query, name) != entry.pending.checksum:
            raise StateError(f"{path} is damaged: its checksum differs; {_REMEDY}")
        with located(f"epoch {entry.epoch}"):
            self.publish(entry, list(_from_bytes(content)))

    def forget(self, entry: Entry) -> None:
        """Delete the stored tables of `entry`, which has a next entry."""
        if self._folder is not None and entry.pending is not None:
            self._folder.delete(entry.pending.name)

    def stored(self) -> list[str]:
        """Return the names of all stored files."""
        return [] if self._folder is None else sorted(self._folder.names())

    def discard(self, log: ControlLog) -> None:
        """Delete all files except the file of the newest entry. Only the owner calls this."""
        if self._folder is None:
            return
        newest, present = log.newest() or Entry(-1), self.stored()
        log.check_owner()  # all files that were listed before are of this owner, or older
        self._folder.remove_partial()
        kept = None if newest.pending is None else newest.pending.name
        for name in present:
            if name != kept:
                self._folder.delete(name)


_REMEDY = (
    "restore it from a backup, rewind the checkpoint with lowwater state FOLDER --rewind EPOCH, or "
    "start with a new one"
)


def _history(log: ControlLog, query: str, checkpoint: str) -> History:
    """Return the history of a query, as its control log tells it."""
    newest = log.newest() or Entry(-1)
    return History(query, checkpoint, log.owner, newest.epoch, log.tags(), log.owned)


def _to_bytes(tables: Sequence[PendingTable]) -> bytes:
    contents = [packed(table.rows) for table in tables]
    index = [[t.output, t.kind, len(c)] for t, c in zip(tables, contents, strict=True)]
    footer = json.dumps(index).encode()
    return b"".join((*contents, footer, len(footer).to_bytes(_FOOTER_BYTES, "big")))


def _from_bytes(content: bytes) -> Iterator[PendingTable]:
    length = int.from_bytes(content[-_FOOTER_BYTES:], "big")
    end = len(content) - _FOOTER_BYTES - length
    start = 0
    for output, kind, size in json.loads(content[end:-_FOOTER_BYTES]):
        yield PendingTable(output, kind, unpacked(content[start : start + size]))
        start += size
