"""A source of JSON lines on standard input, spooled to files until an epoch has read them.

A pipe cannot be read twice, so a thread writes the lines to files in a folder of the checkpoint. An
epoch that runs again reads these files again. The files are numbered without a gap, and each has
the checksum of its lines in its name, so a file that is missing or altered is found.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from lowwater.codec import Json
from lowwater.errors import StateError
from lowwater.sources.file_queue import FileQueue
from lowwater.sources.source import SourceBlock
from lowwater.storage.folder import AtomicFolder

_ENDING, _LAST = ".jsonl", "-last.jsonl"
_FILE_BYTES = 8 << 20
_FILE_SECONDS = 0.2
"""A spooled file is closed at `_FILE_BYTES`, or after `_FILE_SECONDS`."""
_END_SECONDS = 0.3
"""Seconds from the end of the pipe to the end of the stream; Ctrl-C stops the run in between."""
_CHUNK = 1 << 16
_DIGITS = 12
"""The number of digits with which the name of a spooled file begins."""


_REMEDY = "restore the checkpoint, or start with a new one"


def _name(number: int, lines: bytes) -> str:
    """Return the name of a spooled file."""
    identity = f"{number} {len(lines)} ".encode()
    return f"{number:0{_DIGITS}d}.{blake2b(identity + lines, digest_size=16).hexdigest()}{_ENDING}"


def _number(name: str) -> int:
    return int(name[:_DIGITS])


@dataclass(frozen=True)
class Spool(FileQueue):
    """A source of spooled files; a file with a name like `*-last.jsonl` ends the stream."""

    paced: ClassVar[bool] = True
    """Always true: a pipe without new lines has not ended."""

    def available(self, start: str) -> str:
        """Return the name of the next epoch's last file; delete files that past epochs read."""
        for name in self.names("", start):
            if name < start:
                Path(self.path, name).unlink(missing_ok=True)
        return super().available(start)

    def blocks(self, start: str, end: str) -> Sequence[SourceBlock]:
        """Return the files after `start`, up to `end`, as blocks in arrival order."""
        files = super().blocks(start, end)
        names = [start, *(Path(b.what).name for b in files)]
        for before, name in pairwise(names if start else names[1:]):
            if _number(name) > _number(before) + 1:
                raise StateError(
                    f"{self.path}: a file of the checkpoint between {before} and {name} is "
                    f"missing; {_REMEDY}"
                )
        return [replace(b, last=b.what.endswith(_LAST)) for b in files]

    def read(self, block: SourceBlock) -> pa.Table:
        """Return the rows of a file; raise StateError if the file was altered."""
        path = Path(block.what)
        if path.name != _name(_number(path.name), path.read_bytes()) and not block.last:
            raise StateError(f"{path}: this file of the checkpoint was altered; {_REMEDY}")
        return super().read(block)


@dataclass(frozen=True)
class StdinSource(Spool):
    """A source of lines. `first` are bytes that are already read; the rest is in `descriptor`."""

    descriptor: int = 0
    first: bytes = b""

    def prepare(self, folder: str) -> Spool:
        """Start a thread that spools lines to `folder`; return the source of the spooled files."""
        at = Path(folder).absolute()
        at.mkdir(parents=True, exist_ok=True)
        threading.Thread(target=_Spooler(at, self.descriptor, self.first).run, daemon=True).start()
        return Spool(str(at), self.schema, "json", max_rows_per_epoch=self.max_rows_per_epoch)

    def names(self, after: str, to: str | None = None) -> list[str]:  # noqa: D102
        return []  # nothing is spooled before `prepare`, and the files here are not the stream's


def last_spooled(position: Json, folder: str) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the spooled file of a position, if it is in `folder`.

    New files are numbered after it. Positions of other sources name no spooled file.
    """
    if isinstance(position, str) and position.endswith(_ENDING):
        content = AtomicFolder(folder).read(position)
        if content is not None:
            yield position, content


class _Spooler:
    """The reader of the pipe, which writes lines to files; each file is written atomically."""

    def __init__(self, folder: Path, descriptor: int, first: bytes) -> None:
        self.folder, self.pending = folder, first
        self.descriptor = os.dup(descriptor)  # open for as long as the thread reads
        for ended in folder.glob(f"*{_LAST}"):
            ended.unlink()  # a new pipe continues the stream
        numbers = [_number(p.name) for p in folder.glob(f"*{_ENDING}")]
        self.number = max(numbers, default=0)

    def run(self) -> None:
        """Write lines to files until the pipe ends, or until the run has deleted the folder."""
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
        last = f"{self.number:0{_DIGITS}d}{_LAST}"
        target = self.folder / (last if ending == _LAST else _name(self.number, lines))
        unfinished = target.with_name(f".{target.name}.tmp")
        unfinished.write_bytes(lines)
        unfinished.replace(target)
