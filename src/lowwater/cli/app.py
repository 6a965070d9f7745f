"""The command `lowwater`: its subcommands, its version, and its error messages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from lowwater import CqlError, LowwaterError, SpecError, __version__
from lowwater.cli.failure import MISTAKES, failure_line, write_trace
from lowwater.cli.profile import profile
from lowwater.cli.run import explain, run
from lowwater.cli.state import state
from lowwater.cli.trial.command import compare
from lowwater.sinks.postgres_address import hide_passwords, may_hold_password

_MOVED = {
    "demo": "run `make demo` in a checkout of the repository",
    "bench": "run `python -m bench` in a checkout of the repository",
    "experiments": "run `python -m experiments` in a checkout of the repository",
}
"""Commands of earlier versions that are not part of the library, and how to run them now."""
_RENAMED = {"--progress": "--watermark", "--prods": "--early", "--left-out": "--dropped"}
"""Options of earlier versions, with the options that replaced them."""
_ADDRESSES = ("postgres", "dbname", "host", "password", "port", "service", "user")
"""The beginnings of an address of PostgreSQL."""
_OUTPUT_OPTIONS = ("--sink", "--late", "--malformed", "--dropped")


def _refuse_old_names(arguments: list[str]) -> None:
    """Raise SpecError with the new name if `arguments` contain a renamed option or command."""
    for argument in arguments:
        name = argument.partition("=")[0]
        if name in _RENAMED:
            raise SpecError(f"{name} is now {_RENAMED[name]}")
    command = next((a for a in arguments if not a.startswith("-")), "")
    if command in _MOVED:
        raise SpecError(f"`lowwater {command}` is not part of the library: {_MOVED[command]}")


def _refuse_stray_addresses(arguments: list[str]) -> None:
    """Raise SpecError if an address of a database is not the value of an option for an output.

    The parser of the command would print such an argument, and with it a password.
    """
    before = ""
    for argument in arguments:
        is_address = argument.startswith(_ADDRESSES) and may_hold_password(argument)
        if is_address and before not in _OUTPUT_OPTIONS:
            raise SpecError(
                "an address of PostgreSQL must follow --sink or another output, as in "
                "--sink postgres:postgresql://me@host/db,table=speeds"
            )
        before = argument


app = typer.Typer(
    name="lowwater",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
_COMMANDS: dict[str, Callable[..., None]] = {
    "run": run,
    "explain": explain,
    "profile": profile,
    "try": compare,
    "state": state,
}
for name, command in _COMMANDS.items():
    app.command(name)(command)
OPTIONS = SimpleNamespace(debug=False)
"""The options before the name of the command."""
MISTAKE = 2


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
    """Run the command; print a mistake as one paragraph, and a failure as one line.

    The trace of an unexpected exception goes to a log file, which the line names.

    The exit code is 2 for an error that the user can correct, 1 for a failure, 130 after Ctrl-C.
    """
    OPTIONS.debug = False
    try:
        given = sys.argv[1:] if arguments is None else arguments
        _refuse_old_names(given)
        _refuse_stray_addresses(given)
        app(arguments)
    except LowwaterError as error:
        if OPTIONS.debug:
            raise
        # The text of a CqlError marks a place in a line, which must keep its length.
        text = str(error) if isinstance(error, CqlError) else hide_passwords(str(error))
        _print_error(text)
        sys.exit(MISTAKE if isinstance(error, MISTAKES) else 1)
    except BrokenPipeError:
        # The reader of standard output has closed it; writing the rest would raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as failure:
        if OPTIONS.debug:
            raise
        line = f"{type(failure).__name__}: {failure_line(failure)}"
        _print_error(f"{line}. The full trace is in {write_trace(failure)}.")
        sys.exit(1)


def _print_error(text: str) -> None:
    shown = Text.assemble(("lowwater: ", "bold red"), text)
    Console(stderr=True, highlight=False, soft_wrap=True).print(shown)
