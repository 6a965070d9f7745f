"""`lowwater profile`: how disordered a stream is, and which settings suit it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def profile(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A file, or a folder of them: Parquet, CSV, JSON."),
    ],
    *,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="The column of event time.", show_default="the only timestamp"
        ),
    ] = None,
    arrival: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column with the time of arrival.",
            show_default="the order of rows in the file",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="parquet, csv or json.", show_default="by the ending"),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Save a plot of the late degrees.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print it as JSON.")] = False,
) -> None:
    """Measure how disordered a stream is, and print settings that suit it.

    **lowwater profile readings.csv --time ts --arrival received**

    The late degree of a row is how far its time is behind the newest time that arrived before it.
    """
    from lowwater.cli.profile.disorder import profile_record, read_profile
    from lowwater.cli.profile.report import draw, print_profile

    disorder = read_profile(file, time, arrival, format)
    if plot is not None:
        draw(disorder, plot)
    if as_json:
        print(json.dumps(profile_record(disorder)))
    else:
        print_profile(disorder, plot)
