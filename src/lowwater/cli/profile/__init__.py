"""`lowwater profile`: how disordered is a stream, and which settings suit it."""

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
            metavar="COLUMN", help="The column of event time.", show_default="the one there is"
        ),
    ] = None,
    arrival: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The column that says when a row arrived.",
            show_default="rows arrived in the order of the file",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="parquet, csv or json.", show_default="by the ending"),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw the late degrees into a file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Say it as JSON.")] = False,
) -> None:
    """Tell how disordered a stream is, and which settings suit it.

    **lowwater profile readings.csv --time ts --arrival received**

    The late degree of a row is how far its time is behind the newest that arrived before it.
    """
    from lowwater.cli.profile.measuring import as_object
    from lowwater.cli.profile.reading import measured
    from lowwater.cli.profile.telling import in_words

    found = measured(file, time, arrival, format)
    if plot is not None:
        from lowwater.cli.profile.plot import draw

        draw(found, plot)
    if as_json:
        print(json.dumps(as_object(found)))
    else:
        in_words(found, plot)
