"""What Spark reports about each epoch, gathered the same way on both sides."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_UNIX = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Epoch:
    """One executed epoch: its time, its input, Spark's watermark in force."""

    batch: int
    ms: int
    rows: int
    watermark_us: int

    @classmethod
    def of(cls, progress: dict[str, Any]) -> Epoch:
        """Read the fields of a StreamingQueryProgress in its JSON form."""
        mark = progress.get("eventTime", {}).get("watermark")
        return cls(
            batch=progress["batchId"],
            ms=progress["durationMs"]["triggerExecution"],
            rows=progress["numInputRows"],
            watermark_us=_ticks(mark) if mark else 0,
        )


class EpochLog(StreamingQueryListener):
    """Collects every executed epoch of the one query that a session runs."""

    def __init__(self) -> None:
        self._progress: list[dict[str, Any]] = []
        self._ended = threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Called by Spark when the query starts."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Called by Spark after each epoch."""
        self._progress.append(json.loads(event.progress.json))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Called by Spark when there was nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Called by Spark after the last epoch of the query."""
        self._ended.set()

    def finished(self, patience: float = 30.0) -> list[Epoch]:
        """Return the epochs in order once Spark has delivered the last of them.

        The listener's bus runs behind the query, so the end of the query is not
        yet the end of the events.
        """
        if not self._ended.wait(patience):
            msg = f"Spark reported no end of the query within {patience:.0f} s of its end"
            raise TimeoutError(msg)
        executed = [p for p in self._progress if "addBatch" in p["durationMs"]]
        return sorted(map(Epoch.of, executed), key=lambda epoch: epoch.batch)


def _ticks(text: str) -> int:
    """Return microseconds since 1970 of an ISO time such as 2024-01-01T00:16:30.000Z."""
    return (datetime.fromisoformat(text) - _UNIX) // timedelta(microseconds=1)
