"""The options of `lowwater run` with their help texts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

_PLACE = "FORMAT:PLACE"


def _option(panel: str, metavar: str, help: str, *names: str, **more: Any) -> Any:
    """Return an option that `--help` lists in `panel`; the `metavar` of a flag is empty."""
    return typer.Option(*names, rich_help_panel=panel, metavar=metavar, help=help, **more)


_input, _output, _execution, _display = (
    partial(_option, panel) for panel in ("Input", "Output", "Execution", "Display")
)
_QUERY = typer.Argument(
    metavar="QUERY",
    help="A file with the query (**.cql**), or the query itself, as in *'SELECT count(\\*) "
    "FROM s [RANGE 1 minute]'*.",
    show_default="that of --config",
)
_CONFIG = _input(
    "FILE",
    "Read settings from a file, **.toml** or **.yaml**. Their names are the names of "
    "these options; an option on the command line overrides the file.",
)
_SOURCE = _input(
    "NAME=PATH[,…]",
    "A stream of the query: a file, a folder, or **-** for JSON lines on standard input. "
    "Options follow the path: **time=** the column of event time, **arrival=** the column of "
    "arrival (*sent:ms* if it has numbers: s, ms, us, ns), **speed=** the factor of a replay by "
    "this machine's clock, **format=** parquet, csv or json, **schema=** the columns, "
    "**multiline=true** for line ends inside quoted csv fields, **watermark=** the policy of this "
    "source alone.",
    "--source",
)
_WATERMARK = _input(
    "POLICY",
    "How the watermark advances: 'slack 10 seconds', 'slack 100 rows', 'ordered', "
    "'punctuated COLUMN', 'per source COLUMN, each (slack 5 seconds, idle timeout 1 minute)'. "
    "Options follow a comma: 'consistent', 'idle timeout 1 minute', 'max ahead 1 hour'.",
)
_QUALITY = _input(
    "TARGET",
    "Instead of --watermark: the share of rows or pairs that results must include, "
    "'0.95', or their largest relative error, 'error 0.01'. The shortest slack that reaches "
    "it is chosen anew after each epoch: '0.95, by sensor'.",
)
_SINK = _output(
    _PLACE,
    "Where results go: **parquet:**, **csv:** or **json:** and a folder, which gets one "
    "file per epoch; **csv:-** or **json:-** for standard output; "
    "**postgres:ADDRESS,table=NAME**; or **table**.",
    show_default="table",
)
_DROPPED = _output(_PLACE, "Where the list of windows goes that --shed has dropped.")
_EXISTING = _output(
    "HOW",
    "If a folder holds results of another run: **append** to them, or **overwrite** them. "
    "By default, such a folder is refused.",
)
_OUTPUTS = _output(
    "HOW",
    "If the checkpoint was rewound or restored, and folders or tables hold later epochs: "
    "**truncate** them, or **keep** them, so that rows may come twice.",
)
_BAD_FILES = _output(
    _PLACE, "Where the list of files goes that were not read, with the reason.", "--bad-files"
)
_CHECKPOINT = _execution(
    "FOLDER", "Keep a checkpoint in this folder; the same command resumes from it."
)
_EARLY = _execution(
    "POLICY",
    "When early results are emitted: 'every 10 seconds', 'before 0.25' (of a slide before "
    "a window ends), 'before, accuracy 0.98', 'on demand'.",
)
_ESTIMATE = _execution(
    "HOW",
    "Early values estimate the final ones (**complete**), or cover the rows received so "
    "far (**raw**).",
    show_default="complete",
)
_SIDELINE = _execution(
    "POLICY", "Hold rows of a burst and release them later: 'every 3, max delay 1 minute'."
)
_SHED = _execution(
    "POLICY",
    "Drop whole windows when the stream outruns the machine: 'latency 5 seconds, max gap "
    "10', or 'share 0.3, max gap 10'.",
)
_NEED = _execution(
    "NEED",
    "How soon and how right answers must be: 'fresh 30 seconds, right 0.98, exact 10 minutes'. It "
    "sets the watermark, early results and drops, unless they are given.",
)
_RESTART = _execution(
    "RULE",
    "Start the run again if it fails, from its checkpoint: 'times 3, within 10 minutes', and "
    "'pause 1 second' before each start.",
)
_HOST = _execution(
    "HOST", "**spark**, or **local** for one process without Spark.", show_default="spark"
)
_EPOCH_ROWS = _execution(
    "N",
    "The largest number of rows of a source in one epoch; for a file, instead of --epoch.",
    min=1,
)
_ARRIVAL = _input(
    "COLUMN",
    "The column with the arrival of each row of a file, if --source names none.",
    show_default="the order of the file",
)
_EPOCH = _input(
    "LENGTH",
    "Play files as they arrived: an epoch has the rows of this much time of the arrival column "
    "or, without one, of event time.",
    show_default="1 second, or a longer one for at most 1,000 epochs",
)
_FOLLOW = _input(
    "", "Wait for more files in a folder, instead of ending after the last.", "--follow"
)
_UI_CONTROL = _display(
    "", "Let the page request early results and change settings (implies --ui).", "--ui-control"
)
_PORT = {"min": 0, "max": 65_535, "show_default": "any free port"}

Query = Annotated[str | None, _QUERY]
Config = Annotated[Path | None, _CONFIG]
Source = Annotated[list[str] | None, _SOURCE]
Arrival = Annotated[str | None, _ARRIVAL]
EpochLength = Annotated[str | None, _EPOCH]
Watermark = Annotated[str | None, _WATERMARK]
Quality = Annotated[str | None, _QUALITY]
Sink = Annotated[str | None, _SINK]
Late = Annotated[str | None, _output(_PLACE, "Where late rows go.")]
Malformed = Annotated[
    str | None, _output(_PLACE, "Where rows go that cannot be read, or have no valid time.")
]
Dropped = Annotated[str | None, _DROPPED]
Existing = Annotated[str | None, _EXISTING]
Outputs = Annotated[str | None, _OUTPUTS]
BadFiles = Annotated[str | None, _BAD_FILES]
Checkpoint = Annotated[str | None, _CHECKPOINT]
Early = Annotated[str | None, _EARLY]
Estimate = Annotated[str | None, _ESTIMATE]
Sideline = Annotated[str | None, _SIDELINE]
Shed = Annotated[str | None, _SHED]
NeedText = Annotated[str | None, _NEED]
Restart = Annotated[str | None, _RESTART]
Host = Annotated[str | None, _HOST]
EpochRows = Annotated[int | None, _EPOCH_ROWS]
Follow = Annotated[bool | None, _FOLLOW]
Ui = Annotated[bool | None, _display("", "Serve a live page.", "--ui")]
UiControl = Annotated[bool | None, _UI_CONTROL]
UiPort = Annotated[int | None, _display("PORT", "The port of the page (implies --ui).", **_PORT)]
Json = Annotated[bool | None, _display("", "Print a summary of the run as JSON.", "--json")]
Not = Annotated[bool, typer.Option(hidden=True)]
"""A hidden flag `--no-…`, which overrides a flag of a settings file."""
