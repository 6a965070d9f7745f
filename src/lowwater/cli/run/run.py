"""Executes a run until it ends or until Ctrl-C."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TextIO

import lowwater as lw
from lowwater.cli.failure import run_log
from lowwater.cli.run.screen import Screen
from lowwater.cli.run.settings import RunRequest
from lowwater.cli.run.sinks import OUTPUTS, CountSink
from lowwater.cli.spark_output import (
    interruptible,
    output_into,
    stop_request,
    uninterrupted,
)
from lowwater.engine.need_status import NeedStatus
from lowwater.engine.outputs import plan_writers, prepare
from lowwater.engine.restart import RestartedRun
from lowwater.errors import SinkError
from lowwater.planner.physical_plan import PhysicalPlan
from lowwater.query.start import RESULTS, start
from lowwater.sinks.files import JsonValue, jsonable
from lowwater.sinks.postgres_address import may_hold_password
from lowwater.sinks.sink import Outputs
from lowwater.ui.history import accuracy_record, need_text

if TYPE_CHECKING:
    from lowwater.ui.dashboard import Dashboard

_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class RunEnd:
    """The end of a run: its last status, rows by sink, duration, and whether Ctrl-C stopped it."""

    status: lw.Status
    written: dict[str, int]
    seconds: float
    interrupted: bool = False


def execute(
    request: RunRequest,
    screen: Screen,
    out: TextIO,
    on_start: Callable[[lw.Run], Dashboard] | None = None,
) -> RunEnd:
    """Run the query, show its progress until it ends or Ctrl-C stops it, and return its outcome.

    `on_start` is called with the run when it has started, and opens the live page.
    """
    written: dict[str, int] = dict.fromkeys(request.targets, 0)
    sinks = {RESULTS: _outputs(request, screen, out, written)}
    _prepare(request.assembly, sinks)
    with _folder(request) as folder, _host(request, screen):
        began = time.monotonic()
        # The local host writes a checkpoint only if the user named one.
        unnamed = request.host == "local" and request.checkpoint is None
        checkpoint = None if unnamed else str(folder)
        begin = partial(
            start,
            request.assembly,
            sinks,
            checkpoint=checkpoint,
            host=request.host,
            clock=None if request.playback is None else request.playback.clock,
            ahead=request.outputs,
        )
        run = begin() if request.restart is None else RestartedRun(begin, request.restart)
        page = None if on_start is None else on_start(run)
        try:
            stopped = _follow(run, screen)
            if page is not None and not stopped and screen.console.is_terminal:
                screen.console.print("All windows are closed. The page stays until Ctrl-C.")
                with stop_request() as pressed:
                    while not pressed.wait(_POLL_SECONDS):
                        pass
        finally:
            if page is not None:
                page.close()
            # After Ctrl-C, run.stop() may fail; the Spark session is stopped next anyway.
            with suppress(Exception):
                run.stop()
        return RunEnd(run.status(), written, time.monotonic() - began, stopped)


def _follow(run: lw.Run, screen: Screen) -> bool:
    """Show `run` on the screen until it ends; return whether Ctrl-C stopped it."""
    with screen.live(), stop_request() as pressed:
        while not run.wait(_POLL_SECONDS):  # raises the error of a run that failed
            screen.show(run)
            if pressed.is_set():
                screen.message("Stopping after the current epoch …")
                run.stop()
                screen.show(run)
                return True
        screen.show(run)
    return False


def _outputs(request: RunRequest, screen: Screen, out: TextIO, written: dict[str, int]) -> Outputs:
    """Return the sinks of the query; each sink counts its rows in `written`."""
    sinks = {name: target.sink(out, request.existing) for name, target in request.targets.items()}
    if request.shows_table and screen.live_rows:
        sinks["sink"] = lw.to_callback(screen.take)
    counted = {name: CountSink(sink, name, written) for name, sink in sinks.items()}
    return Outputs(*map(counted.get, OUTPUTS))


def _prepare(plan: PhysicalPlan, sinks: dict[str, Outputs]) -> None:
    """Prepare the sinks before the run starts; turn a SinkError into a SpecError."""
    try:
        prepare(plan_writers(plan), sinks)
    except SinkError as problem:
        raise lw.SpecError(str(problem)) from problem


@contextmanager
def _folder(request: RunRequest) -> Iterator[Path]:
    """Yield the folder of the checkpoint, or a temporary folder if the run has no checkpoint."""
    if request.checkpoint is not None:
        yield request.checkpoint
        return
    with TemporaryDirectory(prefix="lowwater-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def _host(request: RunRequest, screen: Screen) -> Iterator[None]:
    """Run the host during the `with` block; an error names the file with the trace."""
    with run_log(spark=request.host == "spark") as log, ExitStack() as host:
        if request.host == "spark":
            host.enter_context(spark_session(screen, log))
        host.enter_context(interruptible())
        yield


@contextmanager
def spark_session(screen: Screen, log: Path) -> Iterator[object]:
    """Yield a Spark session whose output goes to the file `log`; stop the session at the end."""
    with screen.waiting("Starting Spark"), output_into(log), uninterrupted():
        try:
            session = lw.spark_session()
        except Exception as failure:
            raise lw.HostError(
                "Spark did not start; it needs Java 17 or 21, on the PATH or in JAVA_HOME"
            ) from failure
    try:
        yield session
    finally:
        with suppress(Exception):
            session.stop()


_ACCOUNTS = ("late", "outside", "malformed", "shed", "sidelined")


def run_summary(request: RunRequest, ended: RunEnd, command: list[str]) -> str:
    """Return the counts of a run as text and, after Ctrl-C, a line on how to resume the run."""
    status = ended.status
    lost = [f"{status[a]:,} {a}" for a in _ACCOUNTS if status[a]]
    bad = f"{status.bad_files:,} bad file{'' if status.bad_files == 1 else 's'}"
    lost += [bad] if status.bad_files else []
    partly = [f"{status['partly_late']:,} partly late"] if status["partly_late"] else []
    rows = f"{status['in']:,} row{'' if status['in'] == 1 else 's'}"
    more = " more" if request.resumed else ""
    # After a resume, the count would include early results of earlier runs: leave it out.
    counted = status.prods.get("early") and not request.resumed
    early = f", {status.prods['early']:,} of them early" if counted else ""
    losses = f" ({', '.join(lost + partly)})" if lost or partly else ""
    text = f"{rows}{losses}, {ended.written['sink']:,}{more} results{early}"
    if not request.shows_table:
        text += f" in {request.targets['sink'].place}"
    played = "" if request.playback is None else f" {request.playback}"
    text += f"; {status.epoch + 1} epochs{played}, {ended.seconds:.1f} s."
    text += "".join(f"\n{line}" for line in (*dropped_lines(status), *need_lines(status)))
    if not ended.interrupted:
        return text
    resume = "be able to resume, give --checkpoint FOLDER."
    if request.checkpoint is not None:
        words = shlex.join(map(_without_address, command))
        resume = f"resume, run the same command: lowwater {words}"
    return f"{text}\nStopped after epoch {status.epoch}. To {resume}"


def dropped_lines(status: lw.Status) -> Iterator[str]:
    """Yield what a run has dropped: windows in all, and by class of groups with fair shares."""
    dropped = status.dropped
    if not dropped:
        return
    classes = dropped["windows_of"] if "classes" in dropped else {}
    of = " by class of groups" if "classes" in dropped else ""
    share = "" if classes else f", at the end a share of {dropped['share']:.0%}"
    limit = "" if dropped["limited_by"] is None else f"; limited by {dropped['limited_by']}"
    yield f"Dropped {dropped['windows']:,} windows{of}{share}{limit}."
    for number, windows in classes.items():
        share = dropped["classes"].get(number, 0.0)
        yield f"  class {number}: {windows:,} windows, at the end a share of {share:.0%}"


def need_lines(status: lw.Status) -> Iterator[str]:
    """Yield what each need has promised, and how far it was kept."""
    for name, need in status.needs.items():
        of = f" of {name}" if len(status.needs) > 1 else ""
        yield f"Need{of}: {need_text(need)}."


def _without_address(word: str) -> str:
    """Return a word of the command without the address of a database that holds a password."""
    if not may_hold_password(word):
        return word
    return re.sub(r"(postgres:).*?(,table=|$)", r"\1…\2", word, count=1, flags=re.DOTALL)


def _need_record(need: NeedStatus) -> dict[str, Any]:
    return {
        "promised": dict(need.promised),
        "kept": dict(need.kept),
        "given_up": dict(need.given_up),
        "limited_by": list(need.limited_by),
    }


def run_record(request: RunRequest, ended: RunEnd) -> JsonValue:
    """Return the counts and the last status of a run in the types of JSON."""
    status = ended.status
    return jsonable(
        {
            "epochs": status.epoch + 1,
            "played": None if request.playback is None else str(request.playback),
            "seconds": round(ended.seconds, 3),
            "interrupted": ended.interrupted,
            "ended": status.ended,
            "counts": dict(status.counts),
            "balanced": status.balanced,
            "bad_files": status.bad_files,
            "overflows": status.overflows,
            "restarts": status.restarts,
            "written": ended.written,
            "watermark": status.watermark,
            "newest": status.newest,
            "state": {"cells": status.cells, "bytes": status.state_bytes},
            "prods": dict(status.prods),
            "dropped": dict(status.dropped),
            "needs": {n: _need_record(one) for n, one in status.needs.items()},
            "accuracy": accuracy_record(status),
            "sinks": {name: str(target) for name, target in request.targets.items()},
            "checkpoint": None if request.checkpoint is None else str(request.checkpoint),
        }
    )
