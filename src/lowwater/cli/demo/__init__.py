"""`lowwater demo`: the flights of New York, replayed out of order and checked."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer


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
    from lowwater.cli.demo.showing import show

    try:
        show(first=first.date(), days=days, seconds=seconds, slack=slack, folder=folder)
    except KeyboardInterrupt:
        print("Stopped.")
        raise typer.Exit(130) from None
