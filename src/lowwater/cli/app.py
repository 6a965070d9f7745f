"""The command `lowwater`: its subcommands, its version, and its error messages."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from lowwater import LowwaterError, PlanError, SpecError, StateError, __version__
from lowwater.cli.profile import profile
from lowwater.cli.run import explain, run
from lowwater.cli.state import state

_MOVED = {
    "demo": "run `make demo` in a checkout of the repository",
    "bench": "run `python -m bench` in a checkout of the repository",
    "experiments": "run `python -m experiments` in a checkout of the repository",
}
"""Commands of earlier versions that are not part of the library, and how to run them now."""
_RENAMED = {"--progress": "--watermark", "--prods": "--early", "--left-out": "--dropped"}
"""Options of earlier versions, with the options that replaced them."""


def _refuse_old_names(arguments: list[str]) -> None:
    """Raise SpecError with the new name if `arguments` contain a renamed option or command."""
    for argument in arguments:
        name = argument.partition("=")[0]
        if name in _RENAMED:
            raise SpecError(f"{name} is now {_RENAMED[name]}")
    command = next((a for a in arguments if not a.startswith("-")), "")
    if command in _MOVED:
        raise SpecError(f"`lowwater {command}` is not part of the library: {_MOVED[command]}")


app = typer.Typer(
    name="lowwater",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
for command in (run, explain, profile, state):
    app.command()(command)
OPTIONS = SimpleNamespace(debug=False)
"""The options before the name of the command."""
MISTAKE = 2
MISTAKES = (SpecError, PlanError, StateError)
"""Errors that the user can correct: in the query, its settings, or the choice of checkpoint."""


def _print_version(wanted: bool) -> None:  # noqa: FBT001  # the form that typer calls
    if wanted:
        print(f"lowwater {__version__}")
        raise typer.Exit


_DEBUG = typer.Option("--debug", metavar="", help="Print the full traceback of an error.")
_VERSION = typer.Option(
    "--version", metavar="", callback=_print_version, is_eager=True, help="Print the version."
)


@app.callback()
def lowwater(
    *, debug: Annotated[bool, _DEBUG] = False, version: Annotated[bool, _VERSION] = False
) -> None:
    """Windows and joins over out-of-order streams, on Spark."""
    del version
    OPTIONS.debug = debug


def main(arguments: list[str] | None = None) -> None:
    """Run the command; print an error of Lowwater as one paragraph without a traceback.

    The exit code is 2 for an error that the user can correct, 1 for a failure, 130 after Ctrl-C.
    """
    OPTIONS.debug = False
    try:
        _refuse_old_names(sys.argv[1:] if arguments is None else arguments)
        app(arguments)
    except LowwaterError as error:
        if OPTIONS.debug:
            raise
        text = Text.assemble(("lowwater: ", "bold red"), str(error))
        Console(stderr=True, highlight=False, soft_wrap=True).print(text)
        sys.exit(MISTAKE if isinstance(error, MISTAKES) else 1)
    except BrokenPipeError:
        # The reader of standard output has closed it; writing the rest would raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
