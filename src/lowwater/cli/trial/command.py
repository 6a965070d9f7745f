"""The command `lowwater try`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lowwater.errors import SpecError

_FILE = typer.Argument(
    metavar="[FILE]", help="A file, or a folder of them: Parquet, CSV, JSON.", show_default=False
)
_input = partial(typer.Option, rich_help_panel="Input")
_QUERY = _input(metavar="QUERY", help="The query: a text or a **.cql** file.")
_RANGE = _input(metavar="LENGTH", help="Instead of --query: count rows in windows of this range.")
_SLIDE = _input(metavar="LENGTH", help="The slide of these windows.", show_default="the range")
_BY = _input(metavar="COLUMNS", help="The columns by which these counts are grouped.")
_SOURCE = _input(
    "--source",
    metavar="NAME=PATH[,…]",
    help="Instead of FILE, for each stream of the query: a file or a folder, and options as for "
    "lowwater run.",
)
_TIME = _input(metavar="COLUMN", help="The column of event time of FILE, as in *ts* or *sent:ms*.")
_ARRIVAL = _input(metavar="COLUMN", help="The column of arrival time, written like --time.")
_FORMAT = _input(metavar="FORMAT", help="parquet, csv or json.", show_default="by the ending")
_EPOCH = _input(
    metavar="LENGTH",
    help="The length of an epoch on the arrival clock.",
    show_default="1 second, or a longer one for at most 1,000 epochs",
)
_policy = partial(typer.Option, rich_help_panel="Settings", metavar="POLICY")
_WATERMARK = _policy(
    "--watermark", help="Try this policy; give it several times. See lowwater run."
)
_EARLY = _policy("--early", help="Try these early results, with the first --watermark.")
_SHED = _policy("--shed", help="Try to drop this share of windows, with the first --watermark.")
_NEED = _policy("--need", help="Try this need, as in 'fresh 30 seconds, right 0.98'.")
_JSON = typer.Option("--json", metavar="", help="Print it as JSON.")


def compare(
    file: Annotated[Path | None, _FILE] = None,
    *,
    query: Annotated[str | None, _QUERY] = None,
    range: Annotated[str | None, _RANGE] = None,
    slide: Annotated[str | None, _SLIDE] = None,
    by: Annotated[str | None, _BY] = None,
    source: Annotated[list[str] | None, _SOURCE] = None,
    time: Annotated[str | None, _TIME] = None,
    arrival: Annotated[str | None, _ARRIVAL] = None,
    format: Annotated[str | None, _FORMAT] = None,
    epoch: Annotated[str | None, _EPOCH] = None,
    watermark: Annotated[list[str] | None, _WATERMARK] = None,
    early: Annotated[list[str] | None, _EARLY] = None,
    shed: Annotated[list[str] | None, _SHED] = None,
    need: Annotated[list[str] | None, _NEED] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Run a query over a recording under several settings, and compare them in one table.

    **lowwater try readings.csv --time ts --arrival received --range '1 minute' --by sensor**

    Without --watermark, --early, --shed and --need, it tries settings that suit the recording.
    """
    from lowwater.cli.replay.args import QueryArgs, recordings_of
    from lowwater.cli.replay.query import RecordedQuery
    from lowwater.cli.trial.report import figures_record, print_figures
    from lowwater.cli.trial.settings import SettingTexts
    from lowwater.cli.trial.trial import Trials

    args = QueryArgs(query, range, slide, by, epoch)
    if not args.given:
        raise SpecError(
            "a trial needs a query; give one with --query, or the length of its windows with "
            "--range, as in --range '1 minute'"
        )
    given = {"time": time, "arrival": arrival, "format": format}
    options = {name: text for name, text in given.items() if text is not None}
    text = args.text()
    recordings = recordings_of(text, file, source or [], options)
    trials = Trials(RecordedQuery.of(text, recordings, epoch))
    texts = SettingTexts(watermark or [], early or [], shed or [], need or [])
    figures = {one.text: trials.run(one) for one in texts.settings(trials)}
    if as_json:
        print(json.dumps(figures_record(trials, figures)))
    else:
        print_figures(trials, figures)
