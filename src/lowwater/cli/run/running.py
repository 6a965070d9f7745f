"""A run from its start to its end, or to Ctrl-C."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkstemp
from typing import Any, TextIO

import lowwater as lw
from lowwater.cli.noise import (
    interruptible,
    logging_into,
    noticed,
    output_into,
    uninterrupted,
)
from lowwater.cli.run.asking import Asked
from lowwater.cli.run.screen import Screen
from lowwater.cli.run.sinks import Counted
from lowwater.query import Outputs
from lowwater.query.prodding import prodded
from lowwater.sinks import Sink

_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Ended:
    """How a run ended: where it stood, what it wrote, how long it took, whether it was stopped."""

    status: lw.Status
    written: dict[str, int]
    seconds: float
    interrupted: bool = False


def carry_out(
    asked: Asked, screen: Screen, out: TextIO, begun: Callable[[lw.Run], Any] | None = None
) -> Ended:
    """Start the query and follow it to its end; `begun` is called with the run."""
    with _folder(asked) as folder, _host(asked, screen):
        start = time.monotonic()
        written: dict[str, int] = dict.fromkeys(asked.targets, 0)
        run = _start(asked, folder, _sinks(asked, screen, out, written))
        shown = None if begun is None else begun(run)
        try:
            stopped = _follow(run, screen)
            if shown is not None and not stopped and screen.console.is_terminal:
                screen.console.print("All windows are closed. The page stays until Ctrl-C.")
                with noticed() as pressed:
                    while not pressed.wait(_LOOK_SECONDS):
                        pass
        finally:
            if shown is not None:
                shown.close()
            # After Ctrl-C a stop may fail; Spark itself is stopped soon.
            with suppress(Exception):
                run.stop()
        return Ended(run.status(), written, time.monotonic() - start, stopped)


def _follow(run: lw.Run, screen: Screen) -> bool:
    """Look at a run until it ends; say whether it was stopped by Ctrl-C."""
    with screen.live(), noticed() as pressed:
        while not run.wait(_LOOK_SECONDS):  # raises what made it fail
            screen.show(run)
            if pressed.is_set():
                screen.say("Stopping after the epoch at work …")
                run.stop()
                screen.show(run)
                return True
        screen.show(run)
    return False


def _sinks(asked: Asked, screen: Screen, out: TextIO, written: dict[str, int]) -> dict[str, Sink]:
    """Return the sinks by their options; how many rows each has taken is counted."""
    sinks = {name: target.sink(out) for name, target in asked.targets.items()}
    if asked.shown and screen.live_rows:
        sinks["sink"] = lw.callback(screen.take)
    return {name: Counted(sink, name, written) for name, sink in sinks.items()}


def _start(asked: Asked, folder: Path, sinks: dict[str, Sink]) -> lw.Run:
    results, late, malformed = (sinks.get(n) for n in ("sink", "late", "malformed"))
    if asked.host == "spark":
        assert results is not None  # noqa: S101
        return asked.query.start(
            sink=results,
            late=late,
            malformed=malformed,
            checkpoint=str(folder),
            prods=asked.prods,
            estimate=asked.estimate,
        )
    from lowwater.local.running import LocalRun

    assembly = prodded(asked.query.assembly, asked.prods, asked.estimate)
    return LocalRun(assembly, Outputs(results, late, malformed), str(folder))


@contextmanager
def _folder(asked: Asked) -> Iterator[Path]:
    """Have a folder for the checkpoint: the one that was named, or one for this run only."""
    if asked.checkpoint is not None:
        yield asked.checkpoint
        return
    with TemporaryDirectory(prefix="lowwater-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def _host(asked: Asked, screen: Screen) -> Iterator[None]:
    """Have a host ready; Spark's own words go into a file, which an error points to."""
    if asked.host == "local":
        with interruptible():
            yield
        return
    descriptor, name = mkstemp(prefix="lowwater-spark-", suffix=".log")
    os.close(descriptor)
    log = Path(name)
    try:
        with logging_into(log), spark_session(screen, log), interruptible():
            yield
    except lw.HostError as failure:
        said = str(failure).rstrip(".")
        raise lw.HostError(f"{said}. Spark's own messages are in {log}.") from failure
    log.unlink(missing_ok=True)


@contextmanager
def spark_session(screen: Screen, log: Path) -> Iterator[Any]:
    """Have Spark running, its output in a file."""
    with screen.waiting("Starting Spark"), output_into(log), uninterrupted():
        try:
            session = lw.session()
        except Exception as failure:
            raise lw.HostError(
                "Spark did not start; it needs Java 17 or 21, on the PATH or in JAVA_HOME"
            ) from failure
    try:
        yield session
    finally:
        with suppress(Exception):
            session.stop()
