"""Parquet files, one per epoch, named by it: writing an epoch again replaces it by the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.control import Folder
from lowwater.sinks.sink import Sink


@dataclass(frozen=True)
class Parquet(Sink):
    """A folder of Parquet files."""

    path: str

    def write(self, epoch: int, rows: pa.Table) -> None:  # noqa: D102
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        Folder(self.path).write(f"epoch-{epoch:010d}.parquet", sink.getvalue())


def parquet(path: str | Path) -> Parquet:
    """Write each epoch's rows to a Parquet file in folder `path`, idempotently."""
    return Parquet(str(path))
