"""Sources that Lowwater reads itself, in blocks.

A block is a stretch of the stream in arrival order that is always read whole: a file or a part of
a large one, a table of a feed, a run of recorded rows. Positions are JSON and totally ordered; an
epoch takes the blocks between two of them, and takes the same blocks when it is run again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa


@dataclass(frozen=True)
class Block:
    """One block: what to read, whether the stream ends with it, and its rows where known."""

    what: Any
    last: bool = False
    rows: int | None = None


class BlockReader(Protocol):
    """Reads blocks."""

    def read(self, block: Block) -> pa.Table:
        """Read a block."""


class BlockSource(ABC):
    """A stream of blocks."""

    schema: pa.Schema

    @property
    def paced(self) -> bool:
        """Whether blocks appear as time goes by, so that a pause is not the end."""
        return False

    @abstractmethod
    def begin(self) -> Any:
        """Return the position before the first block."""

    @abstractmethod
    def reach(self, start: Any) -> Any:
        """Return how far an epoch that begins at `start` may go now; `start` if nothing is new."""

    @abstractmethod
    def blocks(self, start: Any, end: Any) -> Sequence[Block]:
        """Return the blocks between two positions, in arrival order."""

    @abstractmethod
    def read(self, block: Block) -> pa.Table:
        """Read a block."""

    def waiting(self, start: Any) -> int | None:
        """Return how many rows have come since a position, if that can be told cheaply."""
        del start
        return None

    def rows(self) -> int | None:
        """Return how many rows the whole stream has, if that is known."""
        return None

    def bounded(self) -> BlockSource:
        """Return the same stream, ending with what there is now."""
        return self

    def in_order_of(self, folder: str) -> BlockSource:
        """Prepare whatever reading needs under `folder`; called once, before the query starts."""
        return self
