"""Files in a folder, read in the order of their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.errors import HostError, SpecError
from lowwater.schemas import parse_schema, plain
from lowwater.sources.blocks import Block, BlockSource
from lowwater.sources.formats import (
    ENDINGS,
    Format,
    cut_by_rows,
    read_row_groups,
    read_table,
    row_count,
)

EPOCH_BYTES = 256 << 20
"""How much an epoch reads where nobody has said: a backlog must not hold prods and control."""
LOOKED_AT = 16
"""How many of the files that wait are looked into to tell how many rows they have."""


@dataclass(frozen=True)
class Files(BlockSource):
    """A folder whose files are the blocks of a stream, in the order of their names."""

    path: str
    schema: pa.Schema
    format: Format = "parquet"
    files_per_epoch: int | None = None
    max_rows_per_epoch: int | None = None
    until: str | None = None

    def begin(self) -> str:  # noqa: D102
        return ""

    def names(self, after: str, to: str | None = None) -> list[str]:
        """Return the names of the files after one and up to another."""
        found = sorted(
            p.name
            for p in Path(self.path).iterdir()
            if p.name > after and p.name[0] not in "._" and p.name.endswith(ENDINGS[self.format])
        )
        stop = min(x for x in (to, self.until, "\U0010ffff") if x is not None)
        return [n for n in found if n <= stop]

    def reach(self, start: str) -> str:  # noqa: D102
        new = self.names(start)
        if self.files_per_epoch is not None:
            new = new[: self.files_per_epoch]
        if self.max_rows_per_epoch is not None:
            new = new[: self._within_rows(new, self.max_rows_per_epoch)]
        elif self.files_per_epoch is None:
            new = new[: self._within_bytes(new, EPOCH_BYTES)]
        return new[-1] if new else start

    def _within_bytes(self, names: Sequence[str], limit: int) -> int:
        """Return how many files fit, at least one."""
        size = 0
        for i, name in enumerate(names):
            size += Path(self.path, name).stat().st_size
            if size > limit:
                return max(i, 1)
        return len(names)

    def _within_rows(self, names: Sequence[str], limit: int) -> int:
        """Return how many files fit, at least one: a file is never cut between epochs."""
        rows = 0
        for i, name in enumerate(names):
            rows += row_count(Path(self.path, name), self.format)
            if rows > limit:
                return max(i, 1)
        return len(names)

    def waiting(self, start: str) -> int | None:  # noqa: D102
        names = self.names(start)
        if self.format != "parquet" or not names:
            return None if names else 0
        looked_at = names[:LOOKED_AT]
        rows = sum(row_count(Path(self.path, name), self.format) for name in looked_at)
        return rows * len(names) // len(looked_at)

    def blocks(self, start: str, end: str) -> Sequence[Block]:  # noqa: D102
        names = self.names(start, end)
        if end != start and (not names or names[-1] != end):
            raise HostError(
                f"an epoch had begun with files up to {end!r} in {self.path!r}, which are gone; "
                f"put them back, or start with a new checkpoint"
            )
        found = [b for name in names for b in self._blocks_of(name)]
        if found and end == self.until:
            found[-1] = replace(found[-1], last=True)
        return found

    def _blocks_of(self, name: str) -> list[Block]:
        path = str(Path(self.path, name).absolute())  # executors may be elsewhere
        return parquet_blocks(path) if self.format == "parquet" else [Block(path)]

    def read(self, block: Block) -> pa.Table:  # noqa: D102
        if self.format == "parquet":
            return read_parquet_block(block, self.schema)
        return read_table(Path(block.what), self.format, self.schema)

    def bounded(self) -> Files:  # noqa: D102
        names = self.names("")
        return replace(self, until=names[-1] if names else "")


def parquet_blocks(path: str) -> list[Block]:
    """Return a Parquet file as blocks: stretches of its row groups."""
    footer = pq.read_metadata(path)
    sizes = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]
    return [Block((path, cut), rows=sum(sizes[slice(*cut)])) for cut in cut_by_rows(sizes)]


def read_parquet_block(block: Block, schema: pa.Schema) -> pa.Table:
    """Read a block of a Parquet file."""
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
    """Read a folder as a stream: its files in the order of their names, new ones as they appear.

    An epoch takes `files_per_epoch`, or `max_rows_per_epoch`, or else some 256 MB: however long the
    backlog, control is never far. Ingest runs where the files are read, so that raw rows never
    enter the JVM. Names must sort in arrival order; a file must appear whole (write it aside and
    rename it). Parquet knows its schema; csv and json need one.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise SpecError(f"path={str(path)!r} is no folder; lw.files reads the files of a folder")
    if format not in ENDINGS or format == "arrow":
        raise SpecError(f"format={format!r} is unknown; it is 'parquet', 'csv' or 'json'")
    for name, limit in (
        ("files_per_epoch", files_per_epoch),
        ("max_rows_per_epoch", max_rows_per_epoch),
    ):
        if limit is not None and limit < 1:
            raise SpecError(f"{name}={limit} must be at least 1")
    if schema is None:
        schema = _schema_of(folder, format)
    parsed = parse_schema(schema) if isinstance(schema, str) else plain(schema)
    return Files(str(folder.absolute()), parsed, format, files_per_epoch, max_rows_per_epoch)


def _schema_of(folder: Path, format: Format) -> pa.Schema:
    if format != "parquet":
        raise SpecError(
            f"format={format!r} needs schema=, for example 'ts timestamp, speed double'"
        )
    every = (p for p in folder.iterdir() if p.name[0] not in "._")
    found = sorted(p for p in every if p.name.endswith(ENDINGS["parquet"]))
    if not found:
        raise SpecError(f"path={str(folder)!r} holds no Parquet file yet; give schema= as well")
    return plain(pq.read_schema(found[0]))


def written(tables: Sequence[pa.Table], folder: str, schema: pa.Schema) -> Files:
    """Write tables as the files of a stream, one per epoch, and return the stream."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for i, table in enumerate(tables):
        path = target / f"{i:08d}.arrow"
        aside = path.with_suffix(".tmp")
        with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(table)
        aside.replace(path)
    return Files(str(target.absolute()), schema, "arrow", files_per_epoch=1).bounded()
