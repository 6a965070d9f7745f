"""The base class of sources that Lowwater reads itself, in blocks.

A block is a contiguous part of the stream, in arrival order, that is read as a whole: a file, some
row groups of a large file, or an interval of recorded rows. Positions in the stream are JSON
values. An epoch reads the blocks between two positions; if it runs again, it reads the same blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class SourceBlock:
    """A block of rows. `what` identifies it for `read`; `last` is True if the stream ends with it.

    `rows` is the number of rows, or None if it is unknown.
    """

    what: Any
    last: bool = False
    rows: int | None = None

    @property
    def path(self) -> str | None:
        """The path of the file that has the block; None if the block is not of a file."""
        first = self.what[0] if isinstance(self.what, tuple) else self.what
        path = getattr(first, "path", first)
        return path if isinstance(path, str) else None


class BlockReader(Protocol):
    """A reader of blocks, for the process that ingests the rows."""

    def read(self, block: SourceBlock) -> pa.Table:
        """Return the rows of `block`."""


class BlockSource(ABC):
    """A source of blocks. Hosts call `prepare` once, then `available` and `blocks` per epoch."""

    schema: pa.Schema

    @property
    def paced(self) -> bool:
        """Whether blocks appear over time: the stream may go on after an epoch without blocks."""
        return False

    @abstractmethod
    def begin(self) -> Any:
        """Return the position before the first block."""

    @abstractmethod
    def available(self, start: Any) -> Any:
        """Return the end position of an epoch that begins at `start`; `start` if no rows are ready.

        Hosts call it before each epoch, and log the end position before they read the blocks.
        """

    @abstractmethod
    def blocks(self, start: Any, end: Any) -> Sequence[SourceBlock]:
        """Return the blocks between the positions `start` and `end`, in arrival order."""

    @abstractmethod
    def read(self, block: SourceBlock) -> pa.Table:
        """Return the rows of `block`. Hosts may call it in any process and several times.

        The table has hidden columns if rows are malformed (`sources/lines.py`). Raise BadFileError
        if the file of the block cannot be read.
        """

    def texts(self, block: SourceBlock, rows: np.ndarray) -> pa.Array | None:
        """Return the texts of some rows of a block, given by number; None if they are not text.

        Ingest calls it for rows that are malformed although their lines could be read.
        """
        del block, rows
        return None

    def describe(self) -> str | None:
        """Return the way in which the source is read, for `explain()`; None adds no line."""
        return None

    def waiting(self, start: Any) -> int | None:
        """Return the number of rows after position `start`; None if counting rows is expensive."""
        del start
        return None

    def rows(self) -> int | None:
        """Return the number of rows of the whole stream; None if it is unknown."""
        return None

    def bounded(self) -> BlockSource:
        """Return this source with an end after the block that is now the last one."""
        return self

    def prepare(self, folder: str) -> BlockSource:
        """Return the source that the host will read; it may keep files in `folder`.

        Hosts call it once, before the query starts or resumes.
        """
        return self
