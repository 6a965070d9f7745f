"""Ingest of any DataFrame: a `mapInArrow` whose control is pinned by the epoch it runs in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from lowwater.control import FolderLog, Standing
from lowwater.kernels import WindowPlan, ingest
from lowwater.spark.packets import to_batch

BLOCK_ROWS = 1_000_000
"""Rows that are reduced together; bounds the memory of a task."""


@dataclass(frozen=True)
class MapIngest:
    """The function handed to `mapInArrow`."""

    plan: WindowPlan
    labels: list[int]
    control: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reduce the rows of one task."""
        context = TaskContext.get()
        assert context is not None  # noqa: S101
        epoch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        standing: Standing | None = None
        for number, block in enumerate(self._blocks(batches)):
            if standing is None:
                standing = FolderLog(self.control).before(epoch).standing
            seq = context.partitionId() << 20 | number
            yield to_batch(ingest(self.plan, block, standing, seq), self.labels)

    def _blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            held.append(batch)
            rows += len(batch)
            if rows >= BLOCK_ROWS:
                yield pa.Table.from_batches(held).cast(self.plan.schema)
                held, rows = [], 0
        if rows:
            yield pa.Table.from_batches(held).cast(self.plan.schema)
