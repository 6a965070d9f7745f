"""The run of a query on Spark: a streaming query starts its epochs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.progress import Progress

from lowwater.engine.checkpoint import Checkpoint
from lowwater.engine.clock import Clock, SystemClock
from lowwater.engine.epoch import Epoch
from lowwater.engine.failure import raised
from lowwater.engine.outputs import plan_writers
from lowwater.engine.pending_outputs import Ahead, PendingOutputs
from lowwater.engine.run import Run
from lowwater.engine.state_store import StateFolder
from lowwater.errors import HostError, LowwaterError, StateError
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.sinks.sink import Outputs
from lowwater.spark.batch_callback import BatchCallback
from lowwater.spark.dataframe_source import DataFrameSource
from lowwater.spark.epochs import SparkEpochs
from lowwater.spark.inputs import Inputs
from lowwater.spark.job import SparkJob
from lowwater.spark.listener import EpochEvents
from lowwater.spark.session import (
    FILE_MANAGER,
    QUERY_SETTINGS,
    settings_for_start,
    ship,
    spark_session,
    warm_up,
    while_jvm_lives,
)
from lowwater.ticks import ticks

STDERR = Console(stderr=True)
POLL_SECONDS = 0.02
"""The pause before sources without new rows are read again."""
LONGEST_TICK_SECONDS = 5.0
"""The longest duration of one `_on_tick`; Spark can stop the query only between two calls."""
SHORTEST_WAIT = 0.001
"""The shortest time in seconds that Spark can wait for the end of a query."""


class SparkRun(Run):
    """The run of a query on Spark: a streaming query whose micro-batches become epochs.

    Each micro-batch of DataFrames is an epoch. While Spark waits for data, epochs without
    DataFrame rows run if other inputs, control or the clock require them. If Lowwater reads all
    inputs itself, a micro-batch is only a signal: its row is ignored, it runs any number of epochs,
    and the control log records the blocks that an epoch reads.
    """

    def __init__(
        self,
        assembly: PhysicalPlan,
        sources: Sequence[Any],
        outputs: Mapping[str, Outputs],
        checkpoint: str,
        *,
        clock: Clock | None = None,
        shards: int | None = None,
        trigger: str | None = None,
        bounded: bool = False,
        durable: bool = True,
        ahead: Ahead | None = None,
    ) -> None:
        self.by_clock, self.trigger = clock is None, trigger
        self.started, self.finished = threading.Event(), threading.Event()
        self.stopping = threading.Event()
        folder = Checkpoint.at(checkpoint)
        spark = _session_of(sources)
        ship(spark)
        warm_up(spark)
        wanted = shards or int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
        known = folder.belongs_to(assembly, wanted)
        plan = assembly.with_shards(known.shards)
        self.inputs = Inputs.on_spark(sources, plan, folder, bounded=bounded)
        job = SparkJob(spark, plan.flow, self.inputs, StateFolder(folder.state, known.id))
        stored, root = (folder.outputs, folder.root) if durable else (None, "")
        pending = PendingOutputs(
            plan_writers(plan), outputs, stored, known.id, checkpoint=root, ahead=ahead
        )
        epoch = Epoch(plan, folder.log(known.id), job, pending, clock or SystemClock())
        self.epochs: SparkEpochs
        super().__init__(SparkEpochs(epoch, self.inputs, folder))
        self.epochs.check_offsets()
        self.epochs.recover()
        self.epochs.begin_folder(known.id)
        self.query = self._start(spark, folder)
        self.epochs.on_epoch = EpochEvents(spark, self.query, self.flow, self.status).post
        self.started.set()
        if self.inputs.frames:
            threading.Thread(target=self._beat, daemon=True).start()

    def _start(self, spark: SparkSession, folder: Checkpoint) -> StreamingQuery:
        if self.inputs.frames:
            stream, on_batch = self.inputs.stream(), self._on_batch
        else:
            stream, on_batch = _ticks(spark), self._on_tick
        settings = dict(QUERY_SETTINGS)
        if folder.remote:
            settings.pop(FILE_MANAGER)
        with settings_for_start(spark, settings):
            self.callback = BatchCallback(on_batch, self._failed)
            writer = stream.writeStream.foreachBatch(self.callback)
            writer = writer.option("checkpointLocation", self.epochs.folder.path)
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
            self.epochs.log.check_owner()  # or Spark would plan the next micro-batch
        else:
            files = self.inputs.new_files(self.query)
            rows = self.inputs.rows(frame, self.query) if files is None else None
            self.epochs.take_batch(batch, rows, files or {})

    def _on_tick(self, frame: DataFrame, batch: int) -> None:
        """Run epochs while blocks arrive; with a trigger, run one epoch per micro-batch.

        The control log records the blocks of each epoch. So Spark need not plan a micro-batch for
        each epoch, which would take nearly as long as the epoch.
        """
        self.started.wait()
        until = time.monotonic() + (LONGEST_TICK_SECONDS if self.trigger is None else 0.0)
        while not self.stopping.is_set() and not self.finished.is_set():
            if self.epochs.newest.done:
                self.finished.set()
            elif not self.epochs.take_blocks_or_due(by_clock=self.by_clock):
                self.finished.wait(POLL_SECONDS)
            if time.monotonic() >= until:
                return

    def _failed(self, failure: Exception) -> None:
        """Remember the failure that ends the query, for `status`."""
        if not self.stopping.is_set():
            self.failure = failure

    def _beat(self) -> None:
        """Run epochs without a micro-batch while Spark waits for data."""
        while not self.finished.wait(POLL_SECONDS) and self.query.isActive:
            try:
                if (self.inputs.blocks or self._due()) and self._waiting_for_data():
                    self._between_batches()
            except Exception as failure:  # noqa: BLE001
                self.failure = failure
                self.query.stop()

    def _between_batches(self) -> None:
        if not (self.inputs.blocks and self.epochs.take_blocks()):
            self.epochs.take_nothing_if_due(by_clock=self.by_clock)

    def _due(self) -> bool:
        """Return whether control, a request or the wall clock requires an epoch."""
        return self.epochs.due(by_clock=self.by_clock)

    def _waiting_for_data(self) -> bool:
        status = self.query.status
        return str(status["message"]).startswith("Waiting") and not status["isDataAvailable"]

    # -- the end ----------------------------------------------------------------------------------

    def stop_at_the_end(self) -> None:
        """Start a thread that stops the streaming query once all inputs have ended."""

        def watch() -> None:
            while not self.finished.wait(1.0) and self.query.isActive:
                pass
            with suppress(Exception):  # Spark itself may have stopped
                self.query.stop()

        threading.Thread(target=watch, daemon=True).start()

    def finish(self) -> None:
        """Run to the end of bounded streams, including the epoch that closes the last windows."""
        try:
            self._run_to_the_end()
            self.stop()
        except BaseException as failure:
            with suppress(Exception):  # a failed stop must not hide the reason
                self.stop()
            if not isinstance(failure, Exception):
                raise
            raise self._reason(failure) from failure

    def _reason(self, failure: Exception) -> LowwaterError:
        """Return the error to raise for `failure`; Spark may notice a second run before the log."""
        with suppress(OSError, StateError):
            try:
                self.epochs.log.check_owner()
            except HostError as taken_over:
                return taken_over
        return raised(failure)

    def _run_to_the_end(self) -> None:
        if not self.inputs.frames:
            self._follow()
            return
        self.query.processAllAvailable()
        self._must_be_alive()
        while self.epochs.take_blocks():
            pass
        self.epochs.end()

    def _follow(self) -> None:
        """Wait until all blocks are read; in a terminal, show progress if the total is known."""
        shown = self.inputs.total is not None and sys.stderr.isatty()
        with Progress(transient=True, disable=not shown, console=STDERR) as bar:
            task = bar.add_task("rows", total=self.inputs.total)
            while not self.finished.wait(POLL_SECONDS):
                bar.update(task, completed=self.epochs.newest.accounts.rows)
                if not self.query.isActive and not self.finished.is_set():
                    self.query.awaitTermination()  # raises its failure
                    self._must_be_alive()

    def _must_be_alive(self) -> None:
        """Raise the failure of the query, or HostError if the query was stopped before its end."""
        if self.failure is not None:
            raise self.failure
        if not self.query.isActive:
            raise HostError("the query was stopped before its end; run it again to continue")

    @while_jvm_lives()
    def stop(self) -> None:
        """Stop after the running epoch."""
        self.stopping.set()
        if self.epochs.worker == threading.get_ident():  # a sink: its epoch cannot wait for itself
            threading.Thread(target=self.stop, daemon=True).start()
            return
        with self.epochs.lock:
            self.finished.set()
            self.epochs.closed = True
        self.query.stop()
        self.callback.release()
        self.epochs.release()

    @while_jvm_lives()
    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the query ends, at most `seconds`; return whether the query has ended."""
        longest: Any = None if seconds is None else max(seconds, SHORTEST_WAIT)
        try:
            ended = self.query.awaitTermination(longest)
        except Exception as failure:
            if self.stopping.is_set():
                return True
            self.callback.release()
            raise self._reason(failure) from failure
        if ended is not None and not ended:
            return False
        if self.failure is not None:
            self.callback.release()
            raise self._reason(self.failure) from self.failure
        return True


def _ticks(spark: SparkSession) -> DataFrame:
    """Return a stream that always has a next micro-batch, of one row, which is ignored."""
    reader = spark.readStream.format("rate-micro-batch")
    return reader.option("rowsPerBatch", 1).option("numPartitions", 1).load()


def _session_of(sources: Sequence[Any]) -> SparkSession:
    """Return the session of the first DataFrame; without DataFrames, Lowwater's session."""
    frames = (s.frame for s in sources if isinstance(s, DataFrameSource))
    frame = next(frames, None)
    return spark_session() if frame is None else frame.sparkSession
