"""Runs a query on Spark Structured Streaming: plumbing around the kernels and the controller."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import threading
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.progress import Progress

from lowwater.control import Controller
from lowwater.durations import ticks
from lowwater.errors import HostError, PlanError
from lowwater.query import Clock, Outcome, Outputs, Query, Run, Status
from lowwater.sources import BlockSource
from lowwater.sources.files import written
from lowwater.spark.checkpoint import Checkpoint
from lowwater.spark.dataframes import DataFrameSource
from lowwater.spark.epochs import Epochs
from lowwater.spark.plain_files import PlainFiles
from lowwater.spark.session import FILE_MANAGER, QUERY_SETTINGS, session, settings_for_start
from lowwater.spark.state import ShardState
from lowwater.spark.warmup import warm_up

STDERR = Console(stderr=True)
POLL_SECONDS = 0.02
"""How often a source, or a silent stream, is looked at."""
LONGEST_TICK_SECONDS = 5.0
"""After so long without anything to do Spark is given the chance to end the query."""


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
            running = SparkRun(
                query, source, outputs, folder, clock=clock, shards=shards, bounded=True
            )
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
    """A query running on Spark: a streaming query whose micro-batches make epochs.

    A DataFrame's micro-batches are its epochs, and between them, while Spark waits for data, epochs
    without rows are run where control or the clock asks for one. Where Lowwater reads the source
    itself, Spark's tick only asks for the next epoch: what it takes in, the control log says.
    """

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
        bounded: bool = False,
    ) -> None:
        spark = source.frame.sparkSession if isinstance(source, DataFrameSource) else session()
        warm_up(spark)
        folder = Checkpoint(checkpoint.removeprefix("file://"))
        wanted = shards or int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
        self.plan = query.plan.with_shards(folder.claim(query, wanted))
        self.clock, self.trigger = clock, trigger
        self.started, self.finished = threading.Event(), threading.Event()
        self.stopping = threading.Event()
        self.failure: Exception | None = None
        log = folder.log()
        controller = Controller(log, query.tracker, query.pace)
        controller.begin(self._now(0))
        self.epochs = Epochs(
            spark,
            self.plan,
            controller,
            log,
            state=folder.state,
            outputs=outputs,
            now=self._now,
        )
        kept_beside = isinstance(source, list) or getattr(source, "paced", False)
        if folder.remote and kept_beside:
            raise PlanError(
                f"checkpoint={checkpoint!r}: a feed or a recording is kept beside the checkpoint, "
                f"which must be a local folder for it"
            )
        if isinstance(source, list):
            source = written(source, folder.source, self.plan.schema)
        self.blocks: BlockSource | None = None
        self.files: PlainFiles | None = None
        self.rows: int | None = None
        if isinstance(source, BlockSource):
            self.rows = source.rows()
            self.blocks = source.in_order_of(folder.source)
            self.ends = bounded and (not source.paced or self.rows == 0)
        elif isinstance(source, DataFrameSource):
            self.files = PlainFiles.of(source.frame, source.schema)
        else:
            raise PlanError(f"Spark cannot read {type(source).__name__}")
        self.query = self._start(spark, source, folder.spark)
        # Another run on this checkpoint has ended by now, at the latest.
        self.epochs.newest = log.newest() or self.epochs.newest
        for shard in range(self.plan.shards):
            ShardState.forget(folder.state, shard, self.epochs.newest.epoch)
        self.started.set()
        if self.blocks is None:
            threading.Thread(target=self._beat, daemon=True).start()

    def _start(self, spark: SparkSession, source: Any, checkpoint: str) -> StreamingQuery:
        if self.blocks is None:
            stream, on_batch = source.frame, self._on_batch
        else:
            stream, on_batch = _ticks(spark), self._on_tick
        settings = dict(QUERY_SETTINGS)
        if Checkpoint(checkpoint).remote:
            settings.pop(FILE_MANAGER)
        with settings_for_start(spark, settings):
            writer = stream.writeStream.foreachBatch(on_batch)
            writer = writer.option("checkpointLocation", checkpoint)
            if self.trigger is not None:
                ticks(self.trigger, name="trigger")
                writer = writer.trigger(processingTime=self.trigger)
            started: StreamingQuery = writer.start()
        return started

    # -- epochs -----------------------------------------------------------------------------------

    def _on_batch(self, frame: DataFrame, batch: int) -> None:
        self.started.wait()
        if self.stopping.is_set():
            raise HostError("the query is being stopped")
        if self.epochs.has_taken(batch):
            return
        blocks = None if self.files is None else self.files.blocks(self.query)
        if self.files is None or blocks is None:
            self.epochs.take_batch(batch, frame)
        else:
            self.epochs.take_batch_of_blocks(batch, self.files, blocks)

    def _on_tick(self, frame: DataFrame, batch: int) -> None:
        """Run an epoch as soon as there is one to run."""
        assert self.blocks is not None  # noqa: S101
        self.started.wait()
        until = time.monotonic() + (LONGEST_TICK_SECONDS if self.trigger is None else 0.0)
        while not self.stopping.is_set() and not self.finished.is_set():
            if self.epochs.newest.done:
                self.finished.set()
            elif self.epochs.take_blocks(self.blocks):
                return
            elif self.ends or self._due():
                self.epochs.take_nothing(ending=self.ends)
                return
            elif time.monotonic() >= until:
                return
            else:
                self.finished.wait(POLL_SECONDS)

    def _beat(self) -> None:
        """Run epochs without rows where Spark, waiting for data, would run none."""
        while not self.finished.wait(POLL_SECONDS) and self.query.isActive:
            try:
                if self._due() and self._waiting_for_data():
                    self.epochs.take_nothing_if_due(by_clock=self.clock is None)
            except Exception as failure:  # noqa: BLE001
                self.failure = failure
                self.query.stop()

    def _due(self) -> bool:
        """Say whether control, or the wall clock where it is the clock, asks for an epoch."""
        return self.epochs.due(by_clock=self.clock is None)

    def _waiting_for_data(self) -> bool:
        status = self.query.status
        return str(status["message"]).startswith("Waiting") and not status["isDataAvailable"]

    def _now(self, epoch: int) -> int:
        return self.clock.now(epoch) if self.clock else time.time_ns() // 1_000

    # -- the end ----------------------------------------------------------------------------------

    def stop_at_the_end(self) -> None:
        """Stop by itself if the stream ends, as a recording does."""

        def watch() -> None:
            while not self.finished.wait(1.0) and self.query.isActive:
                pass
            self.query.stop()

        threading.Thread(target=watch, daemon=True).start()

    def finish(self) -> Status:
        """Run to the end of the stream and through the epoch that closes the last windows."""
        try:
            if self.blocks is None:
                self.query.processAllAvailable()
                self._must_be_alive()
                self.epochs.end()
            else:
                self._follow()
        except Exception as failure:
            raise _failed(failure) from failure
        finally:
            self.stop()
        return self.status()

    def _follow(self) -> None:
        """Wait for blocks to be read; in a terminal, show how far a recording is."""
        shown = self.rows is not None and sys.stderr.isatty()
        with Progress(transient=True, disable=not shown, console=STDERR) as bar:
            task = bar.add_task("rows", total=self.rows)
            while not self.finished.wait(POLL_SECONDS):
                bar.update(task, completed=self.epochs.newest.totals.get("in", 0))
                if not self.query.isActive and not self.finished.is_set():
                    self.query.awaitTermination()  # raises what ended it
                    self._must_be_alive()

    def _must_be_alive(self) -> None:
        """Refuse to call a stream ended that someone has stopped."""
        if self.failure is not None:
            raise self.failure
        if not self.query.isActive:
            raise HostError("the query was stopped before its end; run it again to go on")

    def status(self) -> Status:
        """Return where the query stands."""
        return Status.of(self.epochs.newest, self.plan.axis, self.epochs.rate)

    def stop(self) -> None:
        """Stop after the epoch at work."""
        self.stopping.set()
        if self.epochs.worker == threading.get_ident():  # a sink: its epoch cannot wait for itself
            threading.Thread(target=self.stop, daemon=True).start()
            return
        with self.epochs.lock:
            self.finished.set()
            self.epochs.closed = True
        self.query.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the query to end."""
        try:
            ended = self.query.awaitTermination(seconds)  # type: ignore[arg-type]  # floats work
        except Exception as failure:
            if self.stopping.is_set():
                return True
            raise _failed(failure) from failure
        if self.failure is not None:
            raise _failed(self.failure) from self.failure
        return True if ended is None else bool(ended)


def _ticks(spark: SparkSession) -> DataFrame:
    """Return a stream that always has a next micro-batch, and nothing in it."""
    reader = spark.readStream.format("rate-micro-batch")
    return reader.option("rowsPerBatch", 1).option("numPartitions", 1).load()


def _failed(failure: Exception) -> HostError:
    """Return the line of Spark's long story that says what went wrong in Python, if one does."""
    if isinstance(failure, HostError):
        return failure
    lines = str(failure).strip().splitlines() or [repr(failure)]
    raised = [line for line in lines if re.match(r"\s*[A-Za-z_][\w.]*(Error|Exception): ", line)]
    return HostError(f"the query failed: {(raised[-1] if raised else lines[0]).strip()}")


HOST = SparkHost()
