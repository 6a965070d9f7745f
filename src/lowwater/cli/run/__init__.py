"""`lowwater run` and `lowwater explain`: a query over files, folders or standard input."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from lowwater.cli.run import options
from lowwater.errors import SpecError

if TYPE_CHECKING:
    from lowwater.cli.run.settings import RunRequest
    from lowwater.engine.run import Run
    from lowwater.ui.dashboard import Dashboard


def run(
    query: options.Query = None,
    *,
    config: options.Config = None,
    source: options.Source = None,
    arrival: options.Arrival = None,
    epoch: options.EpochLength = None,
    watermark: options.Watermark = None,
    quality: options.Quality = None,
    sink: options.Sink = None,
    late: options.Late = None,
    malformed: options.Malformed = None,
    dropped: options.Dropped = None,
    bad_files: options.BadFiles = None,
    existing: options.Existing = None,
    outputs: options.Outputs = None,
    checkpoint: options.Checkpoint = None,
    early: options.Early = None,
    estimate: options.Estimate = None,
    sideline: options.Sideline = None,
    shed: options.Shed = None,
    need: options.NeedText = None,
    restart: options.Restart = None,
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

    **lowwater run speeds.cql --source traffic=readings.csv,time=ts --watermark 'slack 10 seconds'
    --sink parquet:out**

    A file is played as its rows arrived, epoch by epoch. Files and folders are read to their end,
    and then every window closes. Ctrl-C stops after the
    current epoch. Exit codes: 0, 1 if the query failed, 2 for a mistake, 130 after Ctrl-C.
    """
    given = {**locals(), "json": as_json}
    for name in ("follow", "ui", "ui_control"):
        if given[f"no_{name}"]:
            given[name] = False
    # Imported here to keep `lowwater --help` fast.
    from lowwater.cli.run.settings import run_request, settings_of

    settings = settings_of(given)
    request = run_request(settings)
    if settings.json and any(t.printed for t in request.targets.values()):
        raise SpecError(
            "--json prints to standard output, and so does a sink: they would mix; send the rows "
            "to a folder, as in --sink json:out"
        )
    wanted = settings.ui or settings.ui_control or settings.ui_port is not None
    token = os.environ.get("LOWWATER_TOKEN")
    page = Page(settings.ui_port or 0, settings.ui_control, token) if wanted else None
    _execute(request, page, as_json=settings.json)


def explain(
    query: options.Query = None,
    *,
    config: options.Config = None,
    source: options.Source = None,
    arrival: options.Arrival = None,
    epoch: options.EpochLength = None,
    watermark: options.Watermark = None,
    quality: options.Quality = None,
    sideline: options.Sideline = None,
    shed: options.Shed = None,
    need: options.NeedText = None,
    epoch_rows: options.EpochRows = None,
    follow: options.Follow = None,
) -> None:
    """Print the plan of a query: its windows, its state, its watermark. Run nothing."""
    given = dict(locals())
    from lowwater.cli.run.settings import explain_text, settings_of

    print(explain_text(settings_of(given)))


@dataclass(frozen=True)
class Page:
    """The options of a run's live page; the constructor raises SpecError if the port is in use."""

    port: int
    controls: bool
    token: str | None = None

    def __post_init__(self) -> None:
        from lowwater.ui.server import check_port, check_token

        check_port(self.port)
        check_token(self.token)

    def open(self, run: Run, console: Console) -> Dashboard:
        """Serve the page of `run`, print its address to `console`, and return the page."""
        from lowwater.ui.dashboard import dashboard

        served = dashboard(run, port=self.port, controls=self.controls, token=self.token)
        console.print(f"The page is at {served.url}", soft_wrap=True)
        return served


def _execute(request: RunRequest, page: Page | None, *, as_json: bool) -> None:
    from lowwater.cli.run.run import execute, run_record, run_summary
    from lowwater.cli.run.screen import Screen
    from lowwater.cli.run.settings import total_rows
    from lowwater.cli.spark_output import own_stderr, own_stdout

    with own_stdout() as out, own_stderr() as err:
        # Only the live table is drawn on standard output; everything else goes to standard error.
        live = request.shows_table and out.isatty()
        console = Console(file=out if live else err, highlight=False)
        total = total_rows(request.assembly) if console.is_terminal else None
        screen = Screen(console, total, live_rows=live)
        messages = Console(file=err, highlight=False)
        for note in request.notes:
            messages.print(f"Note: {note}", markup=False, soft_wrap=True)
        on_start = None if page is None else partial(page.open, console=messages)
        ended = execute(request, screen, out, on_start)
        if as_json:
            out.write(json.dumps(run_record(request, ended)) + "\n")
        else:
            summary = run_summary(request, ended, sys.argv[1:])
            messages.print(summary, markup=False, soft_wrap=True)
    if ended.interrupted:
        raise typer.Exit(130)
