"""`lowwater profile`: how disordered a stream is, and what completeness costs a query over it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

_FILE = typer.Argument(metavar="FILE", help="A file, or a folder of them: Parquet, CSV, JSON.")
_column = partial(typer.Option, metavar="COLUMN")
_TIME = _column(
    help="The column of event time, as in *ts*, or *sent:ms* if it has numbers (s, ms, us, ns).",
    show_default="the only timestamp",
)
_ARRIVAL = _column(
    help="The column of arrival time, written like --time.", show_default="the order in the file"
)
_FORMAT = typer.Option(metavar="FORMAT", help="parquet, csv or json.", show_default="by the ending")
_PLOT = typer.Option(
    metavar="FILE.png", help="Save a plot of the late degrees, and of what completeness costs."
)
_JSON = typer.Option("--json", metavar="", help="Print it as JSON.")

_query = partial(typer.Option, rich_help_panel="Query")
_QUERY = _query(
    metavar="QUERY",
    help="Replay this query, a text or a **.cql** file: print what completeness costs it in "
    "waiting time, and how right early values are.",
)
_RANGE = _query(metavar="LENGTH", help="Instead of --query: count rows in windows of this range.")
_SLIDE = _query(metavar="LENGTH", help="The slide of these windows.", show_default="the range")
_BY = _query(metavar="COLUMNS", help="The columns by which these counts are grouped.")
_EPOCH = _query(
    metavar="LENGTH",
    help="The length of an epoch on the arrival clock.",
    show_default="1 second, or a longer one for at most 1,000 epochs",
)
_EARLY = _query("--early/--no-early", help="Whether to measure early values, too; it takes longer.")
_NEED = _query(
    "--need", metavar="NEED", help="Print what this need would choose; give it several times."
)


def profile(
    file: Annotated[Path, _FILE],
    *,
    time: Annotated[str | None, _TIME] = None,
    arrival: Annotated[str | None, _ARRIVAL] = None,
    format: Annotated[str | None, _FORMAT] = None,
    plot: Annotated[Path | None, _PLOT] = None,
    as_json: Annotated[bool, _JSON] = False,
    query: Annotated[str | None, _QUERY] = None,
    range: Annotated[str | None, _RANGE] = None,
    slide: Annotated[str | None, _SLIDE] = None,
    by: Annotated[str | None, _BY] = None,
    epoch: Annotated[str | None, _EPOCH] = None,
    early: Annotated[bool, _EARLY] = True,
    need: Annotated[list[str] | None, _NEED] = None,
) -> None:
    """Measure how disordered a stream is, and what completeness costs a query over it.

    **lowwater profile readings.csv --time ts --arrival received --range '1 minute' --by sensor**

    The late degree of a row is how far its time is behind the newest time that arrived before it.
    """
    from lowwater.cli.profile.disorder import profile_record, profile_recording
    from lowwater.cli.profile.query import profile_query, query_record
    from lowwater.cli.profile.query_report import need_sentence, print_query
    from lowwater.cli.profile.report import draw, print_profile
    from lowwater.cli.replay.args import QueryArgs
    from lowwater.cli.replay.read import read_recording
    from lowwater.cli.run.source_args import SourceArgs

    args = QueryArgs(query, range, slide, by, epoch, early)
    given = {"time": time, "arrival": arrival, "format": format}
    options = {name: text for name, text in given.items() if text is not None}
    recording = read_recording(SourceArgs(file.name, str(file), options))
    disorder = profile_recording(recording)
    asked = profile_query(recording, args) if args.given else None
    if plot is not None:
        draw(disorder, plot, asked)
    if as_json:
        replayed: dict[str, object] = {} if asked is None else {"query": query_record(asked)}
        if asked is not None and need:
            replayed["needs"] = [need_sentence(asked, text) for text in need]
        print(json.dumps({**profile_record(disorder), **replayed}))
        return
    print_profile(disorder, plot)
    if asked is not None:
        print_query(asked, need or [])
