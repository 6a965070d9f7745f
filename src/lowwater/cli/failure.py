"""The line that the command prints about a failure, and the log file that holds its trace."""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from lowwater.cli.spark_output import logging_into
from lowwater.errors import HostError, PlanError, SpecError, StateError, places
from lowwater.sinks.postgres_address import hide_passwords

MISTAKES = (SpecError, PlanError, StateError)
"""Errors that the user can correct: in the query, its settings, or the choice of checkpoint."""
LONGEST_LINE = 1_000
"""The most characters of an error that the command prints; the log has the whole error."""
_LOG = logging.getLogger("lowwater")


def failure_line(failure: BaseException) -> str:
    """Return the failure in one line: what failed, in which operator or sink, in which epoch."""
    text = " ".join(hide_passwords(str(failure) or repr(failure)).split()).rstrip(".")
    shown = text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"
    return ", ".join([shown, *(f"in {place}" for place in places(failure) if place not in text)])


def write_trace(failure: BaseException, log: Path | None = None) -> Path:
    """Append the trace of `failure` to the file `log`, by default a new file; return its path.

    The new file is in the folder for temporary files, and only its owner can read it.
    """
    trace = "".join(traceback.format_exception(failure))
    path = new_log() if log is None else log
    with path.open("a", encoding="utf-8") as file:
        file.write(hide_passwords(trace))
    return path


def new_log() -> Path:
    """Return a new log file in the folder for temporary files."""
    descriptor, name = mkstemp(prefix="lowwater-", suffix=".log")
    os.close(descriptor)
    return Path(name)


@contextmanager
def run_log(*, spark: bool) -> Iterator[Path]:
    """Yield the log file of a run, which gets messages and traces instead of the terminal.

    If the run fails, raise HostError with one line that names the file. Otherwise delete the file.
    """
    log = new_log()
    try:
        with logging_into(log), _traces_in_log():
            yield log
    except MISTAKES:
        log.unlink(missing_ok=True)
        raise
    except Exception as failure:
        write_trace(failure, log)
        content = "The full trace and Spark's own messages are" if spark else "The full trace is"
        raise HostError(f"{failure_line(failure)}. {content} in {log}.") from failure
    except BaseException:
        log.unlink(missing_ok=True)
        raise
    log.unlink(missing_ok=True)


@contextmanager
def _traces_in_log() -> Iterator[None]:
    """Log exceptions that end a thread or cannot be raised; Python would print their traces."""

    def in_thread(failed: Any) -> None:
        if failed.exc_type is not SystemExit:
            traced = (failed.exc_type, failed.exc_value, failed.exc_traceback)
            _LOG.error("a thread ended with an exception", exc_info=traced)

    def ignored(failed: Any) -> None:
        traced = (failed.exc_type, failed.exc_value, failed.exc_traceback)
        _LOG.error("an exception was ignored", exc_info=traced)

    with ExitStack() as after:
        after.callback(setattr, threading, "excepthook", threading.excepthook)
        after.callback(setattr, sys, "unraisablehook", sys.unraisablehook)
        threading.excepthook, sys.unraisablehook = in_thread, ignored
        yield
