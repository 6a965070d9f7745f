"""`lowwater bench`: the benchmark of a checkout, which the installed package does not have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import lowwater
from lowwater.errors import SpecError


def checkout() -> Path:
    """Return the folder of the source that is running; refuse if only the package is there."""
    root = Path(lowwater.__file__).absolute().parents[2]
    if not (root / "bench" / "__main__.py").is_file():
        raise SpecError(
            "the benchmark is part of the source, not of the installed package: clone the "
            "repository, and run 'make bench' there"
        )
    return root


def bench(
    cases: Annotated[
        list[str] | None,
        typer.Argument(metavar="CASE…", help="Which ones, as in sliding-60; else all."),
    ] = None,
    *,
    repetitions: Annotated[int, typer.Option(min=1, help="How often each side runs.")] = 3,
    rows_scale: Annotated[
        float, typer.Option(min=0.001, help="0.1 for a quick try with a tenth of the rows.")
    ] = 1.0,
) -> None:
    """Compare with Spark itself, on this machine; needs a checkout of the source.

    There is a line for each case as it ends; other figures come last. All cases take long: begin
    with one.
    """
    root = checkout()
    options = ["--repetitions", str(repetitions), "--rows-scale", str(rows_scale)]
    command = [sys.executable, "-m", "bench", *(cases or []), *options]
    try:
        done = subprocess.run(command, cwd=root, check=False)  # noqa: S603
    except KeyboardInterrupt:
        print("Stopped.")
        raise typer.Exit(130) from None
    raise typer.Exit(done.returncode)
