"""Epochs that Spark interrupts, because another run on the checkpoint takes over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JJavaError

from lowwater.errors import HostError

INTERRUPTED = "java.lang.InterruptedException"
_KNOWN_AS = f"py4j.protocol.Py4JJavaError: An error occurred while calling an epoch: {INTERRUPTED}"


def told_briefly(on_batch: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
    """Return a function of batches that tells in a few words if it was interrupted.

    Spark finds out by a pattern over the text of the failure, which overflows the stack of the JVM
    if that is as long as a trace of Spark's own is.
    """

    def told(frame: Any, batch: int) -> None:
        try:
            on_batch(frame, batch)
        except Py4JJavaError as failure:
            if not str(failure.java_exception).startswith(INTERRUPTED):
                raise
            raise HostError(_KNOWN_AS) from None

    return told
