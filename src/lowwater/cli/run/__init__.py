"""`lowwater run` and `lowwater explain`: a query over the user's own rows."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from lowwater.errors import SpecError

Query = Annotated[
    str,
    typer.Argument(
        metavar="QUERY",
        help="A file with the query (**.cql**), or with all settings (**.toml**), or the query "
        "itself, as in *'SELECT count(\\*) FROM s [RANGE 1 minute]'*.",
    ),
]
Source = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="NAME=PATH[,…]",
        help="A stream of the query: a file, a folder, or **-** for JSON lines from standard "
        "input. Behind it: **time=** the column of event time, **arrival=** the column by whose "
        "order rows arrive, **speed=** how many times as fast, **format=** parquet, csv or json, "
        "**schema=** its columns, **progress=** for this source alone.",
    ),
]
Progress = Annotated[
    str | None,
    typer.Option(
        metavar="SENTENCE",
        help="How it is known that time has passed: *slack 10 seconds*, *slack 100 rows*, "
        "*ordered*, *punctuated COLUMN*, *per source COLUMN, each slack 5 seconds, idle 1 "
        "minute*; behind it *, consistent* or *, lull 1 minute* or *, max ahead 1 hour*.",
    ),
]
Sink = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT:FOLDER",
        help="Where results go: **parquet:**, **csv:** or **json:** and a folder, which gets a "
        "file for each epoch; **csv:-** or **json:-** for standard output; or **table**.",
        show_default="table",
    ),
]
Late = Annotated[
    str | None, typer.Option(metavar="FORMAT:FOLDER", help="Where rows go that came too late.")
]
Malformed = Annotated[
    str | None, typer.Option(metavar="FORMAT:FOLDER", help="Where rows go that cannot be read.")
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Keep what is needed to go on here; run again with it, a query goes on.",
    ),
]
Prods = Annotated[
    str | None,
    typer.Option(
        metavar="SENTENCE",
        help="Ask for early results: *every 10 seconds*, *aggressive 0.25*, *aggressive, accuracy "
        "0.98*, *on demand*.",
    ),
]
Estimate = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="Early values estimate the final ones (**complete**), or are what has arrived "
        "(**raw**).",
        show_default="complete",
    ),
]
Host = Annotated[
    str | None,
    typer.Option(
        metavar="HOST",
        help="**spark**, or **local** for one process without Spark, and without checkpoints.",
        show_default="spark",
    ),
]
EpochRows = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="The most rows of a source in an epoch.",
        show_default="a twentieth of a file",
    ),
]
Follow = Annotated[
    bool,
    typer.Option("--follow", help="Wait for more files in a folder, instead of ending with it."),
]


def run(
    query: Query,
    *,
    source: Source = None,
    progress: Progress = None,
    sink: Sink = None,
    late: Late = None,
    malformed: Malformed = None,
    checkpoint: Checkpoint = None,
    prods: Prods = None,
    estimate: Estimate = None,
    host: Host = None,
    epoch_rows: EpochRows = None,
    follow: Follow = False,
    ui: Annotated[bool, typer.Option("--ui", help="Show the run on a live page.")] = False,
    ui_control: Annotated[
        bool,
        typer.Option("--ui-control", help="Let that page ask for early results (implies --ui)."),
    ] = False,
    ui_port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, metavar="PORT", show_default="any that is free"),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Say at the end what came of it as JSON.")
    ] = False,
) -> None:
    """Run a query over files, folders or standard input.

    **lowwater run speeds.cql --source traffic=readings.csv,time=ts --progress 'slack 10 seconds'
    --sink parquet:out**

    Files and folders are read to their end; every window is closed then. Ctrl-C stops after the
    epoch at work. Exit codes: 0, 1 if the query failed, 2 for a mistake, 130 after Ctrl-C.
    """
    options = dict(locals())
    # Loaded here: the command itself stays quick.
    from lowwater.cli.run.asking import asked_of
    from lowwater.cli.run.settings import settings_of

    asked = asked_of(settings_of(options), prods="on demand" if ui_control else None)
    if as_json and any(t.printed for t in asked.targets.values()):
        raise SpecError("--json and rows would mix on standard output; name a folder with --sink")
    page = Page(ui_port or 0, ui_control) if ui or ui_control or ui_port is not None else None
    _carry_out(asked, page, as_json=as_json)


def explain(
    query: Query,
    *,
    source: Source = None,
    progress: Progress = None,
    epoch_rows: EpochRows = None,
    follow: Follow = False,
) -> None:
    """Say what a query means, what it keeps, and how its progress is known; run nothing."""
    options = dict(locals())
    from lowwater.cli.run.asking import query_of
    from lowwater.cli.run.settings import settings_of

    print(query_of(settings_of(options))[0].explain())


@dataclass(frozen=True)
class Page:
    """The live page that was asked for; a port that is busy is refused at once."""

    port: int
    controls: bool

    def __post_init__(self) -> None:
        from lowwater.ui.serving import check_port

        check_port(self.port)

    def beside(self, run: Any, console: Console) -> Any:
        """Open the page and say where it is."""
        from lowwater.ui import dashboard

        made = dashboard(run, port=self.port, controls=self.controls)
        console.print(f"The page is at {made.url}", soft_wrap=True)
        return made


def _carry_out(asked: Any, page: Page | None, *, as_json: bool) -> None:
    from lowwater.cli.noise import own_stderr, own_stdout
    from lowwater.cli.run.asking import total_rows
    from lowwater.cli.run.running import carry_out
    from lowwater.cli.run.screen import Screen
    from lowwater.cli.run.telling import as_object, in_words

    with own_stdout() as out, own_stderr() as err:
        # Only a table is drawn where rows go; all else stays out of their way.
        shown = asked.shown and out.isatty()
        console = Console(file=out if shown else err, highlight=False)
        screen = Screen(console, total_rows(asked.query), live_rows=shown)
        aside = Console(file=err, highlight=False)
        begun = None if page is None else partial(page.beside, console=aside)
        ended = carry_out(asked, screen, out, begun)
        if as_json:
            out.write(json.dumps(as_object(asked, ended)) + "\n")
        else:
            told = in_words(asked, ended, sys.argv[1:])
            aside.print(told, markup=False, soft_wrap=True)
    if ended.interrupted:
        raise typer.Exit(130)
