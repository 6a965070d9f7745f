"""A run of the query on Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

import lowwater as lw
from lowwater.cli.demo.journal import Journal
from lowwater.cli.demo.noise import interruptible, logging_into, output_into
from lowwater.cli.demo.query import delays
from lowwater.cli.demo.screen import Screen

_LOOK_SECONDS = 0.1


@contextmanager
def spark(screen: Screen, log: Path) -> Iterator[None]:
    """Have Spark running, its words in a file; point to them when something fails."""
    log.write_bytes(b"")
    try:
        with logging_into(log):
            with screen.waiting("Starting Spark"), output_into(log):
                session = _session()
            try:
                with interruptible():
                    yield
            finally:
                with suppress(Exception):
                    session.stop()
    except lw.HostError as failure:
        raise lw.HostError(
            f"{str(failure).rstrip('.')}. Spark's own messages are in {log}"
        ) from failure


def _session() -> Any:
    try:
        return lw.session()
    except Exception as failure:
        raise lw.HostError(
            "Spark did not start; it needs Java 17 or 21, on the PATH or in JAVA_HOME"
        ) from failure


def warm_up(flights: pa.Table, *, slack: str) -> None:
    """Run some epochs, so that the replay does not begin while Spark still loads its classes.

    The first epoch takes seconds, and thousands of times as fast that is most of a day.
    """
    feed = lw.feed(flights.schema)
    epochs = [flights.slice(at, 50) for at in (0, 50)]
    delays(feed, slack=slack).run(epochs={feed: epochs}, host="spark")


def replay(query: lw.Query, screen: Screen) -> tuple[Journal, pa.Table]:
    """Run the query to the end of its recording; return what was seen, and the late rows."""
    journal, late = Journal(), lw.memory()
    with tempfile.TemporaryDirectory(prefix="lowwater-") as checkpoint:
        run = query.start(sink=lw.callback(journal.take), late=late, checkpoint=checkpoint)
        try:
            _follow(run, journal, screen)
        finally:
            # After Ctrl-C Spark has cancelled its jobs, and stopping may report just that.
            with suppress(Exception):
                run.stop()
    return journal, late.table(query.plan.late_schema)


def _follow(run: lw.Run, journal: Journal, screen: Screen) -> None:
    """Look at the run until every window is closed."""
    with screen.live():
        while not journal.ended:
            journal.note(run.status())
            screen.show(journal)
            if run.wait(_LOOK_SECONDS):  # raises what made it fail
                raise lw.HostError("the query ended before its stream did")
