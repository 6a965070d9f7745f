"""`python -m examples.flights`: the flights of New York, replayed out of order and checked."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from lowwater import LowwaterError, PlanError, SpecError

MISTAKES = (SpecError, PlanError)
"""Errors that another option puts right: exit code 2 instead of 1."""
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def demo(
    *,
    first: Annotated[
        datetime,
        typer.Option(
            "--from", formats=["%Y-%m-%d"], help="First day, in 2013.", show_default="2013-06-23"
        ),
    ] = datetime(2013, 6, 23),  # noqa: DTZ001  # a day, whatever the zone
    days: Annotated[int, typer.Option(min=1, max=365, help="How many days.")] = 2,
    seconds: Annotated[
        float, typer.Option(min=1, help="How long the replay takes, by the wall clock.")
    ] = 40,
    slack: Annotated[
        str, typer.Option(help="How much later than the newest a flight may come.")
    ] = "2 hours",
    folder: Annotated[Path, typer.Option(help="Where the plot and the recording go.")] = Path(
        "lowwater-demo"
    ),
) -> None:
    """Replay flights out of order, watch their delays live, check them against the exact answer.

    The flights that left New York in 2013, in the order they took off, windowed on scheduled
    departure: delays per airport over 3 hours, sliding by 10 minutes.
    """
    # Loaded here: the command itself stays quick.
    from examples.flights.show import show

    try:
        show(first=first.date(), days=days, seconds=seconds, slack=slack, folder=folder)
    except KeyboardInterrupt:
        print("Stopped.")
        raise typer.Exit(130) from None


def main(arguments: list[str] | None = None) -> None:
    """Run the demo; an error of Lowwater's is one paragraph without a trace."""
    try:
        app(arguments)
    except LowwaterError as error:
        print(f"flights: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, MISTAKES) else 1)


if __name__ == "__main__":
    main()
