"""JSON lines on standard input, spooled into files until an epoch has read them.

A pipe cannot be read twice, so lines are written into a folder of the checkpoint; an epoch that
runs again reads them there.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from lowwater.sources.files import Files
from lowwater.sources.source import BlockSource, SourceBlock

_ENDING, _LAST = ".jsonl", "-last.jsonl"
_FILE_BYTES = 8 << 20
_FILE_SECONDS = 0.2
"""A file is closed at this size, or this long after its first line."""
_END_SECONDS = 0.3
"""Delay of the end of the stream: Ctrl-C ends the writer of the pipe, too, and must win."""
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Spool(Files):
    """A folder of spooled lines; the file whose name ends in `-last.jsonl` ends the stream."""

    paced: ClassVar[bool] = True
    """A silent pipe has not ended."""

    def available(self, start: str) -> str:
        """Return the newest file, and delete the files that earlier epochs have read."""
        for path in Path(self.path).glob(f"*{_ENDING}"):
            if path.name < start:
                path.unlink(missing_ok=True)
        return super().available(start)

    def blocks(self, start: str, end: str) -> Sequence[SourceBlock]:
        """Return the files between two positions, in the order of arrival."""
        files = super().blocks(start, end)
        return [replace(b, last=b.what.endswith(_LAST)) for b in files]


@dataclass(frozen=True)
class StdinSource(BlockSource):
    """Lines of a file descriptor; `first` are bytes already read to infer the columns."""

    paced: ClassVar[bool] = True
    schema: pa.Schema
    descriptor: int = 0
    first: bytes = b""
    max_rows_per_epoch: int | None = None

    def prepare(self, folder: str) -> Spool:
        """Start a thread that spools lines into `folder`; return that folder as a source."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        spooler = _Spooler(Path(folder), self.descriptor, self.first)
        threading.Thread(target=spooler.run, daemon=True).start()
        path, limit = str(Path(folder).absolute()), self.max_rows_per_epoch
        return Spool(path, self.schema, "json", max_rows_per_epoch=limit)

    def begin(self) -> str:
        """Return the position before the first line."""
        return ""

    def available(self, start: str) -> str:
        """Return `start`: the source that `prepare` returns reads the lines."""
        return start

    def blocks(self, start: str, end: str) -> Sequence[SourceBlock]:
        """Return no blocks, for the same reason."""
        return []

    def read(self, block: SourceBlock) -> pa.Table:
        """Raise NotImplementedError: this source has no blocks."""
        raise NotImplementedError


class _Spooler:
    """Writes lines into files, each of which appears whole."""

    def __init__(self, folder: Path, descriptor: int, first: bytes) -> None:
        self.folder, self.pending = folder, first
        self.descriptor = os.dup(descriptor)  # open for as long as the thread reads
        for ended in folder.glob(f"*{_LAST}"):
            ended.unlink()  # a new pipe continues the stream
        numbers = [int(p.name[:12]) for p in folder.glob(f"*{_ENDING}")]
        self.number = max(numbers, default=0)

    def run(self) -> None:
        """Read to the end of the pipe, or until the run has deleted the folder."""
        try:
            self._read()
        except FileNotFoundError:
            return
        finally:
            os.close(self.descriptor)

    def _read(self) -> None:
        since = time.monotonic()
        while True:
            if select.select([self.descriptor], [], [], _FILE_SECONDS)[0]:
                chunk = os.read(self.descriptor, _CHUNK)
                if not chunk:
                    break
                self.pending += chunk
            due = time.monotonic() >= since + _FILE_SECONDS
            if due or len(self.pending) >= _FILE_BYTES:
                lines, newline, rest = self.pending.rpartition(b"\n")
                self._write(lines + newline, _ENDING)
                self.pending, since = rest, time.monotonic()
        self._write(self.pending, _ENDING)
        time.sleep(_END_SECONDS)
        self._write(b"", _LAST)

    def _write(self, lines: bytes, ending: str) -> None:
        if not lines and ending == _ENDING:
            return
        self.number += 1
        target = self.folder / f"{self.number:012d}{ending}"
        unfinished = target.with_name(f".{target.name}.tmp")
        unfinished.write_bytes(lines)
        unfinished.replace(target)
