"""The function that Spark calls with each micro-batch of a run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from socket import SHUT_RDWR
from traceback import clear_frames
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from lowwater.errors import HostError

OnBatch = Callable[[DataFrame, int], None]
INTERRUPTED = "java.lang.InterruptedException"
_KNOWN_AS = f"py4j.protocol.Py4JJavaError: An error occurred while calling an epoch: {INTERRUPTED}"


class BatchCallback:
    """The function that Spark calls with each micro-batch; it calls `on_batch` of the run.

    If the micro-batch fails, it calls `on_failure` as well.

    Spark interrupts a query when another run takes over the checkpoint. Spark matches the error
    with a regular expression, which overflows the JVM's stack on a text as long as a full trace.
    So the callback raises a short error then.

    The run refers to the JVM's query, the query to this callback, and the callback to the run. No
    garbage collector sees this whole cycle, and no one ends the thread that serves the callback. So
    `release` does both when the query has ended.
    """

    def __init__(self, on_batch: OnBatch, on_failure: Callable[[Exception], None]) -> None:
        self.on_batch: OnBatch | None = on_batch
        self.on_failure: Callable[[Exception], None] | None = on_failure
        self.connection: Any = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run the epochs of a micro-batch."""
        if self.on_batch is None:
            raise HostError("the query has ended")
        gateway: Any = frame.sparkSession.sparkContext._gateway  # noqa: SLF001
        self.connection = gateway._gateway_client.get_thread_connection()  # noqa: SLF001
        try:
            self.on_batch(frame, batch)
        except Exception as failure:
            _clear_locals(failure)
            java = failure.java_exception if isinstance(failure, Py4JJavaError) else ""
            if not str(java).startswith(INTERRUPTED):
                if self.on_failure is not None:
                    self.on_failure(failure)
                raise
            raise HostError(_KNOWN_AS) from None

    def release(self) -> None:
        """Let go of the run, and end the thread; only after the query has ended."""
        self.on_batch = self.on_failure = None
        with suppress(AttributeError, OSError):  # never called, or closed by the JVM
            self.connection.socket.shutdown(SHUT_RDWR)


def _clear_locals(failure: BaseException | None) -> None:
    """Clear the local variables in a failure's traces, which Spark keeps: they hold the run."""
    while failure is not None:
        clear_frames(failure.__traceback__)
        failure = failure.__cause__ or failure.__context__
