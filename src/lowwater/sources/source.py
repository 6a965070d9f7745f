"""Sources that Lowwater reads itself, in blocks.

A block is a contiguous part of the stream in arrival order that is always read whole: a file, some
row groups of a large file, an interval of recorded rows. Positions are JSON and totally ordered. An
epoch reads the blocks between two positions, and the same blocks when it runs again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa


@dataclass(frozen=True)
class SourceBlock:
    """One block: `what` names the rows for `read`, `last` is set if the stream ends with it.

    `rows` is the number of rows, where it is known.
    """

    what: Any
    last: bool = False
    rows: int | None = None


class BlockReader(Protocol):
    """Reads blocks, in the process that ingests their rows."""

    def read(self, block: SourceBlock) -> pa.Table:
        """Return the rows of a block."""


class BlockSource(ABC):
    """A stream of blocks: hosts call `prepare` once, then `available` and `blocks` per epoch."""

    schema: pa.Schema

    @property
    def paced(self) -> bool:
        """Whether blocks appear over time, so that a pause is not the end of the stream."""
        return False

    @abstractmethod
    def begin(self) -> Any:
        """Return the position before the first block."""

    @abstractmethod
    def available(self, start: Any) -> Any:
        """Return the position up to which an epoch from `start` can read now, or `start`.

        Called before each epoch. The host logs the position before it reads the blocks.
        """

    @abstractmethod
    def blocks(self, start: Any, end: Any) -> Sequence[SourceBlock]:
        """Return the blocks between two positions, in arrival order."""

    @abstractmethod
    def read(self, block: SourceBlock) -> pa.Table:
        """Return the rows of a block. Called in any process, also several times."""

    def waiting(self, start: Any) -> int | None:
        """Return the number of rows after a position; None if it is not cheap to count them."""
        del start
        return None

    def rows(self) -> int | None:
        """Return the number of rows of the whole stream; None if it is unknown."""
        return None

    def bounded(self) -> BlockSource:
        """Return the same stream, ending with its current last block."""
        return self

    def prepare(self, folder: str) -> BlockSource:
        """Return the source to read from, with its files under `folder`.

        Called once, before the query starts or resumes.
        """
        return self
