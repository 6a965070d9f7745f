"""Runs a query on Spark Structured Streaming: plumbing around the kernels and the controller."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.progress import Progress

from lowwater.control import Entry, FolderLog
from lowwater.durations import ticks
from lowwater.errors import HostError
from lowwater.query import Assembly, Clock, Outcome, Outputs, Run, Status, leaving
from lowwater.spark.checkpoint import Checkpoint
from lowwater.spark.dataframes import DataFrameSource
from lowwater.spark.epochs import Epochs
from lowwater.spark.inputs import Inputs
from lowwater.spark.interrupted import told_briefly
from lowwater.spark.listening import EpochEvents
from lowwater.spark.session import FILE_MANAGER, QUERY_SETTINGS, session, settings_for_start
from lowwater.spark.shipping import ship
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
        assembly: Assembly,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str | None,
        clock: Clock | None,
        shards: int | None,
    ) -> dict[str, Outcome]:
        """Run bounded streams to their end."""
        sinks = {name: sink.in_memory() for name, sink in outputs.items()}
        folder = checkpoint or tempfile.mkdtemp(prefix="lowwater-")
        try:
            running = SparkRun(
                assembly, sources, sinks, folder, clock=clock, shards=shards, bounded=True
            )
            running.finish()
        finally:
            if checkpoint is None:
                shutil.rmtree(folder, ignore_errors=True)
        return {
            name: Outcome.of(way, sinks[name], running.status(way.operators))
            for name, way in running.ways.items()
        }

    def start(
        self,
        assembly: Assembly,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str,
        trigger: str | None,
    ) -> Run:
        """Start a query that runs on."""
        running = SparkRun(assembly, sources, outputs, checkpoint, trigger=trigger)
        running.stop_at_the_end()
        return running


class SparkRun(Run):
    """A query running on Spark: a streaming query whose micro-batches make epochs.

    The micro-batches of DataFrames are its epochs, and between them, while Spark waits for data,
    epochs without their rows are run where other inputs, control or the clock ask for one. Where
    Lowwater reads all inputs itself, Spark's tick only asks for the next epoch: what it takes in,
    the control log says.
    """

    def __init__(
        self,
        assembly: Assembly,
        sources: Sequence[Any],
        outputs: Mapping[str, Outputs],
        checkpoint: str,
        *,
        clock: Clock | None = None,
        shards: int | None = None,
        trigger: str | None = None,
        bounded: bool = False,
    ) -> None:
        self.clock, self.trigger, self.bounded = clock, trigger, bounded
        self.started, self.finished = threading.Event(), threading.Event()
        self.stopping = threading.Event()
        self.failure: Exception | None = None
        folder = Checkpoint.at(checkpoint)
        spark = _session_of(sources)
        ship(spark)
        warm_up(spark)
        wanted = shards or int(spark.conf.get("spark.sql.shuffle.partitions") or 2)
        assembly = assembly.with_shards(folder.claim(assembly, wanted))
        self.flow, self.prodded = assembly.flow, assembly.prodder is not None
        self.adapter = assembly.adapter
        self.inputs = Inputs.of(
            sources, self.flow, folder, bounded=bounded, shedding=assembly.shedder is not None
        )
        log = folder.log()
        self.controller = assembly.controller(log)
        self.controller.begin(self._now(0))
        self.ways = leaving(self.flow, prodded=self.prodded, filled=assembly.filled)
        self.epochs = Epochs(
            spark,
            self.flow,
            self.controller,
            log,
            prodder=assembly.prodder,
            shedder=assembly.shedder,
            inputs=self.inputs,
            state=folder.state,
            outputs=[(self.ways[name], sinks) for name, sinks in outputs.items()],
            now=self._now,
        )
        self.asked = self.epochs.asked
        self.query = self._start(spark, folder)
        self._take_over(log, folder, spark)

    def _start(self, spark: SparkSession, folder: Checkpoint) -> StreamingQuery:
        if self.inputs.frames:
            stream, on_batch = self.inputs.stream(), self._on_batch
        else:
            stream, on_batch = _ticks(spark), self._on_tick
        settings = dict(QUERY_SETTINGS)
        if folder.remote:
            settings.pop(FILE_MANAGER)
        with settings_for_start(spark, settings):
            writer = stream.writeStream.foreachBatch(told_briefly(on_batch))
            writer = writer.option("checkpointLocation", folder.spark)
            if self.trigger is not None:
                ticks(self.trigger, name="trigger")
                writer = writer.trigger(processingTime=self.trigger)
            started: StreamingQuery = writer.start()
        return started

    def _take_over(self, log: FolderLog, folder: Checkpoint, spark: SparkSession) -> None:
        """Go on from what is there; another run on this checkpoint has ended by now."""
        self.epochs.newest = log.newest() or self.epochs.newest
        self.epochs.heard = EpochEvents(spark, self.query, self.flow, self.status).post
        for number, operator in enumerate(self.flow.operators):
            for shard in range(operator.plan.shards):
                ShardState.forget(f"{folder.state}/{number}", shard, self.epochs.newest.epoch)
        self.started.set()
        if self.inputs.frames:
            threading.Thread(target=self._beat, daemon=True).start()

    # -- epochs -----------------------------------------------------------------------------------

    def _on_batch(self, frame: DataFrame, batch: int) -> None:
        self.started.wait()
        if self.stopping.is_set():
            raise HostError("the query is being stopped")
        if not self.epochs.has_taken(batch):
            files = self.inputs.new_files(self.query)
            rows = self.inputs.rows(frame, self.query) if files is None else None
            self.epochs.take_batch(batch, rows, files or {})

    def _on_tick(self, frame: DataFrame, batch: int) -> None:
        """Run epochs as soon as there are any to run; with a trigger, one for each tick.

        What they take in, the control log says: Spark need not be asked between them, which would
        take nearly as long as an epoch.
        """
        self.started.wait()
        until = time.monotonic() + (LONGEST_TICK_SECONDS if self.trigger is None else 0.0)
        while not self.stopping.is_set() and not self.finished.is_set():
            if self.epochs.newest.done:
                self.finished.set()
            elif not self._take_what_is_new():
                self.finished.wait(POLL_SECONDS)
            if time.monotonic() >= until:
                return

    def _take_what_is_new(self) -> bool:
        """Run an epoch if there is one to run; say whether there was."""
        if self.epochs.take_blocks():
            return True
        return (self._over() or self._due()) and self.epochs.take_nothing()

    def _over(self) -> bool:
        """Say whether no input has anything more to come."""
        return len(self.inputs.exhausted(self.epochs.taken["blocks"])) == len(self.flow.inputs)

    def _beat(self) -> None:
        """Run epochs without a micro-batch where Spark, waiting for data, would run none."""
        while not self.finished.wait(POLL_SECONDS) and self.query.isActive:
            try:
                if (self.inputs.blocks or self._due()) and self._waiting_for_data():
                    self._between_batches()
            except Exception as failure:  # noqa: BLE001
                self.failure = failure
                self.query.stop()

    def _between_batches(self) -> None:
        if not (self.inputs.blocks and self.epochs.take_blocks()):
            self.epochs.take_nothing_if_due(by_clock=self.clock is None)

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
            with suppress(Exception):  # Spark itself may be gone by now
                self.query.stop()

        threading.Thread(target=watch, daemon=True).start()

    def finish(self) -> None:
        """Run to the end of the stream and through the epoch that closes the last windows."""
        try:
            if self.inputs.frames:
                self.query.processAllAvailable()
                self._must_be_alive()
                while self.epochs.take_blocks():
                    pass
                self.epochs.end()
            else:
                self._follow()
        except Exception as failure:
            raise _failed(failure) from failure
        finally:
            self.stop()

    def _follow(self) -> None:
        """Wait for blocks to be read; in a terminal, show how far a recording is."""
        shown = self.inputs.total is not None and sys.stderr.isatty()
        with Progress(transient=True, disable=not shown, console=STDERR) as bar:
            task = bar.add_task("rows", total=self.inputs.total)
            while not self.finished.wait(POLL_SECONDS):
                bar.update(task, completed=sum(self.epochs.newest.totals.get("inputs", ())))
                if not self.query.isActive and not self.finished.is_set():
                    self.query.awaitTermination()  # raises what ended it
                    self._must_be_alive()

    def _must_be_alive(self) -> None:
        """Refuse to call a stream ended that someone has stopped."""
        if self.failure is not None:
            raise self.failure
        if not self.query.isActive:
            raise HostError("the query was stopped before its end; run it again to go on")

    @property
    def newest(self) -> Entry:
        """The entry of the last epoch that has ended."""
        return self.epochs.newest

    def status(self, behind: Collection[int] | None = None) -> Status:
        """Return where the query stands, or the part of it behind an output."""
        return Status.of(self.epochs.newest, self.flow, self.epochs.rate, behind, self.adapter)

    def watch(self, tap: Outputs) -> None:
        """Let more sinks see what leaves by the first output."""
        (way, sinks), *others = self.epochs.outputs
        self.epochs.outputs = [(way, sinks.beside(tap)), *others]

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


def _session_of(sources: Sequence[Any]) -> SparkSession:
    """Return the session of the DataFrames, or one of our own."""
    frames = [s.frame for s in sources if isinstance(s, DataFrameSource)]
    found: SparkSession = frames[0].sparkSession if frames else session()
    return found


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
