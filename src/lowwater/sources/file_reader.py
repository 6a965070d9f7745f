"""The base class of sources of files: it reads a block, a file or some row groups of a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.errors import HostError
from lowwater.sources.bad_file import BadFileError, reading
from lowwater.sources.formats import (
    Format,
    cut_by_rows,
    read_row_groups,
    read_rows,
    row_count,
    row_texts,
)
from lowwater.sources.source import BlockSource, SourceBlock

OnBadFile = Literal["report", "fail"]
"""What a query does with a file that it cannot read."""
EPOCH_BYTES = 256 << 20
"""Bytes that an epoch reads by default, so that a backlog does not delay prods and control."""
EPOCH_FILES = 10_000
"""The largest number of files in an epoch: the opening of the epoch lists them."""


@dataclass(frozen=True)
class Report:
    """A block without rows: a file that is reported in the output `bad_files`, but not read.

    With `stops`, the file stops the query, unless the rows of the epoch are set aside.
    """

    path: str
    reason: str
    stops: bool = False


@dataclass(frozen=True)
class FileReader(BlockSource):
    """A source of the files of a folder.

    With `multiline`, a quoted field of csv may contain line ends. A file that cannot be read is
    reported; with `on_bad_file="fail"`, it stops the query.
    """

    path: str
    schema: pa.Schema
    format: Format = "parquet"
    multiline: bool = False
    on_bad_file: OnBadFile = "report"
    files_per_epoch: int | None = None
    max_rows_per_epoch: int | None = None

    def read(self, block: SourceBlock) -> pa.Table:
        """Return the rows of a file or of some row groups; raise BadFileError if it is damaged."""
        try:
            return self._read(block)
        except BadFileError as problem:
            report = block.what if isinstance(block.what, Report) else None
            if report is not None and report.stops:
                raise HostError(
                    f"{problem}; restore it, or go on without it: lowwater state CHECKPOINT "
                    f"--set-aside EPOCH"
                ) from problem
            if report is not None or self.on_bad_file == "report":
                raise
            raise HostError(
                f"{problem}; the query stops because of on_bad_file='fail'. To go on without this "
                f"file, start the query with on_bad_file='report'"
            ) from problem

    def _read(self, block: SourceBlock) -> pa.Table:
        if isinstance(block.what, Report):
            raise BadFileError(block.what.path, block.what.reason)
        if self.format == "parquet":
            return read_parquet_block(block, self.schema)
        return read_rows(Path(block.what), self.format, self.schema, multiline=self.multiline)

    def texts(self, block: SourceBlock, rows: np.ndarray) -> pa.Array | None:
        """Return the texts of some rows of a block; None for rows that are not text."""
        if self.format not in ("csv", "json"):
            return None
        return row_texts(Path(block.what), self.format, rows, multiline=self.multiline)

    def fits_epoch(self, names: Sequence[str]) -> int:
        """Return how many of the files `names`, from the first on, an epoch reads."""
        names = names[: self.files_per_epoch or EPOCH_FILES]
        paths = (Path(self.path, name) for name in names)
        if self.max_rows_per_epoch is not None:
            return _within(
                (row_count(path, self.format) for path in paths), self.max_rows_per_epoch
            )
        if self.files_per_epoch is None:
            return _within((path.stat().st_size for path in paths), EPOCH_BYTES)
        return len(names)

    def file_blocks(self, names: Iterable[str]) -> list[SourceBlock]:
        """Return the blocks of files, in the order of `names`."""
        # Absolute paths, because executors may run in another folder.
        paths = [str(Path(self.path, name).absolute()) for name in names]
        if self.format == "parquet":
            return [block for path in paths for block in parquet_blocks(path)]
        return [SourceBlock(path) for path in paths]


def _within(sizes: Iterable[int], limit: int) -> int:
    """Return how many of `sizes`, from the first on, add up to at most `limit`, but at least 1."""
    return max(1, sum(1 for _ in takewhile(lambda total: total <= limit, accumulate(sizes))))


def parquet_blocks(path: str) -> list[SourceBlock]:
    """Return the blocks of a Parquet file, each with some of the row groups.

    A file without a readable footer is one block, whose reader reports the file.
    """
    try:
        with reading(path):
            footer = pq.read_metadata(path)
    except BadFileError:
        return [SourceBlock((path, None), rows=0)]
    sizes = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]
    return [SourceBlock((path, cut), rows=sum(sizes[slice(*cut)])) for cut in cut_by_rows(sizes)]


def read_parquet_block(block: SourceBlock, schema: pa.Schema) -> pa.Table:
    """Return the rows of `block`, a block of a Parquet file, as a table of `schema`."""
    path, cut = block.what
    with reading(path):
        return read_row_groups(path, schema, cut)
