"""Lines that come through a pipe: JSON objects, one a line, kept in files until they are taken in.

Lines that have been read cannot be asked for again, so they are put into a folder beside the
checkpoint, and an epoch that is run again finds them there.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from lowwater.sources.blocks import Block, BlockSource
from lowwater.sources.files import Files

_ENDING, _LAST = ".jsonl", "-last.jsonl"
_FILE_BYTES = 8 << 20
_FILE_SECONDS = 0.2
"""A file is closed when it is so large, or so long after its first line."""
_END_SECONDS = 0.3
"""Ctrl-C ends both programs at a pipe: one that is about to stop must not see an end first."""
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Spool(Files):
    """A folder of lines, in which a file of its own says that no more will come."""

    @property
    def paced(self) -> bool:
        """Whether a pause is not the end: the pipe may be silent."""
        return True

    def reach(self, start: str) -> str:
        """Return how far an epoch may go; what earlier ones have taken in is deleted."""
        for path in Path(self.path).glob(f"*{_ENDING}"):
            if path.name < start:
                path.unlink(missing_ok=True)
        return super().reach(start)

    def blocks(self, start: str, end: str) -> Sequence[Block]:
        """Return the files between two positions."""
        found = super().blocks(start, end)
        return [replace(b, last=b.what.endswith(_LAST)) for b in found]


@dataclass(frozen=True)
class Piped(BlockSource):
    """Lines of a file descriptor; `begun` is what had been read to learn their columns."""

    schema: pa.Schema
    descriptor: int = 0
    begun: bytes = b""
    max_rows_per_epoch: int | None = None

    @property
    def paced(self) -> bool:
        """Whether a pause is not the end."""
        return True

    def in_order_of(self, folder: str) -> Spool:
        """Begin to read; return the folder that lines are put into."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        spooling = _Spooling(Path(folder), self.descriptor, self.begun)
        threading.Thread(target=spooling.run, daemon=True).start()
        return Spool(
            str(Path(folder).absolute()),
            self.schema,
            "json",
            max_rows_per_epoch=self.max_rows_per_epoch,
        )

    def begin(self) -> str:
        """Return the position before the first line."""
        return ""

    def reach(self, start: str) -> str:
        """Stay: lines are read from the folder they are put into."""
        return start

    def blocks(self, start: str, end: str) -> Sequence[Block]:
        """Return none, for the same reason."""
        return []

    def read(self, block: Block) -> pa.Table:
        """Refuse: there are no blocks."""
        raise NotImplementedError


class _Spooling:
    """Puts lines into files, each of which appears whole."""

    def __init__(self, folder: Path, descriptor: int, begun: bytes) -> None:
        self.folder, self.kept = folder, begun
        self.descriptor = os.dup(descriptor)  # open for as long as the thread reads
        for ended in folder.glob(f"*{_LAST}"):
            ended.unlink()  # whoever opens another pipe goes on
        found = [int(p.name[:12]) for p in folder.glob(f"*{_ENDING}")]
        self.number = max(found, default=0)

    def run(self) -> None:
        """Read to the end of the pipe, or until the folder is gone, with the run it was for."""
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
                self.kept += chunk
            due = time.monotonic() >= since + _FILE_SECONDS
            if due or len(self.kept) >= _FILE_BYTES:
                self._put_lines()
                since = time.monotonic()
        self._put(self.kept, _ENDING)
        time.sleep(_END_SECONDS)
        self._put(b"", _LAST)

    def _put_lines(self) -> None:
        """Put what is whole lines into a file."""
        end = self.kept.rfind(b"\n") + 1
        self._put(self.kept[:end], _ENDING)
        self.kept = self.kept[end:]

    def _put(self, lines: bytes, ending: str) -> None:
        if not lines and ending == _ENDING:
            return
        self.number += 1
        target = self.folder / f"{self.number:012d}{ending}"
        aside = target.with_name(f".{target.name}.tmp")
        aside.write_bytes(lines)
        aside.replace(target)
