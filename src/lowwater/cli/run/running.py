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
from lowwater.cli.run.sinks import OUTPUTS, Counted
from lowwater.errors import SinkError
from lowwater.query import Outputs, leaving
from lowwater.query.leaving import prepare
from lowwater.query.running import RESULTS, start
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
    written: dict[str, int] = dict.fromkeys(asked.targets, 0)
    sinks = _sinks(asked, screen, out, written)
    _make_ready(asked, sinks)
    with _folder(asked) as folder, _host(asked, screen):
        began = time.monotonic()
        run = _start(asked, folder, sinks)
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
        return Ended(run.status(), written, time.monotonic() - began, stopped)


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
    outputs = Outputs(*(sinks.get(name) for name in OUTPUTS))
    if asked.host == "spark":
        return start(asked.assembly, {RESULTS: outputs}, checkpoint=str(folder), trigger=None)
    from lowwater.local.running import LocalRun

    return LocalRun(asked.assembly, outputs, str(folder))


def _make_ready(asked: Asked, sinks: dict[str, Sink]) -> None:
    """Let sinks make ready before anything else is started; what they refuse is a mistake."""
    assembly = asked.assembly
    ways = leaving(assembly.flow, prodded=assembly.prodder is not None, filled=assembly.filled)
    try:
        prepare(ways, {RESULTS: Outputs(*(sinks.get(name) for name in OUTPUTS))})
    except SinkError as problem:
        raise lw.SpecError(str(problem)) from problem


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
