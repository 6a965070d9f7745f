"""The Spark job of an epoch: ingest where the rows are, a shuffle by shard, then the kernels.

Every task receives the control in force. Rows of DataFrames come from one micro-batch.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from py4j.protocol import Py4JJavaError
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

from lowwater.control.context import EpochContext
from lowwater.control.measures import SegmentMeasure
from lowwater.dataflow.graph import Dataflow
from lowwater.dataflow.ingest import Foresee, ingest, last_measure, portions
from lowwater.dataflow.input_block import read_block
from lowwater.engine.entry import Entry
from lowwater.engine.epoch import Intake
from lowwater.engine.failure import failure_of
from lowwater.engine.log import ControlLog
from lowwater.engine.state_store import StateFolder, shards_of
from lowwater.operators.packet import Packet
from lowwater.sources.source import SourceBlock
from lowwater.spark.inputs import Inputs
from lowwater.spark.session import QUERY_SETTINGS
from lowwater.spark.tasks import (
    PACKET_DDL,
    PARTITION,
    BlockTask,
    IngestBlocks,
    IngestRows,
    Level,
    LevelStep,
    to_packets,
)

TASKS_PER_CORE = 2
JOB_ATTEMPTS = 3
"""How often the job of an epoch runs if Spark loses a worker or an executor each time."""
_LOG = logging.getLogger("lowwater.spark")


@dataclass(frozen=True)
class BatchIntake(Intake):
    """The blocks that an epoch reads, by input number, and the rows of its micro-batch."""

    rows: DataFrame | None = None


class SparkJob:
    """The component that runs the tasks of an epoch as one Spark job, with state in a folder."""

    def __init__(
        self, spark: SparkSession, flow: Dataflow, inputs: Inputs, state: StateFolder
    ) -> None:
        self.spark = spark.newSession()
        for name, value in QUERY_SETTINGS.items():
            self.spark.conf.set(name, value)
        self.flow, self.inputs, self.state = flow, inputs, state

    def run(self, before: Entry, intake: Intake, foresee: Foresee, owner: str) -> list[Packet]:
        """Run the epoch after `before`, write its state segments, return the emitted packets.

        If Spark loses a process, the job runs again, `JOB_ATTEMPTS` times in all: the epoch's rows
        and state are fixed, and each attempt writes segments of its own.
        """
        for attempt in range(1, JOB_ATTEMPTS):
            try:
                return self._run(before, intake, foresee, owner)
            except Py4JJavaError as error:
                if not failure_of(error).lost_process:
                    raise
                _LOG.warning("epoch %d runs again after attempt %d", before.epoch + 1, attempt)
        return self._run(before, intake, foresee, owner)

    def _run(self, before: Entry, intake: Intake, foresee: Foresee, owner: str) -> list[Packet]:
        rows = intake.rows if isinstance(intake, BatchIntake) else None
        pieces = self._pieces(before.standing, intake.blocks, foresee)
        segments = {(s.operator, s.start): s for s in before.segments}
        state = self.state, segments, owner
        common = before.epoch + 1, before.control, before.standing, *state
        levels = [LevelStep(Level(self.flow, n), *common) for n in range(self.flow.levels)]
        if rows is not None:
            return self._sql_job(before.standing, levels, pieces, rows)
        packets = None
        if pieces:
            read = self._ingest_blocks(pieces)
            packets = self._tasks(len(read.shares)).mapPartitionsWithIndex(read)
        for step in levels:
            n = len(step.level.places)
            if packets is None:
                packets = self._tasks(n).mapPartitionsWithIndex(step.alone)
            else:
                packets = packets.partitionBy(n, int).mapPartitionsWithIndex(step.over_packets)
        return [] if packets is None else [Packet(*p) for _, p in packets.collect()]

    def recover(self, log: ControlLog) -> None:
        """Check the state after `newest`, and delete segments that no entry needs."""
        self.state.recover(shards_of(self.flow), log)

    def settle(self, written: Sequence[SegmentMeasure]) -> None:
        """Delete the segments that the epoch's measurements name as unused."""
        self.state.delete(written)

    def _sql_job(
        self,
        standing: EpochContext,
        levels: Sequence[LevelStep],
        pieces: Sequence[BlockTask],
        rows: DataFrame,
    ) -> list[Packet]:
        """Run an epoch over `rows`, which Spark reads, and over the blocks of the other inputs."""
        ingest_rows = IngestRows(self.flow, standing, list(self.inputs.frames))
        rows = self.inputs.computed(rows, self.flow, standing.dropped)
        packets = rows.mapInArrow(ingest_rows, PACKET_DDL)
        if pieces:
            read = self._ingest_blocks(pieces)
            tasks = rows.sparkSession.range(len(read.shares), numPartitions=len(read.shares))
            packets = packets.unionAll(tasks.mapInArrow(read.over_rows, PACKET_DDL))
        for step in levels:
            moved = packets.repartitionById(len(step.level.places), PARTITION)
            packets = moved.mapInArrow(step.over_rows, PACKET_DDL)
        return to_packets(packets.toArrow())

    def _tasks(self, n: int) -> RDD[int]:
        return self.spark.sparkContext.parallelize(range(n), n)

    def _ingest_blocks(self, pieces: Sequence[BlockTask]) -> IngestBlocks:
        """Return the ingest of the blocks in `pieces`, divided into tasks."""
        cut = portions(self.flow, pieces)
        tasks = min(len(cut), TASKS_PER_CORE * self.spark.sparkContext.defaultParallelism)
        ends = [i * len(cut) // tasks for i in range(tasks + 1)]
        shares = [cut[a:b] for a, b in pairwise(ends)]
        return IngestBlocks(self.flow, self.inputs.readers, shares)

    def _pieces(
        self, standing: EpochContext, blocks: Mapping[int, Sequence[SourceBlock]], foresee: Foresee
    ) -> list[BlockTask]:
        """Return each block with the context that decides which of its rows are late.

        With consistent slack, the context follows from all earlier blocks, including blocks of the
        same epoch.
        """
        pieces = []
        for number, mine in blocks.items():
            context = standing
            for seq, block in enumerate(mine):
                pieces.append(BlockTask(number, block, seq, context))
                if self.flow.inputs[number].consistent and seq < len(mine) - 1:
                    reader = self.inputs.readers[number]
                    aside = context.set_aside
                    read = read_block(self.flow, number, seq, reader, block, aside=aside)
                    packets = ingest(self.flow, [read], context)
                    context = foresee(number, last_measure(packets))
        return pieces
