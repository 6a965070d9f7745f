"""The demo from beginning to end."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from rich.console import Console

import lowwater as lw
from examples.flights.check import check
from examples.flights.flights import record
from examples.flights.plot import plot
from examples.flights.query import delays
from examples.flights.replay import replay, spark, warm_up
from examples.flights.screen import screen_on
from examples.flights.summary import Report, as_text
from examples.flights.tradeoff import as_table, choices
from lowwater.cli.spark_output import own_stdout


def show(*, first: date, days: int, seconds: float, slack: str, folder: Path) -> None:
    """Replay, watch, check, sum up and draw."""
    recording = record(first, days)
    speed = recording.seconds / seconds
    folder.mkdir(parents=True, exist_ok=True)
    query = delays(lw.replay(recording.save(folder), arrival="took_off", speed=speed), slack=slack)
    with own_stdout() as output:
        console = Console(file=output, highlight=False)
        console.print(f"[bold]Departure delays in New York, {recording.spoken_dates}[/]")
        console.print(
            f"Means over 3 hours, every 10 minutes, of flights in the order they took off, "
            f"{speed:,.0f} times as fast, with a slack of {slack}.\n"
        )
        screen = screen_on(console, len(recording.flights))
        with spark(screen, folder / "spark.log") as checkpoints:
            with screen.waiting("Warming up"):
                warm_up(recording.table(), checkpoints / "warming", slack=slack)
            journal, late = replay(query, checkpoints / "replay", screen)
        with screen.waiting("Checking against the exact answer"):
            checked = check(journal.table(query.schema), late, recording.flights)
            report = Report(recording, journal, late, checked, speed, slack)
            picture = folder / "delays.png"
            plot(report, picture)
            tried = choices(recording, journal, slack)
        console.print(as_text(report.facts()))
        console.print("\nWhat other slacks give for the same flights in the same epochs:\n")
        console.print(as_table(tried))
        console.print(f"\nThe picture is {picture}.")
