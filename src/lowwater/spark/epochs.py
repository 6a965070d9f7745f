"""Epochs on Spark: what each takes in, the job that runs it, what is written when it ends.

An epoch is one Spark job: ingest where the rows are, a shuffle by shard, the kernel of every shard.
The control in force travels with the job. An epoch with rows of a DataFrame is a micro-batch of
Spark; when no rows come, control still moves on, in an epoch without rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

from lowwater.control import Controller, Entry, FolderLog, Opening
from lowwater.errors import HostError
from lowwater.kernels import Packet, WindowPlan, ingest
from lowwater.kernels.packets import measures_of
from lowwater.query import Outputs
from lowwater.sources import Block, BlockReader, BlockSource
from lowwater.spark.packets import PACKET_DDL, to_packets
from lowwater.spark.session import QUERY_SETTINGS
from lowwater.spark.tasks import IngestBlocks, IngestRows, KernelStep, Keyed, Piece

Ingested: TypeAlias = "DataFrame | RDD[Keyed] | None"
"""The packets that ingest makes of an epoch's rows."""
NOTHING_TAKEN = -1
"""The batch before the first."""
TASKS_PER_CORE = 2


class Epochs:
    """Runs the epochs of a query, one at a time.

    `lock` is held while an epoch runs; `newest` is the entry of the last one that has ended, `rate`
    its rows per second. No epoch begins by itself once it is `closed`.
    """

    def __init__(
        self,
        spark: SparkSession,
        plan: WindowPlan,
        controller: Controller,
        log: FolderLog,
        *,
        state: str,
        outputs: Outputs,
        now: Callable[[int], int],
    ) -> None:
        self.plan = plan
        self.spark = spark.newSession()
        for name, value in QUERY_SETTINGS.items():
            self.spark.conf.set(name, value)
        self.controller, self.log = controller, log
        self.state, self.outputs, self.now = state, outputs, now
        self.newest = log.newest() or Entry(-1)
        self.lock = threading.Lock()
        self.rate: float | None = None
        self.closed = False
        self.worker: int | None = None
        """The thread that runs the epoch at work."""

    # -- what an epoch takes in -------------------------------------------------------------------

    def take_batch(self, batch: int, rows: DataFrame) -> None:
        """Run the epoch of a micro-batch, unless it had ended before Spark was stopped."""
        with self.lock:
            if self._is_next(batch):
                ingest_rows = IngestRows(self.plan, self.newest.standing)
                self._run(batch, rows.mapInArrow(ingest_rows, PACKET_DDL))

    def take_batch_of_blocks(
        self, batch: int, reader: BlockReader, blocks: Sequence[Block]
    ) -> None:
        """Run the epoch of a micro-batch whose rows are read as blocks."""
        with self.lock:
            if self._is_next(batch):
                pieces = [Piece(b, i, self.newest.standing) for i, b in enumerate(blocks)]
                self._run(batch, self._read(reader, pieces))

    def take_blocks(self, source: BlockSource) -> bool:
        """Run an epoch over the blocks that are new, if any are; say whether there were."""
        with self.lock:
            if self._repeated():
                return True
            start = source.begin() if self.newest.taken is None else self.newest.taken
            opening = self.log.opened(self.newest.epoch + 1)
            end = source.reach(start) if opening is None else opening.taken
            if end == start:
                return False
            pieces = self._pieces(source, source.blocks(start, end))
            self._run(end, self._read(source, pieces))
            return True

    def take_nothing(self, *, ending: bool = False) -> bool:
        """Run an epoch without rows; say whether that was possible.

        It is not while an epoch that had begun with rows is still to be run again.
        """
        with self.lock:
            return self._take_nothing(ending=ending)

    def take_nothing_if_due(self, *, by_clock: bool) -> None:
        """Run an epoch without rows if control, or time that has passed, asks for one."""
        with self.lock:
            if not self.closed and self.due(by_clock=by_clock):
                self._take_nothing()

    def _take_nothing(self, *, ending: bool = False) -> bool:
        taken = self.newest.taken
        opening = self.log.opened(self.newest.epoch + 1)
        if opening is not None and opening.taken != taken:
            return False
        self._run(taken, None, ending=ending)
        return True

    def _repeated(self) -> bool:
        """Run again an epoch without rows that had begun, if there is one: it gets no rows now."""
        if self.log.opened(self.newest.epoch + 1) != Opening(self.newest.taken):
            return False
        self._run(self.newest.taken, None)
        return True

    def _is_next(self, batch: int) -> bool:
        """Say whether a micro-batch is the next to be taken in, and not one that has been."""
        self._repeated()
        if batch > self._taken + 1:
            raise HostError(
                f"Spark is at micro-batch {batch}, the control log at {self._taken}: the "
                f"checkpoint is not whole; start the query with a new one"
            )
        return batch > self._taken

    def has_taken(self, batch: int) -> bool:
        """Say whether the epoch of a micro-batch has ended."""
        return batch <= self._taken

    def end(self) -> None:
        """Run the epochs that end the stream, after its last row."""
        while not self.newest.done:
            if not self.take_nothing(ending=True):
                raise HostError(
                    f"epoch {self.newest.epoch + 1} had begun, but Spark does not repeat its rows: "
                    f"the checkpoint is not whole; start the query with a new one"
                )

    @property
    def _taken(self) -> int:
        return NOTHING_TAKEN if self.newest.taken is None else int(self.newest.taken)

    def due(self, *, by_clock: bool) -> bool:
        """Say whether an epoch is worth running, even if no row comes."""
        if not self.newest.control.quiet:
            return True
        return by_clock and self.controller.due(self.newest, self.now(self.newest.epoch + 1))

    # -- how it runs ------------------------------------------------------------------------------

    def _run(self, taken: Any, ingested: Ingested, *, ending: bool = False) -> None:
        epoch = self.newest.epoch + 1
        began = time.perf_counter()
        if not self.log.open(epoch, taken):
            raise HostError(
                f"epoch {epoch} is being run by another run on this checkpoint; stop that one, "
                f"then start again"
            )
        self.worker = threading.get_ident()
        try:
            self._work(epoch, taken, ingested, ending=ending)
        finally:
            self.worker = None
        rows = self.newest.totals["in"] - (self.log.before(epoch).totals.get("in") or 0)
        self.rate = rows / (time.perf_counter() - began)

    def _work(self, epoch: int, taken: Any, ingested: Ingested, *, ending: bool) -> None:
        emitted = self._job(epoch, ingested)
        self.outputs.write(epoch, self.plan, emitted)
        measures = [
            measures_of(p) for p in sorted(emitted, key=lambda p: p.seq) if p.kind == "measure"
        ]
        self.newest = self.controller.decide(
            epoch, measures, self.now(epoch), ending=ending, taken=taken
        )

    def _job(self, epoch: int, ingested: Ingested) -> list[Packet]:
        shards = self.plan.shards
        kernel = KernelStep(self.plan, epoch, self.newest.control, self.state)
        if isinstance(ingested, DataFrame):
            by_shard = ingested.repartitionById(shards, "shard")
            return to_packets(by_shard.mapInArrow(kernel.over_rows, PACKET_DDL).toArrow())
        if ingested is None:
            done = self._tasks(shards).mapPartitionsWithIndex(kernel.alone)
        else:
            moved = ingested.partitionBy(shards, int)
            done = moved.mapPartitionsWithIndex(kernel.over_packets)
        return [Packet(*p) for p in done.collect()]

    def _tasks(self, n: int) -> RDD[int]:
        return self.spark.sparkContext.parallelize(range(n), n)

    def _read(self, reader: BlockReader, pieces: Sequence[Piece]) -> RDD[Keyed]:
        tasks = min(len(pieces), TASKS_PER_CORE * self.spark.sparkContext.defaultParallelism)
        cuts = [i * len(pieces) // tasks for i in range(tasks + 1)]
        shares = [pieces[a:b] for a, b in pairwise(cuts)]
        ingest_blocks = IngestBlocks(self.plan, reader, shares)
        return self._tasks(tasks).mapPartitionsWithIndex(ingest_blocks)

    def _pieces(self, reader: BlockReader, blocks: Sequence[Block]) -> list[Piece]:
        """Say what decides over the rows of each block.

        Consistent slack decides over a block by all blocks before it, also those of its own epoch.
        """
        entry, pieces = self.newest, []
        for seq, block in enumerate(blocks):
            pieces.append(Piece(block, seq, entry.standing))
            if self.plan.consistent and seq < len(blocks) - 1:
                packets = ingest(self.plan, reader.read(block), entry.standing, seq)
                entry = self.controller.foresee(entry, [measures_of(packets[-1])], now=0)
        return pieces
