"""Epochs told to Spark's own listeners.

Several epochs may be one micro-batch of Spark, or none, and it does not see the rows that ingest
reads: what it reports of our streaming query says little. So each epoch is posted to the listeners
of the session as one more progress of that query. `df.observe` would have to be part of a plan that
Spark runs, which for most epochs there is none of.

The classes that are made here are not public in Spark, but are what it makes itself; should they
change, no event is posted, and the query goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from lowwater.dataflow.graph import Dataflow
from lowwater.engine.metrics import EPOCH_COUNTS, EPOCH_MEASURES, of_epoch
from lowwater.engine.status import Status

NAME = "lowwater"
"""Under which name an epoch's figures are among the observed metrics."""
_WHOLE = ("epoch", *EPOCH_COUNTS)
SCHEMA = StructType(
    [*(StructField(n, LongType()) for n in _WHOLE)]
    + [StructField(n, DoubleType()) for n in EPOCH_MEASURES]
)


class EpochEvents:
    """Posts every epoch of a query to the listeners of its session."""

    def __init__(
        self,
        spark: SparkSession,
        query: StreamingQuery,
        flow: Dataflow,
        status: Callable[[], Status],
    ) -> None:
        self.flow, self.status = flow, status
        self.before = status()
        self.ids = {"id": str(query.id), "runId": str(query.runId), "name": query.name}
        self.streams = spark._jsparkSession.streams()  # noqa: SLF001
        self.java: Any = spark.sparkContext._gateway  # noqa: SLF001
        self.made: dict[str, Any] = {}
        self.broken = False

    def post(self, seconds: float) -> None:
        """Post the event of the epoch that has just ended; `took` is its duration."""
        before, self.before = self.before, self.status()
        if self.broken:
            return
        try:
            if len(self.streams.listListeners()):
                self._post(of_epoch(self.flow, before, self.before), seconds)
        except Exception:  # noqa: BLE001  # whatever Spark has changed, the query goes on
            self.broken = True

    def _post(self, figures: dict[str, float | None], seconds: float) -> None:
        classes = self.made or self._classes()
        told = json.dumps(self._told(figures, seconds))
        progress = classes["progress"].fromJson(told)
        values = self.java.new_array(self.java.jvm.java.lang.Object, len(SCHEMA.names))
        for at, value in enumerate([self.before.epoch, *map(figures.get, SCHEMA.names[1:])]):
            if value is not None:
                whole = SCHEMA.names[at] in _WHOLE
                values[at] = classes["long"](int(value)) if whole else float(value)
        progress.observedMetrics().put(NAME, classes["row"](values, classes["schema"]))
        self.streams.postListenerEvent(classes["event"](progress))

    def _classes(self) -> dict[str, Any]:
        """Look the classes up once: each look costs several calls."""
        sql = self.java.jvm.org.apache.spark.sql
        companion = getattr(sql.streaming, "StreamingQueryProgress$")
        self.made = {
            "progress": getattr(companion, "MODULE$"),
            "event": getattr(sql.streaming, "StreamingQueryListener$QueryProgressEvent"),
            "row": sql.catalyst.expressions.GenericRowWithSchema,
            "schema": sql.types.DataType.fromJson(SCHEMA.json()),
            "long": self.java.jvm.java.lang.Long.valueOf,
        }
        return self.made

    def _told(self, figures: dict[str, float | None], seconds: float) -> dict[str, Any]:
        """Return an epoch in the words that Spark has for a micro-batch."""
        took = max(1, round(seconds * 1000))
        rate = (figures["in"] or 0) / max(seconds, 1e-3)
        now = datetime.now(UTC)
        times = {"max": self.before.newest, "watermark": self.before.watermark}
        return {
            **self.ids,
            "timestamp": _iso(now),
            "batchId": self.before.epoch,
            "batchDuration": took,
            "durationMs": {"triggerExecution": took},
            "eventTime": {n: _iso(t) for n, t in times.items() if isinstance(t, datetime)},
            "stateOperators": [_state(figures)],
            "sources": [_source(figures, rate)],
            "sink": {"description": NAME, "numOutputRows": figures["results"], "metrics": {}},
            "observedMetrics": {},
        }


def _iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _source(figures: dict[str, float | None], rate: float) -> dict[str, Any]:
    return {
        "description": NAME,
        "startOffset": None,
        "endOffset": None,
        "latestOffset": None,
        "numInputRows": figures["in"],
        "inputRowsPerSecond": rate,
        "processedRowsPerSecond": rate,
        "metrics": {},
    }


def _state(figures: dict[str, float | None]) -> dict[str, Any]:
    unknown = ("numRowsUpdated", "numRowsRemoved", "numShufflePartitions", "numStateStoreInstances")
    times = ("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs")
    return {
        "operatorName": NAME,
        "numRowsTotal": figures["cells"],
        "memoryUsedBytes": figures["state_bytes"],
        "numRowsDroppedByWatermark": figures["late"],
        **dict.fromkeys((*unknown, *times), 0),
        "customMetrics": {},
    }
