"""`lowwater profile`: how disordered a stream is, and which settings suit it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

_FILE = typer.Argument(metavar="FILE", help="A file, or a folder of them: Parquet, CSV, JSON.")
_column = partial(typer.Option, metavar="COLUMN")
_TIME = _column(help="The column of event time.", show_default="the only timestamp")
_ARRIVAL = _column(help="The column of arrival time.", show_default="the order in the file")
_FORMAT = typer.Option(metavar="FORMAT", help="parquet, csv or json.", show_default="by the ending")
_PLOT = typer.Option(metavar="FILE.png", help="Save a plot of the late degrees.")
_JSON = typer.Option("--json", metavar="", help="Print it as JSON.")


def profile(
    file: Annotated[Path, _FILE],
    *,
    time: Annotated[str | None, _TIME] = None,
    arrival: Annotated[str | None, _ARRIVAL] = None,
    format: Annotated[str | None, _FORMAT] = None,
    plot: Annotated[Path | None, _PLOT] = None,
    as_json: Annotated[bool, _JSON] = False,
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
