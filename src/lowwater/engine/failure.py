"""Failures of a run in one line: what failed, where, in which epoch, does a restart help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass

from lowwater import errors
from lowwater.errors import (
    ROWS_ASIDE,
    ROWS_OPEN,
    CqlError,
    HostError,
    LowwaterError,
    SinkError,
    StateError,
    places,
)

_RAISED = re.compile(
    r"^\s*([A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt)): (.*)$", re.MULTILINE
)
"""The line of a Python trace that names the exception."""
_JAVA = re.compile(r"^(?:: |Caused by: |pyspark\.[\w.]+: )(?:[\w.$]+: )?(.+)$", re.MULTILINE)
"""The lines of Spark's errors that have a message."""
_OF_SPARK = ("py4j.", "pyspark.")
_LOST = {
    "Python worker exited unexpectedly": "a Python worker of Spark ended unexpectedly",
    "ExecutorLostFailure": "an executor of Spark was lost",
    "Python worker failed to connect back": "a Python worker of Spark did not start",
    "SparkContext was shut down": "Spark was shut down",
    "No space left on device": "No space left on device",
}
"""{words in Spark's errors about lost processes and disks: what to report instead}."""


@dataclass(frozen=True)
class Failure:
    """The cause of a failed epoch in one line, its places, and whether it may go away by itself."""

    cause: str
    places: tuple[str, ...] = ()
    transient: bool = False

    @property
    def epoch(self) -> int | None:
        """The number of the failed epoch, None if the failure is not in an epoch."""
        found = [p.removeprefix("epoch ") for p in self.places if p.startswith("epoch ")]
        return next((int(number) for number in found if number.isdigit()), None)

    @property
    def lost_process(self) -> bool:
        """Whether a process of Spark was lost, so that the job may succeed when it runs again."""
        return self.cause in _LOST.values()

    @property
    def line(self) -> str:
        """What failed, where, and why, without a remedy."""
        where = [p for p in self.places if not p.startswith("epoch ")]
        what = "the query" if self.epoch is None else f"epoch {self.epoch}"
        inside = f" in {', '.join(where)}" if where else ""
        cause = self.cause.rstrip(". ")
        return f"{what} failed{inside}: {cause}"

    def __str__(self) -> str:
        return f"{self.line}. {self._remedy}"

    @property
    def _remedy(self) -> str:
        if self.transient:
            return "Start the query again once the cause is gone: it continues where it was"
        if ROWS_ASIDE in self.places:
            return (
                "Its rows are set aside, so the cause is in earlier rows, or in the query's code: "
                "change the code, or go back with lowwater state CHECKPOINT --rewind EPOCH"
            )
        again = "A restart reads the same rows and fails again, unless the query's code is changed"
        if ROWS_OPEN not in self.places:
            return again
        return (
            f"{again}, or the rows of the epoch are set aside: lowwater state CHECKPOINT "
            f"--set-aside {self.epoch}"
        )


def failure_of(error: BaseException) -> Failure:
    """Return the failure that `error` reports; Spark's errors contain the trace of a task as text.

    >>> print(failure_of(ZeroDivisionError("division by zero")))
    the query failed: ZeroDivisionError: division by zero. A restart reads the same rows and fails \
again, unless the query's code is changed
    """
    text, where = str(error), tuple(places(error))
    for words, meaning in _LOST.items():
        if words in text:
            return Failure(meaning, where, transient=True)
    traced = [] if isinstance(error, LowwaterError | OSError) else _RAISED.findall(text)
    path, message = traced[-1] if traced else ("", "")
    name = path.rpartition(".")[2]
    if path.startswith(_OF_SPARK) or (not traced and type(error).__module__.startswith(_OF_SPARK)):
        # Spark computes its own part of the query before rows can be set aside.
        return Failure(_spark_cause(text), tuple(p for p in where if p != ROWS_OPEN))
    if traced:
        kind = getattr(errors, name, None)
        if kind is not None:
            return Failure(message, where, transient=kind is SinkError)
        return Failure(f"{name}: {message}", where, transient=name in _TRANSIENT)
    if isinstance(error, LowwaterError):
        return Failure(text, where, transient=isinstance(error, SinkError))
    line = " ".join(text.split()) or repr(error)
    name = type(error).__name__
    return Failure(f"{name}: {line}", where, transient=isinstance(error, OSError | MemoryError))


def _spark_cause(text: str) -> str:
    r"""Return the cause in one of Spark's errors: the first message with a class, or the last one.

    >>> _spark_cause("An error occurred while calling o1.x.\n: org.E: [A_B] It failed. SQLSTATE: X")
    'Spark: [A_B] It failed.'
    """
    found = _JAVA.findall(text) or [" ".join(text.split())]
    classed = [message for message in found if message.startswith("[")]
    chosen = (classed or found[-1:])[0].partition("terminated with exception: ")
    return f"Spark: {(chosen[2] or chosen[0]).partition(' SQLSTATE')[0].strip()}"


_TRANSIENT = (
    "OSError",
    "ConnectionError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "TimeoutError",
    "MemoryError",
    "BlockingIOError",
)


def raised(error: BaseException) -> LowwaterError:
    """Return the error to raise from `error`, which ended a run: one line, and the right class.

    It is always a new error: an error that is raised from itself would be its own cause.
    """
    if isinstance(error, HostError | CqlError):
        return copy(error)
    failure = failure_of(error)
    kind = type(error) if isinstance(error, LowwaterError) else _class_of(error)
    # These errors name the file or the parameter, and the way out.
    complete = issubclass(kind, StateError) or (kind is HostError and _own(error))
    return kind(failure.cause if complete else str(failure))


@contextmanager
def starting(*kinds: type[Exception]) -> Iterator[None]:
    """Turn an OSError, or an error of `kinds`, at the start of a run into an error of Lowwater."""
    expected: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except expected as problem:
        raise raised(problem) from problem


def _own(error: BaseException) -> bool:
    """Return whether the last exception in Spark's `error` is a HostError of Lowwater."""
    traced = _RAISED.findall(str(error))
    return bool(traced) and traced[-1][0] == "lowwater.errors.HostError"


def _class_of(error: BaseException) -> type[LowwaterError]:
    """Return the class of Lowwater's error that Spark's `error` contains; else HostError."""
    for name, _ in reversed(_RAISED.findall(str(error))):
        kind = getattr(errors, name.rpartition(".")[2], None)
        if isinstance(kind, type) and issubclass(kind, LowwaterError):
            return kind
    return HostError
