"""A run of the query on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

import lowwater as lw
from examples.flights.journal import Journal
from examples.flights.query import delays
from examples.flights.screen import Screen
from lowwater.cli.spark_output import interruptible, logging_into, output_into, uninterrupted

_LOOK_SECONDS = 0.1


@contextmanager
def spark(screen: Screen, log: Path) -> Iterator[Path]:
    """Run Spark with its output in a file; yield a folder for checkpoints.

    If something fails, the error names the file.
    """
    log.write_bytes(b"")
    try:
        with logging_into(log), TemporaryDirectory(prefix="lowwater-") as folder:
            with screen.waiting("Starting Spark"), output_into(log), uninterrupted():
                session = _session()
            try:
                with interruptible():
                    yield Path(folder)
            finally:
                with suppress(Exception):
                    session.stop()
    except lw.HostError as failure:
        said = str(failure).rstrip(".")
        raise lw.HostError(f"{said}. Spark's own messages are in {log}.") from failure


def _session() -> Any:
    try:
        return lw.spark_session()
    except Exception as failure:
        raise lw.HostError(
            "Spark did not start; it needs Java 17 or 21, on the PATH or in JAVA_HOME"
        ) from failure


def warm_up(flights: pa.Table, checkpoint: Path, *, slack: str) -> None:
    """Run some epochs, so that the replay does not begin while Spark still loads its classes.

    The first epoch takes seconds; in a replay that is thousands of times as fast, most of a day.
    """
    feed = lw.feed(flights.schema)
    epochs = [flights.slice(at, 50) for at in (0, 50)]
    query = delays(feed, slack=slack)
    query.run(epochs={feed: epochs}, host="spark", checkpoint=str(checkpoint))


def replay(query: lw.Query, checkpoint: Path, screen: Screen) -> tuple[Journal, pa.Table]:
    """Run the query to the end of its recording; return its journal and the late rows."""
    journal, late = Journal(), lw.to_memory()
    run = query.start(sink=lw.to_callback(journal.take), late=late, checkpoint=str(checkpoint))
    try:
        _follow(run, journal, screen)
    finally:
        # After Ctrl-C a stop may fail; Spark itself is stopped soon.
        with suppress(Exception):
            run.stop()
    return journal, late.table(query.plan.late_schema)


def _follow(run: lw.Run, journal: Journal, screen: Screen) -> None:
    """Note the status of the run until every window is closed."""
    with screen.live():
        while not journal.ended:
            journal.note(run.status())
            screen.show(journal)
            if run.wait(_LOOK_SECONDS):  # raises what made it fail
                journal.note(run.status())
                break
        screen.show(journal)
    if not journal.ended:
        raise lw.HostError("the query ended before its stream did")
