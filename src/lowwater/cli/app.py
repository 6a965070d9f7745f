"""The command and what all its parts share: the version, and errors as one paragraph."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from lowwater import LowwaterError, __version__
from lowwater.cli.demo import demo
from lowwater.cli.experiments import experiments

app = typer.Typer(
    name="lowwater",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.add_typer(experiments, name="experiments")


@dataclass
class Options:
    """What the user said before the name of the command."""

    debug: bool = False


OPTIONS = Options()


def _say_version(wanted: bool) -> None:  # noqa: FBT001  # the form that typer calls
    if wanted:
        print(f"lowwater {__version__}")
        raise typer.Exit


@app.callback()
def lowwater(
    *,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the whole trace of an error.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say which version."),
    ] = False,
) -> None:
    """Windows that answer on time over streams that do not arrive in order, on Spark."""
    del version
    OPTIONS.debug = debug


def main(arguments: list[str] | None = None) -> None:
    """Run the command; an error of Lowwater's is one paragraph, and the exit code 1."""
    OPTIONS.debug = False
    try:
        app(arguments)
    except LowwaterError as error:
        if OPTIONS.debug:
            raise
        text = Text.assemble(("lowwater: ", "bold red"), str(error))
        Console(stderr=True, highlight=False).print(text)
        sys.exit(1)
