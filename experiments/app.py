"""The command behind `python -m experiments`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lowwater import LowwaterError, SpecError

app = typer.Typer(
    name="experiments",
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Run the experiments of the papers again, and check their shapes.",
)

Folder = Annotated[Path, typer.Option("--out", help="Where results are kept.")]
_FOLDER = Path("experiments-out")


@app.command("list")
def list_() -> None:
    """List the experiments and what the papers report."""
    from experiments.harness.registry import find
    from experiments.harness.runner import overview

    Console(highlight=False).print(overview(find(())))


@app.command()
def run(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID…", help="Which ones, as in W1; else all.")
    ] = None,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="Less data and fewer settings, the same shapes.")
    ] = False,
    out: Folder = _FOLDER,
) -> None:
    """Run experiments; the exit code is 1 if a shape does not hold."""
    # Loaded here: the command itself stays quick.
    from experiments.harness.registry import find
    from experiments.harness.runner import run_all

    console = Console(highlight=False)
    try:
        records = run_all(find(ids or ()), quick=quick, folder=out, console=console)
    except KeyboardInterrupt:
        print("Stopped.")
        raise typer.Exit(130) from None
    failed = [f"{r.id}: {c.name}" for r in records for c in r.checks if c.fails]
    if failed:
        console.print(f"[bold red]These do not hold:[/] {'; '.join(failed)}", soft_wrap=True)
        raise typer.Exit(1)
    console.print(f"All shapes hold. One page of it: python -m experiments report --out {out}")


@app.command()
def report(*, out: Folder = _FOLDER) -> None:
    """Write one HTML page of all saved results, plots included."""
    from experiments.harness.page import page
    from experiments.harness.record import saved

    path = out / "report.html"
    path.write_text(page(saved(out), out), "utf-8")
    print(path)


@app.command()
def arena(
    *,
    seed: Annotated[
        list[int] | None, typer.Option("--seed", help="Of generated streams; 0 to 19 are tuning.")
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option("--part", help="Only this: windows, told, joins, times or values."),
    ] = None,
    stream: Annotated[
        list[str] | None, typer.Option("--stream", help="Only this family or recording.")
    ] = None,
    recording: Annotated[
        list[str] | None,
        typer.Option("--recording", help="NAME=PATH,time=COLUMN,arrival=COLUMN: a file too."),
    ] = None,
    range: Annotated[str, typer.Option(help="The windows over such a file.")] = "1 minute",
    epoch: Annotated[str, typer.Option(help="The epochs of such a file.")] = "5 seconds",
    by: Annotated[str | None, typer.Option(help="The column of its groups.")] = None,
    value: Annotated[str | None, typer.Option(help="The column of its values.")] = None,
    lead: Annotated[
        list[float] | None,
        typer.Option("--lead", help="Of early values, in windows before the end: 0.25 and 0."),
    ] = None,
    out: Folder = _FOLDER,
) -> None:
    """Judge slacks beside the best constant, and the times and the values of early answers."""
    from experiments.arena.parts import run_parts
    from experiments.arena.selection import Selection, own_recordings

    own = own_recordings(recording or (), range, epoch, by, value)
    names = stream or [one.name for one in own]
    chosen = Selection(tuple(seed or [0]), tuple(names), own, tuple(lead or ()))
    if run_parts(part or (), chosen, Console(highlight=False, width=170), out):
        raise typer.Exit(1)


@app.command("load")
def load_arena(
    *,
    seed: Annotated[
        list[int] | None, typer.Option("--seed", help="Of generated streams; 0 to 19 are tuning.")
    ] = None,
) -> None:
    """Judge load shedding on simulated machines, beside a planner that knows all arrivals."""
    from experiments.arena.load.report import load_arena as run_arena

    verdicts = run_arena(seed or [0], Console(highlight=False, width=160))
    if any(one.fails for one in verdicts):
        raise typer.Exit(1)


@app.command()
def needs(
    *,
    seed: Annotated[
        list[int] | None, typer.Option("--seed", help="Of the streams; 0 to 19 are tuning.")
    ] = None,
    stream: Annotated[
        list[str] | None, typer.Option("--stream", help="Only these of the eight streams.")
    ] = None,
) -> None:
    """Judge a need on eight streams, beside the best fixed slack, lead and share of drops (N1)."""
    from experiments.arena.needs import report

    for line in report(seed or [0], stream or ()):
        print(line, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the command; an error of Lowwater's is one paragraph without a trace."""
    try:
        app(arguments)
    except LowwaterError as error:
        print(f"experiments: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, SpecError) else 1)
