"""The inputs of a query on Spark: blocks that Lowwater reads, and DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from lowwater.control.drop import DropPlan
from lowwater.dataflow.graph import Dataflow
from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.inputs import BlockInputs, in_checkpoint
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.sources.source import BlockReader, SourceBlock
from lowwater.spark.dataframe_source import DataFrameSource
from lowwater.spark.drop_pushdown import can_be_spared, spared
from lowwater.spark.parquet_scan import ParquetScan, leaves, read_by_spark
from lowwater.spark.tasks import INPUT


@dataclass
class Inputs(BlockInputs):
    """The inputs of a run on Spark, by input number.

    `files` are the scans of all DataFrames, if all of them only read Parquet. `total` is the number
    of all rows, if known. `spared` are the DataFrames whose steps skip rows that ingest will shed.
    """

    frames: dict[int, DataFrame] = field(default_factory=dict)
    files: dict[int, ParquetScan] = field(default_factory=dict)
    total: int | None = None
    spared: dict[int, DataFrameSource] = field(default_factory=dict)

    @classmethod
    def on_spark(
        cls, sources: Sequence[Any], plan: PhysicalPlan, folder: Checkpoint, *, bounded: bool
    ) -> Inputs:
        """Return the inputs of `sources`, prepared for reading."""
        inputs, flow = cls(bounded=bounded), plan.flow
        counted: list[int | None] = []
        for number, source in enumerate(sources):
            if isinstance(source, DataFrameSource):
                inputs.frames[number] = source.frame
                if plan.shedder is not None and can_be_spared(source, flow, number):
                    inputs.spared[number] = source
                counted.append(None)
                continue
            stored = in_checkpoint(source, flow.inputs[number].schema, folder, number)
            counted.append(inputs.add(number, stored, folder.source))
        inputs.total = None if None in counted else sum(n for n in counted if n is not None)
        scans = {n: ParquetScan.of(f, flow.inputs[n].schema) for n, f in inputs.frames.items()}
        if None not in scans.values():
            inputs.files = {n: scan for n, scan in scans.items() if scan is not None}
        return inputs

    def stream(self) -> DataFrame:
        """Return one streaming DataFrame that unites all DataFrames.

        If ingest reads the files, Spark only lists the files, and the stream omits their columns:
        planning columns that no task reads would take a fifth of the time of an epoch.
        """
        if self.files:
            counted = [f.select(sql.lit(n)) for n, f in self.frames.items()]
            return reduce(DataFrame.unionAll, counted)
        return _together(self.frames | {n: source.base for n, source in self.spared.items()})

    def computed(self, rows: DataFrame, flow: Dataflow, dropped: DropPlan) -> DataFrame:
        """Return the rows of a micro-batch after the steps that the streaming query omits."""
        if not self.spared:
            return rows
        each = dict.fromkeys(self.frames, rows)
        if len(each) > 1:
            each = {n: rows.where(sql.col(INPUT) == n).select(f"`{n}`.*") for n in each}
        return _together(
            {
                n: spared(mine, self.spared[n], flow, n, dropped) if n in self.spared else mine
                for n, mine in each.items()
            }
        )

    def rows(self, batch: DataFrame, query: StreamingQuery) -> DataFrame:
        """Return the rows of a micro-batch as a DataFrame that Spark reads."""
        if not self.files:
            return batch
        read = read_by_spark(list(self.frames.values()), batch, query)
        return _together(dict(zip(self.frames, read, strict=True)))

    def new_files(self, query: StreamingQuery) -> dict[int, list[SourceBlock]] | None:
        """Return the blocks of the current micro-batch by input, None if Spark must read them."""
        relations = leaves(query) if self.files else None
        if relations is None or len(relations) != len(self.files):
            return None
        each = zip(self.files.items(), relations, strict=True)
        blocks = {n: scan.blocks(leaf) for (n, scan), leaf in each}
        known = {n: mine for n, mine in blocks.items() if mine is not None}
        return known if len(known) == len(blocks) else None

    @property
    def readers(self) -> Mapping[int, BlockReader]:
        """The block reader of each input, by input number."""
        return {**self.files, **self.blocks}


def _together(frames: Mapping[int, DataFrame]) -> DataFrame:
    """Return one DataFrame with a struct column per input; a row fills only its input's struct."""
    if len(frames) == 1:
        return next(iter(frames.values()))
    kinds = {n: frame.schema for n, frame in frames.items()}
    tagged = [
        frame.select(
            sql.lit(n).alias(INPUT),
            *(
                (
                    sql.struct(*(sql.col(f"`{c}`") for c in frame.columns))
                    if other == n
                    else sql.lit(None).cast(kind)
                ).alias(str(other))
                for other, kind in kinds.items()
            ),
        )
        for n, frame in frames.items()
    ]
    return reduce(DataFrame.unionAll, tagged)
