"""`lowwater run` and `lowwater explain`: a query over the user's own rows."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import typer
from rich.console import Console

from lowwater.cli.run import options
from lowwater.errors import SpecError


def run(
    query: options.Query = None,
    *,
    config: options.Config = None,
    source: options.Source = None,
    progress: options.Progress = None,
    quality: options.Quality = None,
    sink: options.Sink = None,
    late: options.Late = None,
    malformed: options.Malformed = None,
    left_out: options.LeftOut = None,
    checkpoint: options.Checkpoint = None,
    prods: options.Prods = None,
    estimate: options.Estimate = None,
    sideline: options.Sideline = None,
    shed: options.Shed = None,
    host: options.Host = None,
    epoch_rows: options.EpochRows = None,
    follow: options.Follow = None,
    ui: options.Ui = None,
    ui_control: options.UiControl = None,
    ui_port: options.UiPort = None,
    as_json: options.Json = None,
    no_follow: options.Not = False,
    no_ui: options.Not = False,
    no_ui_control: options.Not = False,
) -> None:
    """Run a query over files, folders or standard input.

    **lowwater run speeds.cql --source traffic=readings.csv,time=ts --progress 'slack 10 seconds'
    --sink parquet:out**

    Files and folders are read to their end; every window is closed then. Ctrl-C stops after the
    epoch at work. Exit codes: 0, 1 if the query failed, 2 for a mistake, 130 after Ctrl-C.
    """
    said = {**locals(), "json": as_json}
    for name in ("follow", "ui", "ui_control"):
        if said[f"no_{name}"]:
            said[name] = False
    # Loaded here: the command itself stays quick.
    from lowwater.cli.run.asking import asked_of
    from lowwater.cli.run.settings import settings_of

    settings = settings_of(said)
    asked = asked_of(settings)
    if settings.json and any(t.printed for t in asked.targets.values()):
        raise SpecError("--json and rows would mix on standard output; name a folder with --sink")
    shown = settings.ui or settings.ui_control or settings.ui_port is not None
    token = os.environ.get("LOWWATER_TOKEN")
    page = Page(settings.ui_port or 0, settings.ui_control, token) if shown else None
    _carry_out(asked, page, as_json=settings.json)


def explain(
    query: options.Query = None,
    *,
    config: options.Config = None,
    source: options.Source = None,
    progress: options.Progress = None,
    quality: options.Quality = None,
    sideline: options.Sideline = None,
    shed: options.Shed = None,
    epoch_rows: options.EpochRows = None,
    follow: options.Follow = None,
) -> None:
    """Say what a query means, what it keeps, and how its progress is known; run nothing."""
    said = dict(locals())
    from lowwater.cli.run.asking import explained
    from lowwater.cli.run.settings import settings_of

    print(explained(settings_of(said)))


@dataclass(frozen=True)
class Page:
    """The live page that was asked for; a port that is busy is refused at once."""

    port: int
    controls: bool
    token: str | None = None

    def __post_init__(self) -> None:
        from lowwater.ui.serving import check_port, check_token

        check_port(self.port)
        check_token(self.token)

    def beside(self, run: Any, console: Console) -> Any:
        """Open the page and say where it is."""
        from lowwater.ui import dashboard

        made = dashboard(run, port=self.port, controls=self.controls, token=self.token)
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
        total = total_rows(asked.query) if console.is_terminal else None
        screen = Screen(console, total, live_rows=shown)
        aside = Console(file=err, highlight=False)
        for note in asked.notes:
            aside.print(f"Note: {note}", markup=False, soft_wrap=True)
        begun = None if page is None else partial(page.beside, console=aside)
        ended = carry_out(asked, screen, out, begun)
        if as_json:
            out.write(json.dumps(as_object(asked, ended)) + "\n")
        else:
            told = in_words(asked, ended, sys.argv[1:])
            aside.print(told, markup=False, soft_wrap=True)
    if ended.interrupted:
        raise typer.Exit(130)
