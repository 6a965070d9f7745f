"""Prints the contents of a checkpoint as text."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.filesize import decimal
from rich.table import Column, Table

from lowwater.sinks.console import show


def print_state(record: dict[str, Any]) -> None:
    """Print `record`, the contents of a checkpoint."""
    console = Console(highlight=False)
    grid = Table.grid(Column(style="bold", no_wrap=True), Column(), padding=(0, 2, 0, 0))
    for subject, text in _facts(record):
        grid.add_row(subject, text)
    console.print(grid)
    if record["decisions"]:
        console.print("\n[bold]Last decisions[/], the newest first:\n")
        console.print(_decisions(record["decisions"]))


def _facts(record: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [("checkpoint", f"{record['checkpoint']}, state version {record['version']}")]
    facts.append(("epoch", _epoch(record)))
    watermark = "end of stream" if record["ended"] else _when(record["watermark"])
    facts.append(("watermark", watermark))
    for one in record["inputs"]:
        counts = f"{one['rows']:,} rows{_bad_files(one)}"
        text = f"{counts} over {one['time']}, newest {_when(one['newest'])}, "
        progress = f"watermark {_when(one['watermark'])} by {one['policy']}"
        facts.append((one["name"], text + ("ended" if one["ended"] else progress)))
    for one in record["operators"]:
        facts += _operator(one)
    for name, one in record["retuned"].items():
        text = f"{_parameter(name)} {one['value']} instead of {one['written']}"
        facts.append(("retuned", f"{text}, since epoch {one['epoch']}"))
    parts = ", ".join(f"{n} {decimal(size)}" for n, size in record["bytes_on_disk"].items() if size)
    facts.append(("on disk", parts or "nothing"))
    return facts


def _epoch(record: dict[str, Any]) -> str:
    if record["epoch"] is None:
        text = "none has ended"
    elif record["ended"]:
        text = f"{record['epoch']} was the last; the streams have ended"
    else:
        text = f"{record['epoch']} was the last to end"
    if record["begun"] is not None:
        aside = ", with its rows set aside" if record["set_aside"] else ""
        text += f"; {record['begun']} had begun, and runs again when the query resumes{aside}"
    return text


def _bad_files(one: dict[str, Any]) -> str:
    count = one["bad_files"]
    return f", {count:,} bad file{'' if count == 1 else 's'}," if count else ""


def _operator(one: dict[str, Any]) -> list[tuple[str, str]]:
    parts = [] if one["window"] is None else [one["window"]]
    if one["group_by"]:
        parts.append(f"by {', '.join(g.split()[0] for g in one['group_by'])}")
    if one["aggregates"]:
        parts.append(f"computing {', '.join(one['aggregates'])}")
    facts = [(one["name"], ", ".join(parts) or "rows")]
    counts = [f"{n:,} {name}" for name, n in one["counts"].items() if n]
    facts.append(("  rows", ", ".join(counts) or "none yet"))
    state = f"{one['cells']:,} cells in {one['shards']} shards, {decimal(one['bytes'])}"
    facts.append(("  state", state))
    if one["open"] is not None:
        windows = [f"[{_when(start)}, {_when(end)})" for start, end in one["open"]["windows"]]
        listed = windows if len(windows) == one["open"]["count"] else [windows[0], "…", windows[-1]]
        facts.append(("  open windows", f"{one['open']['count']:,}: {', '.join(listed)}"))
    return facts


def _decisions(decisions: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("epoch", justify="right")
    table.add_column("operator")
    table.add_column("control")
    for one in decisions:
        retuned = one.get("retuned", {}).items()
        rows = [("the query", f"{_parameter(name)} {value}") for name, value in retuned]
        rows += [(name, _control(control)) for name, control in one["control"].items()]
        for subject, text in rows or [("", "nothing new")]:
            table.add_row(str(one["epoch"]), subject, text)
    return table


def _control(control: dict[str, Any]) -> str:
    known = control["watermark"]
    parts = [] if known is None else [f"watermark {_when(known)}"]
    if "sources" in control:
        parts.append(f"watermarks of {len(control['sources'])} sources")
    if "intervals" in control:
        parts.append(f"{len(control['intervals'])} complete intervals")
    if "prods" in control:
        parts.append(f"{len(control['prods'])} prod{'' if len(control['prods']) == 1 else 's'}")
    return ", ".join(parts) or "–"


def _parameter(name: str) -> str:
    return name.replace("_", " ")


def _when(value: Any) -> str:
    return "–" if value is None else show(value)
