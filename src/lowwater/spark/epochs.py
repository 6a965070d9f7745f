"""Epochs on Spark: what each takes in, the job that runs it, what is written when it ends.

An epoch is one Spark job: ingest where the rows are, a shuffle by shard, the kernel of every shard.
The control in force travels with the job. An epoch with rows of a DataFrame is a micro-batch of
Spark; when no rows come, control still moves on, in an epoch without rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession

from lowwater.control import Controller, Entry, FolderLog, Prod, Retuning
from lowwater.errors import HostError
from lowwater.kernels import Came, Dataflow, Packet, ingest, portions
from lowwater.kernels.packets import measures_of
from lowwater.prodding import Prodder
from lowwater.query import Leaving, Outputs
from lowwater.query.answering import judged
from lowwater.query.filling import filled
from lowwater.query.left_out import told
from lowwater.shedding import LoadShedder
from lowwater.sources import Block
from lowwater.spark.inputs import Inputs
from lowwater.spark.packets import PACKET_DDL, PARTITION, to_packets
from lowwater.spark.session import QUERY_SETTINGS
from lowwater.spark.tasks import IngestBlocks, IngestRows, Keyed, Level, LevelStep, Piece

NO_BATCH = -1
"""The batch before the first."""
TASKS_PER_CORE = 2


class Epochs:
    """Runs the epochs of a query, one at a time.

    `lock` is held while an epoch runs; `newest` is the entry of the last one that has ended, `rate`
    its rows per second. No epoch begins by itself once it is `closed`. What an epoch takes in is a
    micro-batch of Spark or none, and the blocks of other inputs up to some position:
    {"batch": 3, "blocks": {"1": …}}.
    """

    def __init__(
        self,
        spark: SparkSession,
        flow: Dataflow,
        controller: Controller,
        log: FolderLog,
        *,
        prodder: Prodder | None,
        shedder: LoadShedder | None,
        inputs: Inputs,
        state: str,
        outputs: Sequence[tuple[Leaving, Outputs]],
        now: Callable[[int], int],
    ) -> None:
        self.flow, self.inputs = flow, inputs
        self.spark = spark.newSession()
        for name, value in QUERY_SETTINGS.items():
            self.spark.conf.set(name, value)
        self.controller, self.log = controller, log
        self.prodder, self.shedder = prodder, shedder
        self.state, self.outputs, self.now = state, outputs, now
        self.newest = log.newest() or Entry(-1)
        self.lock = threading.Lock()
        self.rate: float | None = None
        self.closed = False
        self.asked: list[Prod | Retuning] = []
        """What came from outside, not yet decided on."""
        self.heard: Callable[[float], None] | None = None
        """Who is told that an epoch has ended, and how long it took."""
        self.worker: int | None = None
        """The thread that runs the epoch at work."""

    # -- what an epoch takes in -------------------------------------------------------------------

    @property
    def taken(self) -> dict[str, Any]:
        """How far into its sources the query has come."""
        return self.newest.taken or {"batch": NO_BATCH, "blocks": self.inputs.begin()}

    def take_batch(
        self, batch: int, rows: DataFrame | None, files: Mapping[int, Sequence[Block]]
    ) -> None:
        """Run the epoch of a micro-batch, unless it had ended before Spark was stopped.

        Its rows are those of `rows`, or of `files` that are read as blocks.
        """
        with self.lock:
            if not self._is_next(batch):
                return
            opening = self.log.opened(self.newest.epoch + 1)
            taken = self._reach(batch) if opening is None else opening.taken
            blocks = self.inputs.between(self.taken["blocks"], taken["blocks"])
            self._run(taken, {**blocks, **files}, rows)

    def take_blocks(self) -> bool:
        """Run an epoch over the blocks that are new, if any are; say whether there were."""
        with self.lock:
            if self._repeated():
                return True
            taken = self._reach(self.taken["batch"])
            if taken == self.taken or self.log.opened(self.newest.epoch + 1) is not None:
                return False
            self._run(taken, self.inputs.between(self.taken["blocks"], taken["blocks"]))
            return True

    def _reach(self, batch: int) -> dict[str, Any]:
        return {"batch": batch, "blocks": self.inputs.reach(self.taken["blocks"])}

    def take_nothing(self, *, ending: bool = False) -> bool:
        """Run an epoch without rows; say whether that was possible.

        It is not while an epoch that had begun with rows of Spark is still to be run again.
        """
        with self.lock:
            return self._take_nothing(ending=ending)

    def take_nothing_if_due(self, *, by_clock: bool) -> None:
        """Run an epoch without rows if control, or time that has passed, asks for one."""
        with self.lock:
            if not self.closed and self.due(by_clock=by_clock):
                self._take_nothing()

    def _take_nothing(self, *, ending: bool = False) -> bool:
        if self._repeated():
            return True
        if self.log.opened(self.newest.epoch + 1) is not None:
            return False
        self._run(self.taken, {}, ending=ending)
        return True

    def _repeated(self) -> bool:
        """Run again an epoch that had begun without a micro-batch: it takes in the same again."""
        opening = self.log.opened(self.newest.epoch + 1)
        if opening is None or opening.taken["batch"] != self.taken["batch"]:
            return False
        blocks = self.inputs.between(self.taken["blocks"], opening.taken["blocks"])
        self._run(opening.taken, blocks)
        return True

    def _is_next(self, batch: int) -> bool:
        """Say whether a micro-batch is the next to be taken in, and not one that has been."""
        self._repeated()
        last = self.taken["batch"]
        if batch > last + 1:
            raise HostError(
                f"Spark is at micro-batch {batch}, the control log at {last}: the "
                f"checkpoint is not whole; start the query with a new one"
            )
        return bool(batch > last)

    def has_taken(self, batch: int) -> bool:
        """Say whether the epoch of a micro-batch has ended."""
        return bool(batch <= self.taken["batch"])

    def end(self) -> None:
        """Run the epochs that end the streams, after their last rows."""
        while not self.newest.done:
            if not self.take_nothing(ending=True):
                raise HostError(
                    f"epoch {self.newest.epoch + 1} had begun, but Spark does not repeat its rows: "
                    f"the checkpoint is not whole; start the query with a new one"
                )

    def due(self, *, by_clock: bool) -> bool:
        """Say whether an epoch is worth running, even if no row comes."""
        if not self.newest.quiet or self.asked:
            return True
        return by_clock and self.controller.due(self.newest, self.now(self.newest.epoch + 1))

    # -- how it runs ------------------------------------------------------------------------------

    def _run(
        self,
        taken: Mapping[str, Any],
        blocks: Mapping[int, Sequence[Block]],
        rows: DataFrame | None = None,
        *,
        ending: bool = False,
    ) -> None:
        epoch = self.newest.epoch + 1
        began = time.perf_counter()
        if not self.log.open(epoch, taken):
            raise HostError(
                f"epoch {epoch} is being run by another run on this checkpoint; stop that one, "
                f"then start again"
            )
        before = sum(self.newest.totals.get("inputs", ()))
        self.worker = threading.get_ident()
        try:
            given = self._job(epoch, self._pieces(blocks), rows)
            now = self.now(epoch)
            measures = self._write(epoch, given, now)
            over: list[dict[str, Any]] = [
                {"input": n, "last": True} for n in self.inputs.exhausted(taken["blocks"])
            ]
            over += self._timed(taken, began)
            asked = tuple(self.asked)
            self.newest = self.controller.decide(
                epoch,
                [*measures, *over],
                now,
                ending=ending,
                taken=dict(taken),
                asked=asked,
            )
            del self.asked[: len(asked)]
        finally:
            self.worker = None
        came, took = sum(self.newest.totals["inputs"]) - before, time.perf_counter() - began
        self.rate = came / took
        if self.heard is not None:
            self.heard(took)

    def _write(self, epoch: int, given: Sequence[Packet], now: int) -> list[dict[str, Any]]:
        """Let the sinks have what an epoch gave; return what it measured, in order of arrival."""
        emitted = judged(self.prodder, self.newest, self.flow, given, now)
        emitted += told(self.newest)
        emitted += filled(self.shedder, self.newest, self.flow, emitted)
        for way, sinks in self.outputs:
            way.write(epoch, emitted, sinks)
        in_order = sorted((p for p in emitted if p.kind == "measure"), key=lambda p: p.seq)
        return [measures_of(p) for p in in_order]

    def _timed(self, taken: Mapping[str, Any], began: float) -> list[dict[str, Any]]:
        """Return how long the epoch took and what waits, for who decides by that."""
        if self.shedder is None or not self.shedder.measures:
            return []
        took = round((time.perf_counter() - began) * 1e6)
        return [{"took": took}, *self.inputs.waiting(taken["blocks"])]

    def _job(self, epoch: int, pieces: Sequence[Piece], rows: DataFrame | None) -> list[Packet]:
        levels = [
            LevelStep(
                Level(self.flow, n), epoch, self.newest.control, self.newest.standing, self.state
            )
            for n in range(self.flow.levels)
        ]
        if rows is not None:
            return self._sql_job(levels, pieces, rows)
        packets = self._read(pieces) if pieces else None
        for step in levels:
            n = len(step.level.places)
            if packets is None:
                packets = self._tasks(n).mapPartitionsWithIndex(step.alone)
            else:
                packets = packets.partitionBy(n, int).mapPartitionsWithIndex(step.over_packets)
        return [] if packets is None else [Packet(*p) for _, p in packets.collect()]

    def _sql_job(
        self, levels: Sequence[LevelStep], pieces: Sequence[Piece], rows: DataFrame
    ) -> list[Packet]:
        """Run an epoch whose rows, or some of them, Spark reads."""
        ingest_rows = IngestRows(self.flow, self.newest.standing, list(self.inputs.frames))
        rows = self.inputs.computed(rows, self.flow, self.newest.standing.dropped)
        packets = rows.mapInArrow(ingest_rows, PACKET_DDL)
        if pieces:
            shares = self._shares(pieces)
            read = IngestBlocks(self.flow, self.inputs.readers, shares).over_rows
            tasks = rows.sparkSession.range(len(shares), numPartitions=len(shares))
            packets = packets.unionAll(tasks.mapInArrow(read, PACKET_DDL))
        for step in levels:
            moved = packets.repartitionById(len(step.level.places), PARTITION)
            packets = moved.mapInArrow(step.over_rows, PACKET_DDL)
        return to_packets(packets.toArrow())

    def _tasks(self, n: int) -> RDD[int]:
        return self.spark.sparkContext.parallelize(range(n), n)

    def _shares(self, pieces: Sequence[Piece]) -> list[list[list[Piece]]]:
        """Return the portions of each task."""
        cut = portions(self.flow, pieces)
        tasks = min(len(cut), TASKS_PER_CORE * self.spark.sparkContext.defaultParallelism)
        ends = [i * len(cut) // tasks for i in range(tasks + 1)]
        return [cut[a:b] for a, b in pairwise(ends)]

    def _read(self, pieces: Sequence[Piece]) -> RDD[Keyed]:
        shares = self._shares(pieces)
        read = IngestBlocks(self.flow, self.inputs.readers, shares)
        return self._tasks(len(shares)).mapPartitionsWithIndex(read)

    def _pieces(self, blocks: Mapping[int, Sequence[Block]]) -> list[Piece]:
        """Say what decides over the rows of each block.

        Consistent slack decides over a block by all blocks before it, also those of its own epoch.
        """
        pieces = []
        for number, mine in blocks.items():
            entry = self.newest
            for seq, block in enumerate(mine):
                pieces.append(Piece(number, block, seq, entry.standing))
                if self.flow.inputs[number].consistent and seq < len(mine) - 1:
                    table = self.inputs.readers[number].read(block)
                    packets = ingest(self.flow, [Came(number, seq, table)], entry.standing)
                    entry = self.controller.foresee(entry, measures_of(packets[-1]))
        return pieces
