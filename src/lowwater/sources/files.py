"""A source that reads the files of a folder in the order of their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.errors import HostError, SpecError
from lowwater.sources.formats import (
    Format,
    cut_by_rows,
    declared_schema,
    file_names,
    read_row_groups,
    read_table,
    row_count,
)
from lowwater.sources.source import BlockSource, SourceBlock

EPOCH_BYTES = 256 << 20
"""Bytes that an epoch reads by default, so that a backlog does not delay prods and control."""
SAMPLED_FILES = 16
"""Number of waiting files whose rows are counted to estimate the rows of all waiting files."""


@dataclass(frozen=True)
class Files(BlockSource):
    """A source of the files of a folder, sorted by name; a file has one or several blocks."""

    path: str
    schema: pa.Schema
    format: Format = "parquet"
    files_per_epoch: int | None = None
    max_rows_per_epoch: int | None = None
    until: str | None = None

    def begin(self) -> str:  # noqa: D102
        return ""

    def names(self, after: str, to: str | None = None) -> list[str]:
        """Return the sorted file names that are greater than `after` and at most `to`."""
        stop = min(x for x in (to, self.until, "\U0010ffff") if x is not None)
        return [n for n in file_names(Path(self.path), self.format, after) if n <= stop]

    def available(self, start: str) -> str:  # noqa: D102
        new = self.names(start)
        new = new[: self.files_per_epoch]
        paths = (Path(self.path, name) for name in new)
        if self.max_rows_per_epoch is not None:
            rows = (row_count(path, self.format) for path in paths)
            new = new[: _within(rows, self.max_rows_per_epoch)]
        elif self.files_per_epoch is None:
            new = new[: _within((path.stat().st_size for path in paths), EPOCH_BYTES)]
        return new[-1] if new else start

    def waiting(self, start: str) -> int | None:  # noqa: D102
        names = self.names(start)
        if self.format != "parquet" or not names:
            return None if names else 0
        sample = names[:SAMPLED_FILES]
        rows = sum(row_count(Path(self.path, name), self.format) for name in sample)
        return rows * len(names) // len(sample)

    def blocks(self, start: str, end: str) -> Sequence[SourceBlock]:  # noqa: D102
        names = self.names(start, end)
        if end != start and (not names or names[-1] != end):
            raise HostError(
                f"the interrupted epoch reads files up to {end!r} in {self.path!r}, but they are "
                f"gone; restore them, or start with a new checkpoint"
            )
        # Absolute paths, because executors may run in another folder.
        paths = [str(Path(self.path, name).absolute()) for name in names]
        if self.format == "parquet":
            blocks = [block for path in paths for block in parquet_blocks(path)]
        else:
            blocks = [SourceBlock(path) for path in paths]
        if blocks and end == self.until:
            blocks[-1] = replace(blocks[-1], last=True)
        return blocks

    def read(self, block: SourceBlock) -> pa.Table:  # noqa: D102
        if self.format == "parquet":
            return read_parquet_block(block, self.schema)
        return read_table(Path(block.what), self.format, self.schema)

    def bounded(self) -> Files:  # noqa: D102
        names = self.names("")
        return replace(self, until=names[-1] if names else "")


def _within(sizes: Iterable[int], limit: int) -> int:
    """Return how many of `sizes`, from the first on, add up to at most `limit`, but at least 1."""
    return max(1, sum(1 for _ in takewhile(lambda total: total <= limit, accumulate(sizes))))


def parquet_blocks(path: str) -> list[SourceBlock]:
    """Return the blocks of a Parquet file, each with some of the row groups."""
    footer = pq.read_metadata(path)
    sizes = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]
    return [SourceBlock((path, cut), rows=sum(sizes[slice(*cut)])) for cut in cut_by_rows(sizes)]


def read_parquet_block(block: SourceBlock, schema: pa.Schema) -> pa.Table:
    """Return the rows of `block`, a block of a Parquet file, as a table of `schema`."""
    path, cut = block.what
    return read_row_groups(path, schema, cut)


def files(
    path: str | Path,
    *,
    format: Format = "parquet",
    schema: str | pa.Schema | None = None,
    files_per_epoch: int | None = None,
    max_rows_per_epoch: int | None = None,
) -> Files:
    """Return a source that reads the files of a folder in the order of their names.

    New files are read as they appear. File names must sort in arrival order, and a file must appear
    whole: write it under another name and rename it. An epoch reads at most `files_per_epoch` files
    and `max_rows_per_epoch` rows, but at least one file; without limits, it reads about 256 MB.
    Python workers read the files, so raw rows never enter the JVM. csv and json need a `schema`.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise SpecError(
            f"path={str(path)!r} is not a folder; lw.files reads the files of a folder, "
            f"lw.replay reads one file"
        )
    limits = {"files_per_epoch": files_per_epoch, "max_rows_per_epoch": max_rows_per_epoch}
    for name, limit in limits.items():
        if limit is not None and limit < 1:
            raise SpecError(f"{name}={limit} must be at least 1")
    if schema is None and format == "parquet":
        names = file_names(folder, format)
        if not names:
            problem = "holds no Parquet file yet, so its schema is unknown; give schema="
            raise SpecError(f"path={str(folder)!r} {problem}")
        schema = pq.read_schema(folder / names[0])
    declared = declared_schema(format, schema)
    return Files(str(folder.absolute()), declared, format, files_per_epoch, max_rows_per_epoch)


def write_files(tables: Sequence[pa.Table], folder: str, schema: pa.Schema) -> Files:
    """Write `tables` as files, one per epoch, and return the source that reads these files."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for i, table in enumerate(tables):
        path = target / f"{i:08d}.arrow"
        unfinished = path.with_suffix(".tmp")
        with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(table)
        unfinished.replace(path)
    return Files(str(target.absolute()), schema, "arrow", files_per_epoch=1).bounded()
