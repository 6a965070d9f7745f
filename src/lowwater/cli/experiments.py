"""`lowwater experiments`: the experiments of the papers, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

experiments = typer.Typer(
    no_args_is_help=True, help="Run the experiments of the papers again, and check their shapes."
)

Folder = Annotated[Path, typer.Option("--out", help="Where results are kept.")]
_FOLDER = Path("experiments-out")


@experiments.command("list")
def list_() -> None:
    """List the experiments and what the papers report."""
    from lowwater.experiments import find
    from lowwater.experiments.running import overview

    Console(highlight=False).print(overview(find(())))


@experiments.command()
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
    from lowwater.experiments import find
    from lowwater.experiments.running import run_all

    console = Console(highlight=False)
    try:
        records = run_all(find(ids or ()), quick=quick, folder=out, console=console)
    except KeyboardInterrupt:
        print("Stopped.")
        raise typer.Exit(130) from None
    failed = [f"{r.id}: {c.name}" for r in records for c in r.checks if not c.holds]
    if failed:
        console.print(f"[bold red]These do not hold:[/] {'; '.join(failed)}", soft_wrap=True)
        raise typer.Exit(1)
    console.print(f"All shapes hold. One page of it: lowwater experiments report --out {out}")


@experiments.command()
def report(*, out: Folder = _FOLDER) -> None:
    """Write one HTML page of all saved results, plots included."""
    from lowwater.experiments.page import page
    from lowwater.experiments.record import saved

    path = out / "report.html"
    path.write_text(page(saved(out), out), "utf-8")
    print(path)
