"""A source that reads files in the order of their names, for files that Lowwater itself writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from lowwater.errors import HostError
from lowwater.sources.file_reader import FileReader
from lowwater.sources.formats import file_names
from lowwater.sources.source import SourceBlock


@dataclass(frozen=True)
class FileQueue(FileReader):
    """A source of files whose names sort in arrival order; its position is the last name read."""

    until: str | None = None

    def begin(self) -> str:  # noqa: D102
        return ""

    def names(self, after: str, to: str | None = None) -> list[str]:
        """Return the sorted file names that are greater than `after` and at most `to`."""
        stop = min(x for x in (to, self.until, "\U0010ffff") if x is not None)
        return [n for n in file_names(Path(self.path), self.format, after) if n <= stop]

    def available(self, start: str) -> str:  # noqa: D102
        new = self.names(start)
        return new[self.fits_epoch(new) - 1] if new else start

    def blocks(self, start: str, end: str) -> Sequence[SourceBlock]:  # noqa: D102
        names = self.names(start, end)
        if end != start and (not names or names[-1] != end):
            raise HostError(
                f"{self.path}/{end}: the interrupted epoch reads this file, but it is gone; "
                f"restore the checkpoint, or start with a new one"
            )
        blocks = self.file_blocks(names)
        if blocks and end == self.until:
            blocks[-1] = replace(blocks[-1], last=True)
        return blocks

    def bounded(self) -> FileQueue:  # noqa: D102
        names = self.names("")
        return replace(self, until=names[-1] if names else "")


def write_files(tables: Sequence[pa.Table], folder: str, schema: pa.Schema) -> FileQueue:
    """Write `tables` as files, one per epoch, and return the source that reads these files."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for i, table in enumerate(tables):
        path = target / f"{i:08d}.arrow"
        unfinished = path.with_suffix(".tmp")
        with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(table)
        unfinished.replace(path)
    return FileQueue(str(target.absolute()), schema, "arrow", files_per_epoch=1).bounded()
