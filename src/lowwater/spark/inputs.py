"""The inputs of a query on Spark: what Lowwater reads itself, and what Spark reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from lowwater.control import Dropped
from lowwater.errors import PlanError
from lowwater.kernels import Dataflow
from lowwater.sources import Block, BlockReader, BlockSource, Piped, Replay
from lowwater.sources.files import written
from lowwater.spark.checkpoint import Checkpoint
from lowwater.spark.dataframes import DataFrameSource
from lowwater.spark.plain_files import PlainFiles, leaves, read_by_spark
from lowwater.spark.sparing import can_be_spared, spared
from lowwater.spark.tasks import INPUT


@dataclass
class Inputs:
    """The inputs of a run, by their number.

    `files` are the DataFrames if all of them merely read Parquet; `total` is how many rows there
    are in all, where that is known.
    """

    blocks: dict[int, BlockSource] = field(default_factory=dict)
    frames: dict[int, DataFrame] = field(default_factory=dict)
    files: dict[int, PlainFiles] = field(default_factory=dict)
    total: int | None = None
    bounded: bool = False
    spared: dict[int, DataFrameSource] = field(default_factory=dict)
    """DataFrames whose steps are spared for rows that are shed."""
    empty: set[int] = field(default_factory=set)
    """Recordings without a row, which no last block will end."""

    @classmethod
    def of(
        cls,
        sources: Sequence[Any],
        flow: Dataflow,
        folder: Checkpoint,
        *,
        bounded: bool,
        shedding: bool = False,
    ) -> Inputs:
        """Prepare the sources of a query for reading."""
        made = cls(bounded=bounded)
        counted: list[int | None] = []
        for number, source in enumerate(sources):
            if isinstance(source, DataFrameSource):
                made.frames[number] = source.frame
                if shedding and can_be_spared(source, flow, number):
                    made.spared[number] = source
                counted.append(None)
                continue
            prepared = _prepared(source, flow.inputs[number].schema, folder, number)
            made.blocks[number] = prepared.in_order_of(f"{folder.source}/{number}")
            counted.append(made.blocks[number].rows())
            if counted[-1] == 0:
                made.empty.add(number)
        made.total = None if None in counted else sum(n for n in counted if n is not None)
        plain = {n: PlainFiles.of(frame, flow.inputs[n].schema) for n, frame in made.frames.items()}
        if None not in plain.values():
            made.files = {n: files for n, files in plain.items() if files is not None}
        return made

    def session(self) -> SparkSession | None:
        """Return the session of the DataFrames, if there are any."""
        return next((frame.sparkSession for frame in self.frames.values()), None)

    def stream(self) -> DataFrame:
        """Return all DataFrames as one stream.

        Where ingest reads the files, Spark need only say which they are: planning columns that
        nobody asks for would take a fifth of the time of an epoch.
        """
        if self.files:
            counted = [f.select(sql.lit(n)) for n, f in self.frames.items()]
            return reduce(DataFrame.unionAll, counted)
        return _together(self.frames | {n: source.base for n, source in self.spared.items()})

    def computed(self, rows: DataFrame, flow: Dataflow, dropped: Dropped) -> DataFrame:
        """Return the rows of a micro-batch after the steps that are not part of the stream."""
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
        """Return the rows of a micro-batch as Spark reads them."""
        if not self.files:
            return batch
        read = read_by_spark(list(self.frames.values()), batch, query)
        return _together(dict(zip(self.frames, read, strict=True)))

    def new_files(self, query: StreamingQuery) -> dict[int, list[Block]] | None:
        """Return the blocks of the micro-batch at work by input, None if Spark must read it."""
        if not self.files:
            return None
        found = leaves(query)
        if found is None or len(found) != len(self.files):
            return None
        blocks = {
            n: files.blocks(leaf)
            for (n, files), leaf in zip(self.files.items(), found, strict=True)
        }
        if None in blocks.values():
            return None
        return {n: mine for n, mine in blocks.items() if mine is not None}

    @property
    def readers(self) -> Mapping[int, BlockReader]:
        """What reads the blocks of each input."""
        return {**self.files, **self.blocks}

    def begin(self) -> dict[str, Any]:
        """Return where the sources that Lowwater reads begin."""
        return {str(n): source.begin() for n, source in self.blocks.items()}

    def reach(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """Return how far an epoch that begins at `start` may go now."""
        return {str(n): source.reach(start[str(n)]) for n, source in self.blocks.items()}

    def between(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> dict[int, list[Block]]:
        """Return the blocks of each input between two positions."""
        return {
            n: list(source.blocks(start[str(n)], end[str(n)])) for n, source in self.blocks.items()
        }

    def waiting(self, at: Mapping[str, Any]) -> list[dict[str, int]]:
        """Return how many rows of each input wait behind a position, where it can be told."""
        found = ((n, source.waiting(at[str(n)])) for n, source in self.blocks.items())
        return [{"input": n, "waiting": rows} for n, rows in found if rows is not None]

    def exhausted(self, at: Mapping[str, Any]) -> list[int]:
        """Return the inputs that have nothing more to come after a position."""
        if not self.bounded:
            return sorted(self.empty)
        return [
            n
            for n, source in self.blocks.items()
            if (not source.paced or n in self.empty) and source.reach(at[str(n)]) == at[str(n)]
        ]


def _together(frames: Mapping[int, DataFrame]) -> DataFrame:
    """Return DataFrames as one: each row in the struct of its input, all others NULL."""
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


def _prepared(source: Any, schema: Any, folder: Checkpoint, number: int) -> BlockSource:
    """Return a source that Lowwater reads; refuse what it cannot read."""
    kept_beside = isinstance(source, list | Replay | Piped)
    if folder.remote and kept_beside:
        raise PlanError(
            f"checkpoint={folder.root!r}: a feed or a recording is kept beside the checkpoint, "
            f"which must be a local folder for it"
        )
    if isinstance(source, list):
        source = written(source, f"{folder.source}/{number}", schema)
    if not isinstance(source, BlockSource):
        raise PlanError(f"Spark cannot read {type(source).__name__}")
    return source
