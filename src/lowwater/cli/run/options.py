"""The options of `lowwater run`, as the help tells them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FLAG = ""
"""What a flag takes, in the help: nothing. Else it would seem to want a value, true or false."""
IN, OUT, HOW, SEEN = "What goes in", "What comes out", "How it runs", "What is seen of it"

Query = Annotated[
    str | None,
    typer.Argument(
        metavar="QUERY",
        help="A file with the query (**.cql**), or the query itself, as in *'SELECT count(\\*) "
        "FROM s [RANGE 1 minute]'*.",
        show_default="that of --config",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=IN,
        metavar="FILE",
        help="Settings from a file, **.toml** or **.yaml**, under the names of these options; "
        "what is said here goes before it.",
    ),
]
Source = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        rich_help_panel=IN,
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
        rich_help_panel=IN,
        metavar="SENTENCE",
        help="How it is known that time has passed: 'slack 10 seconds', 'slack 100 rows', "
        "'ordered', 'punctuated COLUMN', 'per source COLUMN, each slack 5 seconds, idle 1 "
        "minute'; behind a comma 'consistent', 'lull 1 minute' or 'max ahead 1 hour'.",
    ),
]
Quality = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=IN,
        metavar="SENTENCE",
        help="Instead of --progress: how complete results must be, '0.95', or how far off they "
        "may be, 'error 0.01'; the shortest wait that gives it is found.",
    ),
]
Sink = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=OUT,
        metavar="FORMAT:PLACE",
        help="Where results go: **parquet:**, **csv:** or **json:** and a folder, which gets a "
        "file for each epoch; **csv:-** or **json:-** for standard output; "
        "**postgres:ADDRESS,table=NAME**; or **table**.",
        show_default="table",
    ),
]
Late = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=OUT, metavar="FORMAT:PLACE", help="Where rows go that came too late."
    ),
]
Malformed = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=OUT, metavar="FORMAT:PLACE", help="Where rows go that cannot be read."
    ),
]
LeftOut = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=OUT,
        metavar="FORMAT:PLACE",
        help="Where it is told which windows were shed.",
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=HOW,
        metavar="FOLDER",
        help="Keep what is needed to go on here; run again with it, a query goes on.",
    ),
]
Prods = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=HOW,
        metavar="SENTENCE",
        help="Ask for early results: 'every 10 seconds', 'aggressive 0.25', 'aggressive, accuracy "
        "0.98', 'on demand'.",
    ),
]
Estimate = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=HOW,
        metavar="HOW",
        help="Early values estimate the final ones (**complete**), or are what has arrived "
        "(**raw**).",
        show_default="complete",
    ),
]
Sideline = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=HOW,
        metavar="SENTENCE",
        help="Put rows of a burst aside and work them off later: 'every 3, max delay 1 minute'.",
    ),
]
Shed = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=HOW,
        metavar="SENTENCE",
        help="Leave whole windows out when the stream outruns the machine: 'latency 5 seconds, max "
        "gap 10', or 'p 0.3, max gap 10'.",
    ),
]
Host = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=HOW,
        metavar="HOST",
        help="**spark**, or **local** for one process without Spark, and without checkpoints.",
        show_default="spark",
    ),
]
EpochRows = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=HOW,
        min=1,
        metavar="N",
        help="The most rows of a source in an epoch.",
        show_default="a twentieth of a file",
    ),
]
Follow = Annotated[
    bool | None,
    typer.Option(
        "--follow",
        metavar=FLAG,
        help="Wait for more files in a folder, instead of ending with it.",
        rich_help_panel=IN,
    ),
]
Not = Annotated[bool, typer.Option(hidden=True)]
"""Takes back what a file of settings says; told in the docs, not in the help."""
Ui = Annotated[
    bool | None,
    typer.Option("--ui", metavar=FLAG, help="Show the run on a live page.", rich_help_panel=SEEN),
]
UiControl = Annotated[
    bool | None,
    typer.Option(
        "--ui-control",
        metavar=FLAG,
        help="Let that page ask for early results and change settings (implies --ui).",
        rich_help_panel=SEEN,
    ),
]
UiPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65_535,
        metavar="PORT",
        help="The port of the page (implies --ui).",
        rich_help_panel=SEEN,
        show_default="any that is free",
    ),
]
Json = Annotated[
    bool | None,
    typer.Option(
        "--json",
        metavar=FLAG,
        help="Say at the end what came of it as JSON.",
        rich_help_panel=SEEN,
    ),
]
