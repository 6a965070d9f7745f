"""The command behind `python -m experiments`."""

from __future__ import annotations

import sys
from enum import StrEnum
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


class Part(StrEnum):
    """A part of the arena: slacks of windows, joins, times and values of early answers."""

    SLACKS = "slacks"
    JOINS = "joins"
    TIMES = "times"
    VALUES = "values"


@app.command()
def arena(
    *,
    seed: Annotated[
        list[int] | None, typer.Option("--seed", help="Of generated streams; 0 to 19 are tuning.")
    ] = None,
    only: Annotated[
        list[Part] | None, typer.Option("--only", help="What is judged; everything by default.")
    ] = None,
    out: Folder = _FOLDER,
) -> None:
    """Judge slacks beside the best constant, joins, and the times and values of early answers."""
    from experiments.arena.early_report import early_arena
    from experiments.arena.joins.report import join_arena
    from experiments.arena.report import arena as run_arena
    from experiments.arena.report import failures
    from experiments.arena.value_report import fails, value_arena

    console, seeds = Console(highlight=False, width=140), seed or [0]
    failed = 0
    for part in only or list(Part):
        match part:
            case Part.SLACKS:
                failed += failures(run_arena(seeds, console, out))
            case Part.JOINS:
                failed += sum(bool(one.fails) for one in join_arena(seeds, console))
            case Part.TIMES:
                failed += sum(one.fails for one in early_arena(seeds, console))
            case Part.VALUES:
                failed += sum(bool(fails(one)) for one in value_arena(seeds, console))
    if failed:
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

    verdicts = run_arena(seed or [0], Console(highlight=False, width=140))
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
