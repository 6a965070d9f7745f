"""The command and what all its parts share: the version, and errors as one paragraph."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from lowwater import LowwaterError, PlanError, SpecError, StateError, __version__
from lowwater.cli.bench import bench
from lowwater.cli.demo import demo
from lowwater.cli.experiments import experiments
from lowwater.cli.profile import profile
from lowwater.cli.run import explain, run
from lowwater.cli.state import state

app = typer.Typer(
    name="lowwater",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command()(explain)
app.command()(profile)
app.command()(state)
app.command()(demo)
app.command()(bench)
app.add_typer(experiments, name="experiments")


@dataclass
class Options:
    """What the user said before the name of the command."""

    debug: bool = False


OPTIONS = Options()
MISTAKE = 2
MISTAKES = (SpecError, PlanError, StateError)
"""What the user can put right: the query, its settings, or the checkpoint it is started with."""


def _say_version(wanted: bool) -> None:  # noqa: FBT001  # the form that typer calls
    if wanted:
        print(f"lowwater {__version__}")
        raise typer.Exit


@app.callback()
def lowwater(
    *,
    debug: Annotated[
        bool, typer.Option("--debug", metavar="", help="Show the whole trace of an error.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            callback=_say_version,
            is_eager=True,
            help="Say which version.",
        ),
    ] = False,
) -> None:
    """Windows that answer on time over streams that do not arrive in order, on Spark."""
    del version
    OPTIONS.debug = debug


def main(arguments: list[str] | None = None) -> None:
    """Run the command; an error of Lowwater's is one paragraph without a trace.

    The exit code is 2 for what the user can put right, 1 for what failed, 130 after Ctrl-C.
    """
    OPTIONS.debug = False
    try:
        app(arguments)
    except LowwaterError as error:
        if OPTIONS.debug:
            raise
        text = Text.assemble(("lowwater: ", "bold red"), str(error))
        Console(stderr=True, highlight=False, soft_wrap=True).print(text)
        sys.exit(MISTAKE if isinstance(error, MISTAKES) else 1)
    except BrokenPipeError:
        # Whoever read the rows has seen enough; nobody is there to hear more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
