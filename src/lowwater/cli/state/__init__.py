"""`lowwater state`: the contents of a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lowwater.errors import SpecError


def state(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The checkpoint of a query.")],
    *,
    decisions: Annotated[
        int, typer.Option(min=0, metavar="N", help="Show the last N decisions.")
    ] = 5,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print it as JSON.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", metavar="", help="Check every file; list what is damaged.")
    ] = False,
    rewind: Annotated[
        int | None,
        typer.Option(metavar="EPOCH", help="Go back to the end of an epoch that is still kept."),
    ] = None,
    set_aside: Annotated[
        int | None,
        typer.Option(
            metavar="EPOCH", help="Make all rows of the interrupted epoch malformed, and go on."
        ),
    ] = None,
    export_to: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Write a savepoint; the query may run."),
    ] = None,
    import_from: Annotated[
        Path | None,
        typer.Option("--import", metavar="FILE", help="Make FOLDER from a savepoint."),
    ] = None,
) -> None:
    """Print the contents of a checkpoint: epoch, watermark, open windows, sizes, last decisions.

    The files are only read, unless the checkpoint is rewound or imported, or rows are set aside;
    the query may run meanwhile.
    """
    actions: dict[str, object] = {"--verify": verify or None, "--rewind": rewind}
    actions |= {"--set-aside": set_aside, "--export": export_to, "--import": import_from}
    chosen = [name for name, value in actions.items() if value is not None]
    if len(chosen) > 1:
        raise SpecError(f"{' and '.join(chosen)} cannot be combined; choose one")
    if verify:
        _verify(folder)
    elif rewind is not None:
        _rewind(folder, rewind)
    elif set_aside is not None:
        _set_aside(folder, set_aside)
    elif export_to is not None:
        _export(folder, export_to)
    elif import_from is not None:
        _import(folder, import_from)
    else:
        _show(folder, decisions, as_json=as_json)


def _verify(folder: Path) -> None:
    """Print the problems of a checkpoint; exit with 1 if it has any."""
    from lowwater.engine.verify import verify

    problems = list(verify(str(folder)))
    for problem in problems:
        print(problem)
    if problems:
        raise typer.Exit(1)
    print("every record, every bucket of state and every pending output is intact")


def _rewind(folder: Path, epoch: int) -> None:
    from lowwater.engine.rewind import rewind

    done = rewind(str(folder), epoch)
    print(
        f"rewound from epoch {done.before} to {done.now}; if sinks hold later epochs, start the "
        f"query with outputs='truncate' or outputs='keep'"
    )


def _set_aside(folder: Path, epoch: int) -> None:
    from lowwater.engine.set_aside import set_aside

    set_aside(str(folder), epoch)
    print(
        f"when the query starts again, all rows of epoch {epoch} go to the output malformed, and "
        f"files that cannot be read to bad_files"
    )


def _export(folder: Path, target: Path) -> None:
    from lowwater.engine.savepoint import write_savepoint

    done = write_savepoint(str(folder), target)
    print(f"{target} holds the state after epoch {done.epoch}, {done.bytes:,} bytes")
    if done.set_aside:
        print(f"It does not hold that the rows of epoch {done.epoch + 1} are set aside")


def _import(folder: Path, source: Path) -> None:
    from lowwater.engine.savepoint import read_savepoint

    epoch = read_savepoint(source, str(folder))
    print(f"{folder} continues after epoch {epoch}, as a query with an id of its own")


def _show(folder: Path, decisions: int, *, as_json: bool) -> None:
    from lowwater.cli.state.read import CheckpointContents, state_record
    from lowwater.cli.state.report import print_state
    from lowwater.sinks.files import jsonable

    record = state_record(CheckpointContents.at(folder, decisions))
    if as_json:
        print(json.dumps(jsonable(record)))
    else:
        print_state(record)
