"""`lowwater state`: the contents of a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def state(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The checkpoint of a query.")],
    *,
    decisions: Annotated[
        int, typer.Option(min=0, metavar="N", help="Show the last N decisions.")
    ] = 5,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print it as JSON.")] = False,
) -> None:
    """Print the contents of a checkpoint: epoch, watermark, open windows, sizes, last decisions.

    The files are only read; the query may run meanwhile.
    """
    from lowwater.cli.state.read import CheckpointContents, state_record
    from lowwater.cli.state.report import print_state
    from lowwater.sinks.files import jsonable

    record = state_record(CheckpointContents.at(folder, decisions))
    if as_json:
        print(json.dumps(jsonable(record)))
    else:
        print_state(record)
