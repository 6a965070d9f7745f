"""What a checkpoint holds, in words."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column, Table

from lowwater.sinks.console import show

_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_STEP = 1000


def in_words(found: dict[str, Any]) -> None:
    """Print all of it."""
    console = Console(highlight=False)
    grid = Table.grid(Column(style="bold", no_wrap=True), Column(), padding=(0, 2, 0, 0))
    for subject, text in _facts(found):
        grid.add_row(subject, text)
    console.print(grid)
    if found["decisions"]:
        console.print("\n[bold]Last decisions[/], the newest first:\n")
        console.print(_decisions(found["decisions"]))


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [("checkpoint", f"{found['checkpoint']}, state version {found['version']}")]
    facts.append(("epoch", _epoch(found)))
    mark = "end of stream" if found["ended"] else _when(found["low_water_mark"])
    facts.append(("low-water mark", mark))
    for one in found["inputs"]:
        told = f"{one['rows']:,} rows over {one['time']}, newest {_when(one['newest'])}, "
        told += "ended" if one["ended"] else f"mark {_when(one['mark'])} by {one['progress']}"
        facts.append((one["name"], told))
    for one in found["operators"]:
        facts += _operator(one)
    for name, one in found["retuned"].items():
        told = f"{_parameter(name)} {one['value']} instead of {one['written']}"
        facts.append(("retuned", f"{told}, since epoch {one['epoch']}"))
    parts = ", ".join(f"{n} {_bytes(size)}" for n, size in found["bytes_on_disk"].items() if size)
    facts.append(("on disk", parts or "nothing"))
    return facts


def _epoch(found: dict[str, Any]) -> str:
    if found["epoch"] is None:
        told = "none has ended"
    elif found["ended"]:
        told = f"{found['epoch']}, with which the streams ended"
    else:
        told = f"{found['epoch']} was the last to end"
    if found["begun"] is not None:
        told += f"; {found['begun']} had begun, and is run again when the query goes on"
    return told


def _operator(one: dict[str, Any]) -> list[tuple[str, str]]:
    what = [] if one["window"] is None else [one["window"]]
    if one["group_by"]:
        what.append(f"by {', '.join(g.split()[0] for g in one['group_by'])}")
    if one["aggregates"]:
        what.append(f"giving {', '.join(one['aggregates'])}")
    facts = [(one["name"], ", ".join(what) or "rows")]
    counts = [f"{n:,} {name}" for name, n in one["counts"].items() if n]
    facts.append(("  rows", ", ".join(counts) or "none yet"))
    held = f"{one['cells']:,} cells in {one['shards']} shards, {_bytes(one['bytes'])}"
    facts.append(("  keeps", held))
    if one["open"] is not None:
        windows = [f"[{_when(start)}, {_when(end)})" for start, end in one["open"]["windows"]]
        listed = windows if len(windows) == one["open"]["count"] else [windows[0], "…", windows[-1]]
        facts.append(("  open windows", f"{one['open']['count']:,}: {', '.join(listed)}"))
    return facts


def _decisions(decisions: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("epoch", justify="right")
    table.add_column("told to")
    table.add_column("what")
    for one in decisions:
        for name, value in one.get("retuned", {}).items():
            table.add_row(str(one["epoch"]), "the query", f"{_parameter(name)} {value}")
        if not one["told"] and "retuned" not in one:
            table.add_row(str(one["epoch"]), "", "nothing new")
        for name, told in one["told"].items():
            table.add_row(str(one["epoch"]), name, _told(told))
    return table


def _told(told: dict[str, Any]) -> str:
    parts = [f"mark {_when(told['mark'])}"] if told["mark"] is not None else []
    if "sources" in told:
        parts.append(f"marks of {len(told['sources'])} sources")
    if "stretches" in told:
        parts.append(f"{len(told['stretches'])} stretches complete")
    if "prods" in told:
        parts.append(f"{len(told['prods'])} prod{'' if len(told['prods']) == 1 else 's'}")
    return ", ".join(parts) or "–"


def _parameter(name: str) -> str:
    return name.replace("_", " ")


def _when(value: Any) -> str:
    return "–" if value is None else show(value)


def _bytes(size: float) -> str:
    for unit in _UNITS:
        if size < _STEP or unit == _UNITS[-1]:
            return f"{size:.0f} {unit}" if unit == _UNITS[0] else f"{size:.1f} {unit}"
        size /= _STEP
    raise AssertionError
