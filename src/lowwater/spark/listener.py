"""Epochs as progress events for the listeners of the Spark session.

Spark's own progress events do not describe epochs: a micro-batch may be several epochs or none, and
Spark does not count the rows that ingest reads. So each epoch is posted to the session's listeners
as an additional progress event of the streaming query. `df.observe` cannot post the event, because
most epochs run without a SQL plan.

The event is built from private classes of Spark. If these classes change, no event is posted, and
the query continues.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from lowwater.dataflow.graph import Dataflow
from lowwater.engine.metrics import EPOCH_COUNTS, EPOCH_MEASURES, of_epoch
from lowwater.engine.status import Status

NAME = "lowwater"
"""The key of an epoch's metrics in the observed metrics of an event."""
_WHOLE = ("epoch", *EPOCH_COUNTS)
SCHEMA = StructType(
    [StructField(n, LongType()) for n in _WHOLE]
    + [StructField(n, DoubleType()) for n in EPOCH_MEASURES]
)


class EpochEvents:
    """The component that posts every epoch of a query to the listeners of its Spark session."""

    def __init__(
        self,
        spark: SparkSession,
        query: StreamingQuery,
        flow: Dataflow,
        status: Callable[[], Status],
    ) -> None:
        self.flow, self.status = flow, status
        self.newest = status()
        self.ids = {"id": str(query.id), "runId": str(query.runId), "name": query.name}
        self.streams = spark._jsparkSession.streams()  # noqa: SLF001
        self.java: Any = spark.sparkContext._gateway  # noqa: SLF001
        self.broken = False

    def post(self, seconds: float) -> None:
        """Post the event of the epoch that has just ended; `seconds` is its duration."""
        before, self.newest = self.newest, self.status()
        if self.broken:
            return
        try:
            if len(self.streams.listListeners()):
                self._post(of_epoch(self.flow, before, self.newest), seconds)
        except Exception:  # noqa: BLE001  # Spark's classes have changed; the query continues
            self.broken = True

    def _post(self, metrics: dict[str, float | None], seconds: float) -> None:
        classes = self._classes
        progress = classes["progress"].fromJson(json.dumps(self._progress(metrics, seconds)))
        values = self.java.new_array(self.java.jvm.java.lang.Object, len(SCHEMA.names))
        for at, value in enumerate([self.newest.epoch, *map(metrics.get, SCHEMA.names[1:])]):
            if value is not None:
                whole = SCHEMA.names[at] in _WHOLE
                values[at] = classes["long"](int(value)) if whole else float(value)
        progress.observedMetrics().put(NAME, classes["row"](values, classes["schema"]))
        self.streams.postListenerEvent(classes["event"](progress))

    @cached_property
    def _classes(self) -> dict[str, Any]:
        """The JVM objects that build an event, by name, cached because a lookup is slow."""
        sql = self.java.jvm.org.apache.spark.sql
        companion = getattr(sql.streaming, "StreamingQueryProgress$")
        return {
            "progress": getattr(companion, "MODULE$"),
            "event": getattr(sql.streaming, "StreamingQueryListener$QueryProgressEvent"),
            "row": sql.catalyst.expressions.GenericRowWithSchema,
            "schema": sql.types.DataType.fromJson(SCHEMA.json()),
            "long": self.java.jvm.java.lang.Long.valueOf,
        }

    def _progress(self, metrics: dict[str, float | None], seconds: float) -> dict[str, Any]:
        """Return an epoch's metrics as the JSON fields of Spark's StreamingQueryProgress."""
        took = max(1, round(seconds * 1000))
        rate = (metrics["in"] or 0) / max(seconds, 1e-3)
        times = {"max": self.newest.newest, "watermark": self.newest.watermark}
        return {
            **self.ids,
            "timestamp": _iso(datetime.now(UTC)),
            "batchId": self.newest.epoch,
            "batchDuration": took,
            "durationMs": {"triggerExecution": took},
            "eventTime": {n: _iso(t) for n, t in times.items() if isinstance(t, datetime)},
            "stateOperators": [_state(metrics)],
            "sources": [_source(metrics, rate)],
            "sink": {"description": NAME, "numOutputRows": metrics["results"], "metrics": {}},
            "observedMetrics": {},
        }


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _source(metrics: dict[str, float | None], rate: float) -> dict[str, Any]:
    return {
        "description": NAME,
        **dict.fromkeys(("startOffset", "endOffset", "latestOffset")),
        "numInputRows": metrics["in"],
        "inputRowsPerSecond": rate,
        "processedRowsPerSecond": rate,
        "metrics": {},
    }


def _state(metrics: dict[str, float | None]) -> dict[str, Any]:
    unknown = ("numRowsUpdated", "numRowsRemoved", "numShufflePartitions", "numStateStoreInstances")
    times = ("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs")
    return {
        "operatorName": NAME,
        "numRowsTotal": metrics["cells"],
        "memoryUsedBytes": metrics["state_bytes"],
        "numRowsDroppedByWatermark": metrics["late"],
        **dict.fromkeys((*unknown, *times), 0),
        "customMetrics": {},
    }
