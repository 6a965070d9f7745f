"""Runs a query on Spark Structured Streaming: plumbing around the kernels and the controller."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

from lowwater.engine.host import Clock, Outcome
from lowwater.engine.run import Run
from lowwater.errors import PlanError
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.sinks.sink import Outputs
from lowwater.spark.run import SparkRun


class SparkHost:
    """Hosts kernels on Spark."""

    def run(
        self,
        assembly: PhysicalPlan,
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
                assembly,
                sources,
                sinks,
                folder,
                clock=clock,
                shards=shards,
                bounded=True,
                durable=checkpoint is not None,
            )
            running.finish()
        finally:
            if checkpoint is None:
                shutil.rmtree(folder, ignore_errors=True)
        return {
            name: Outcome.of(writer, sinks[name], running.status(writer.operators))
            for name, writer in running.writers.items()
        }

    def start(
        self,
        assembly: PhysicalPlan,
        sources: list[Any],
        outputs: Mapping[str, Outputs],
        *,
        checkpoint: str | None,
        trigger: str | None,
    ) -> Run:
        """Start a query that runs on."""
        if checkpoint is None:
            raise PlanError("a query that runs on Spark needs checkpoint=; name a folder for it")
        running = SparkRun(assembly, sources, outputs, checkpoint, trigger=trigger)
        running.stop_at_the_end()
        return running


HOST = SparkHost()
