"""Runs a query on Spark Structured Streaming: plumbing around the kernels and the controller."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.progress import Progress

from lowwater.control import Controller, Entry
from lowwater.durations import ticks
from lowwater.errors import HostError, PlanError
from lowwater.kernels.packets import measures_of
from lowwater.query import Clock, Outcome, Outputs, Query, Run, Status
from lowwater.sources import BlockSource
from lowwater.sources.files import written
from lowwater.spark.checkpoint import Checkpoint
from lowwater.spark.dataframes import DataFrameSource
from lowwater.spark.datasources import Blocks, PacketSource, PacketSpec
from lowwater.spark.ingest import MapIngest
from lowwater.spark.packets import PACKET_DDL, from_table, shard_labels
from lowwater.spark.processor import KernelProcessor
from lowwater.spark.session import QUERY_SETTINGS, session, settings_for_start
from lowwater.spark.warmup import warm_up

STDERR = Console(stderr=True)
HEARTBEAT_SECONDS = 0.5
"""How often a silent stream is looked at."""


class SparkHost:
    """Hosts kernels on Spark."""

    def run(
        self,
        query: Query,
        source: Any,
        outputs: Outputs,
        *,
        checkpoint: str | None,
        clock: Clock | None,
        shards: int | None,
    ) -> Outcome:
        """Run a bounded query to its end."""
        outputs = outputs.in_memory()
        folder = checkpoint or tempfile.mkdtemp(prefix="lowwater-")
        try:
            running = SparkRun(query, source, outputs, folder, clock=clock, shards=shards)
            status = running.finish()
        finally:
            if checkpoint is None:
                shutil.rmtree(folder, ignore_errors=True)
        return Outcome.of(query.plan, outputs, status)

    def start(
        self, query: Query, source: Any, outputs: Outputs, *, checkpoint: str, trigger: str | None
    ) -> Run:
        """Start a query that runs on."""
        running = SparkRun(query, source, outputs, checkpoint, trigger=trigger)
        running.stop_at_the_end()
        return running


class SparkRun(Run):
    """A query running on Spark."""

    def __init__(
        self,
        query: Query,
        source: Any,
        outputs: Outputs,
        checkpoint: str,
        *,
        clock: Clock | None = None,
        shards: int | None = None,
        trigger: str | None = None,
    ) -> None:
        spark = source.frame.sparkSession if isinstance(source, DataFrameSource) else session()
        warm_up(spark)
        self.checkpoint = Checkpoint(checkpoint)
        wanted = shards or int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
        count = self.checkpoint.claim(query, wanted)
        self.plan = replace(query.plan, shards=count)
        self.outputs, self.clock = outputs, clock
        self.log = self.checkpoint.log()
        self.controller = Controller(self.log, query.tracker, query.pace)
        self.controller.begin(self._now(0))
        self.newest = self.log.newest() or Entry(-1)
        self.ending = False
        self.finished = threading.Event()
        self.paced = isinstance(source, BlockSource) and source.paced
        self.rows = source.rows() if isinstance(source, BlockSource) else None
        packets = self._packets(spark, source, shard_labels(count))
        settings = {**QUERY_SETTINGS, "spark.sql.shuffle.partitions": str(count)}
        with settings_for_start(spark, settings):
            writer = packets.writeStream.foreachBatch(self._on_epoch)
            writer = writer.option("checkpointLocation", self.checkpoint.spark)
            if trigger is not None:
                ticks(trigger, name="trigger")
                writer = writer.trigger(processingTime=trigger)
            self.query: StreamingQuery = writer.start()
        self._heart = threading.Thread(target=self._beat, daemon=True)
        self._heart.start()

    def _packets(self, spark: SparkSession, source: Any, labels: list[int]) -> DataFrame:
        """Plan the query: ingest and control, brought together by shard in one operator."""
        folder = self.checkpoint
        if isinstance(source, list):
            source = written(source, folder.source, self.plan.schema)
        blocks = None
        if isinstance(source, BlockSource):
            blocks = Blocks(source.in_order_of(folder.source), self.plan, self.controller)
        elif not isinstance(source, DataFrameSource):
            raise PlanError(f"Spark cannot read {type(source).__name__}")
        spark.dataSource.register(PacketSource)
        spec = PacketSpec(folder.control, folder.signals, labels, blocks)
        packets = spark.readStream.format(PacketSource.name()).option("spec", spec.encode()).load()
        if isinstance(source, DataFrameSource):
            ingest = MapIngest(self.plan, labels, folder.control)
            packets = source.frame.mapInArrow(ingest, PACKET_DDL).unionByName(packets)
        return packets.groupBy("shard").transformWithStateInPandas(
            KernelProcessor(self.plan, labels),
            outputStructType=PACKET_DDL,
            outputMode="append",
            timeMode="none",
        )

    def _on_epoch(self, frame: DataFrame, epoch: int) -> None:
        """End an epoch: write its rows, decide what follows, write that down (design, recovery)."""
        emitted = from_table(frame.toArrow())
        self.outputs.write(epoch, self.plan, emitted)
        measures = [
            measures_of(p) for p in sorted(emitted, key=lambda p: p.seq) if p.kind == "measure"
        ]
        heard_the_end = self.log.before(epoch).ended
        entry = self.controller.decide(epoch, measures, self._now(epoch), ending=self.ending)
        self.newest = entry
        if heard_the_end:
            self.finished.set()

    def _now(self, epoch: int) -> int:
        return self.clock.now(epoch) if self.clock else time.time_ns() // 1_000

    def _beat(self) -> None:
        """Wake the query when only the clock can move it on."""
        while not self.finished.wait(HEARTBEAT_SECONDS) and self.query.isActive:
            entry = self.newest
            if self.clock is None and self.controller.due(entry, self._now(entry.epoch + 1)):
                self.checkpoint.wake()

    def stop_at_the_end(self) -> None:
        """Stop by itself if the stream ends, as a recording does."""

        def watch() -> None:
            self.finished.wait()
            self.query.stop()

        threading.Thread(target=watch, daemon=True).start()

    def finish(self) -> Status:
        """Run to the end of the stream and through the epoch that closes the last windows."""
        try:
            if self.paced:
                self._follow()
            self._drain()
            if not self.newest.ended:
                self.ending = True
                self.checkpoint.wake()
                self._drain()
        finally:
            self.stop()
        return self.status()

    def _follow(self) -> None:
        """Wait for a source that takes its time; in a terminal, show how far it is."""
        with Progress(transient=True, disable=not sys.stderr.isatty(), console=STDERR) as bar:
            task = bar.add_task("rows", total=self.rows)
            while self.query.isActive and not self.finished.wait(0.2):
                bar.update(task, completed=self.newest.totals.get("in", 0))

    def _drain(self) -> None:
        try:
            self.query.processAllAvailable()
        except Exception as failure:
            raise HostError(f"the query failed: {_reason(failure)}") from failure

    def status(self) -> Status:
        """Return where the query stands."""
        return Status.of(self.newest, self.plan.axis, self._rate())

    def _rate(self) -> float | None:
        """Return the rows per second of the newest epoch that is wholly done."""
        progress, now = self.query.lastProgress, self.newest
        if progress is None or now.epoch < 1:
            return None
        done, before = self.log.read(progress.batchId), self.log.read(progress.batchId - 1)
        took = progress.durationMs.get("triggerExecution", 0)
        if done is None or not took:
            return None
        rows = done.totals["in"] - (before.totals.get("in", 0) if before else 0)
        return float(rows) * 1_000 / took

    def stop(self) -> None:
        """Stop after the epoch at work."""
        self.query.stop()
        self.finished.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the query to end."""
        try:
            ended = self.query.awaitTermination(seconds)  # type: ignore[arg-type]  # floats work
        except Exception as failure:
            raise HostError(f"the query failed: {_reason(failure)}") from failure
        return True if ended is None else bool(ended)


def _reason(failure: Exception) -> str:
    """Return the line of Spark's long story that says what went wrong in Python, if one does."""
    lines = str(failure).strip().splitlines() or [repr(failure)]
    raised = [line for line in lines if re.match(r"\s*[A-Za-z_][\w.]*(Error|Exception): ", line)]
    return (raised[-1] if raised else lines[0]).strip()


HOST = SparkHost()
