"""The Spark host, which runs queries on Spark Structured Streaming."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lowwater.engine.clock import Clock
from lowwater.engine.failure import starting
from lowwater.engine.host import Outcome, outcomes
from lowwater.engine.pending_outputs import Ahead
from lowwater.engine.run import Run
from lowwater.errors import PlanError
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.sinks.sink import Outputs
from lowwater.spark.run import SparkRun
from lowwater.spark.session import while_jvm_lives


class SparkHost:
    """The host that runs queries on Spark."""

    @while_jvm_lives()
    def run(
        self,
        assembly: PhysicalPlan,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str | None,
        clock: Clock | None,
        shards: int | None,
        ahead: Ahead | None = None,
    ) -> dict[str, Outcome]:
        """Run a query to the end of its bounded streams; return the outcome of each output."""
        sinks = {name: sink.in_memory() for name, sink in outputs.items()}
        folder = checkpoint or tempfile.mkdtemp(prefix="lowwater-")
        try:
            with starting(Py4JError, PySparkException):
                running = SparkRun(
                    assembly,
                    sources,
                    sinks,
                    folder,
                    clock=clock,
                    shards=shards,
                    bounded=True,
                    durable=checkpoint is not None,
                    ahead=ahead,
                )
            running.finish()
        finally:
            if checkpoint is None:
                shutil.rmtree(folder, ignore_errors=True)
        return outcomes(running, sinks)

    @while_jvm_lives()
    def start(
        self,
        assembly: PhysicalPlan,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str | None,
        trigger: str | None,
        clock: Clock | None = None,
        ahead: Ahead | None = None,
    ) -> Run:
        """Start a continuous run; raise PlanError without a checkpoint."""
        if checkpoint is None:
            raise PlanError("a query that runs on Spark needs checkpoint=; name a folder for it")
        with starting(Py4JError, PySparkException):
            running = SparkRun(
                assembly, sources, outputs, checkpoint, clock=clock, trigger=trigger, ahead=ahead
            )
        running.stop_at_the_end()
        return running


HOST = SparkHost()
