"""Inputs that Lowwater reads itself, block by block, on both hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lowwater.codec import Json
from lowwater.control.measures import InputMeasure
from lowwater.engine.checkpoint import Checkpoint
from lowwater.errors import PlanError
from lowwater.sources.file_queue import write_files
from lowwater.sources.replay import Replay
from lowwater.sources.source import BlockReader, BlockSource, SourceBlock
from lowwater.sources.stdin import StdinSource

Positions = Mapping[int, Json]
"""The position of each block source, by the number of its input."""


@dataclass
class BlockInputs:
    """The block sources of a run, by input number.

    `empty` are the inputs without rows: they end although they have no last block. In a `bounded`
    run, an input ends when its source has no further block.
    """

    blocks: dict[int, BlockSource] = field(default_factory=dict)
    empty: set[int] = field(default_factory=set)
    bounded: bool = False

    @classmethod
    def of(cls, sources: Sequence[object], folder: str, *, bounded: bool) -> BlockInputs:
        """Return the inputs of `sources`, prepared for reading; they may write to `folder`."""
        inputs = cls(bounded=bounded)
        for number, source in enumerate(sources):
            inputs.add(number, source, folder)
        return inputs

    def add(self, number: int, source: object, folder: str) -> int | None:
        """Prepare a source for reading; return its number of rows, None if unknown."""
        if not isinstance(source, BlockSource):
            raise PlanError(
                f"input {number + 1} is a {type(source).__name__}, which the local host cannot "
                f"read: it reads feeds, lw.files, lw.replay and standard input. Use host='spark'"
            )
        self.blocks[number] = source.prepare(f"{folder}/{number}")
        rows = self.blocks[number].rows()
        if rows == 0:
            self.empty.add(number)
        return rows

    @property
    def readers(self) -> Mapping[int, BlockReader]:
        """The block reader of each input, by input number."""
        return self.blocks

    def begin(self) -> Positions:
        """Return the positions before the first block."""
        return {n: source.begin() for n, source in self.blocks.items()}

    def available(self, start: Positions) -> Positions:
        """Return the positions up to which an epoch that begins at `start` may read now."""
        return {n: source.available(start[n]) for n, source in self.blocks.items()}

    def between(self, start: Positions, end: Positions) -> dict[int, list[SourceBlock]]:
        """Return the blocks of each input between two positions."""
        return {n: list(source.blocks(start[n], end[n])) for n, source in self.blocks.items()}

    def waiting(self, at: Positions) -> list[InputMeasure]:
        """Return the number of unread rows after `at`, for each source that knows this number."""
        counts = ((n, source.waiting(at[n])) for n, source in self.blocks.items())
        return [InputMeasure(n, waiting=rows) for n, rows in counts if rows is not None]

    def exhausted(self, at: Positions) -> list[int]:
        """Return the inputs that have no block after `at` and will never have one."""
        if not self.bounded:
            return sorted(self.empty)
        return [
            n
            for n, source in self.blocks.items()
            if (not source.paced or n in self.empty) and source.available(at[n]) == at[n]
        ]


@dataclass
class TableSource(BlockSource):
    """A source of tables in memory; each table is one block, read in a separate epoch."""

    tables: Sequence[pa.Table]

    def begin(self) -> int:  # noqa: D102
        return 0

    def available(self, start: int) -> int:  # noqa: D102
        return min(start + 1, len(self.tables))

    def blocks(self, start: int, end: int) -> list[SourceBlock]:  # noqa: D102
        return [SourceBlock(n) for n in range(start, end)]

    def read(self, block: SourceBlock) -> pa.Table:  # noqa: D102
        return self.tables[block.what]


def in_checkpoint(source: object, schema: pa.Schema, folder: Checkpoint, number: int) -> object:
    """Return `source` in a form that a restart can read again; a feed's tables become files."""
    if folder.remote and isinstance(source, list | Replay | StdinSource):
        raise PlanError(
            f"checkpoint={folder.root!r} is remote, but input {number + 1} is a feed or a "
            f"recording, whose rows are stored in the checkpoint: name a local folder"
        )
    if isinstance(source, list):
        return write_files(source, f"{folder.source}/{number}", schema)
    return source
