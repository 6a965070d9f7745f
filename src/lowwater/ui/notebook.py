"""Runs and their results in a notebook: a table and a plot, which follow a run while it goes on.

Nothing is loaded from anywhere, and no script runs: what is shown is HTML that the kernel sends
again after each epoch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from lowwater.query import Outcome, Outputs, Run, Status, given_out
from lowwater.query.figures import GONE
from lowwater.sinks.console import show as shown
from lowwater.ui.dashboard import tap
from lowwater.ui.describing import APART, Described, is_number, position
from lowwater.ui.history import History
from lowwater.ui.sketch import sketch

ROWS = 10
"""So many rows are listed."""
LOOK_SECONDS = 0.3
_CELL = "padding:1px 12px 1px 0;text-align:{}"


class View:
    """What a notebook shows of a run, from when it was first shown on.

    It does not hold the run, which may be gone when nobody else does.
    """

    def __init__(self, run: Run) -> None:
        sheds = "max_gap" in run.settings
        described = Described(run.flow, run.prodded, controls=False, title="", sheds=sheds)
        self.history = History(described)
        run.watch(Outputs(tap(self.history.take_results), tap(self.history.take_late)))

    def html(self, run: Run) -> str:
        """Draw where the run stands."""
        status, history = run.status(), self.history
        history.note(status, time.time())
        described = history.described
        with history.lock:
            rows = list(history.rows)[-ROWS:]
            groups = {g: dict(windows) for g, windows in sorted(history.windows.items())}
        plots = [sketch(groups, value, timed=described.timed) for value in described.values[:1]]
        facts = _facts(_told(status, given_out(run.flow, status)))
        return "".join([facts, *plots, _table(rows)])

    def bundle(self, run: Run) -> dict[str, str]:
        """Return the same as HTML and as text, as a notebook chooses between them."""
        status = run.status()
        facts = _told(status, given_out(run.flow, status))
        told = "; ".join(f"{name} {text}" for name, text in facts.items())
        return {"text/html": self.html(run), "text/plain": told}


_VIEWS: WeakKeyDictionary[Run, View] = WeakKeyDictionary()


def view(run: Run) -> View:
    """Return the view of a run; it is the same wherever it is shown."""
    found = _VIEWS.get(run)
    if found is None:
        found = _VIEWS[run] = View(run)
    return found


def display(run: Run) -> None:
    """Show a run where IPython shows things, and in a notebook keep it up to date."""
    seen = view(run)
    showing = import_module("IPython.display")
    handle = showing.display(seen.bundle(run), raw=True, display_id=True)
    shell = import_module("IPython").get_ipython()
    if handle is not None and hasattr(shell, "kernel"):  # in a terminal, updates are more lines
        threading.Thread(target=_follow, args=(run, seen, handle), daemon=True).start()


def _follow(run: Run, seen: View, handle: Any) -> None:
    """Update what is shown after each epoch, until the run has ended."""
    told, over = -1, False
    while not over:
        try:
            over = run.wait(LOOK_SECONDS)
        except Exception:  # noqa: BLE001  # who waits for the run hears of it
            over = True
        epoch = run.status().epoch
        if epoch != told or over:
            told = epoch
            handle.update(seen.bundle(run), raw=True)


def html_of(outcome: Outcome) -> str:
    """Draw what a bounded run gave."""
    written = outcome.status["results"] if outcome.results is None else len(outcome.results)
    parts = [_facts(_told(outcome.status, written))]
    if outcome.results is not None:
        parts += [_plot(outcome.results, outcome.groups), _listed(outcome.results, "results")]
    for name in ("late", "malformed", "shed"):
        table = getattr(outcome, name)
        if table is not None and len(table):
            inside = _listed(table, f"{name} rows" if name != "shed" else "windows left out")
            parts.append(f"<details><summary>{len(table):,} {name}</summary>{inside}</details>")
    return "".join(parts)


def _plot(results: pa.Table, keys: Sequence[str]) -> str:
    """Draw the first value of the results by the end of their windows."""
    schema = results.schema
    if "window" not in schema.names or not pa.types.is_struct(schema.field("window").type):
        return ""
    apart = {*APART, *keys}
    values = [f.name for f in schema if f.name not in apart and is_number(f.type)]
    if not values:
        return ""
    groups: dict[str, dict[float, dict[str, Any]]] = {}
    for row in results.to_pylist():
        if row[values[0]] is not None and row["window"]["end"] is not None:
            kind = "early" if row.get("kind") == "early" else "final"
            point = {kind: {"values": {values[0]: float(row[values[0]])}}}
            group = ", ".join(shown(row[k]) for k in keys)
            windows = groups.setdefault(group, {})
            windows.setdefault(position(row["window"]["end"]), {}).update(point)
    timed = pa.types.is_timestamp(schema.field("window").type.field("end").type)
    return sketch(dict(sorted(groups.items())), values[0], timed=timed)


def _listed(rows: pa.Table, what: str) -> str:
    """List the first rows of a table, and say how many there are."""
    table = _table([{n: shown(v) for n, v in r.items()} for r in rows.slice(0, ROWS).to_pylist()])
    more = f", of which these are the first {ROWS}" if len(rows) > ROWS else ""
    return f"{table}<div>{len(rows):,} {what}{more}</div>"


def _told(status: Status, results: int) -> dict[str, str]:
    """Say where a run stands that has given so many results, by subject."""
    parts = [f"{status[a]:,} {a}" for a in (*GONE, "sidelined") if status[a]]
    mark = "end of stream" if status.ended else "–" if status.lwm is None else shown(status.lwm)
    told = {
        "epoch": f"{status.epoch:,}" if status.epoch >= 0 else "none yet",
        "rows": f"{status['in']:,}" + (f": {', '.join(parts)}" if parts else ""),
        "low-water mark": mark,
        "newest": "–" if status.newest is None else shown(status.newest),
        "results": f"{results:,}",
    }
    if status.prods:
        told["early results"] = f"{status.prods['early']:,}"
    for name, one in status.accuracy.items():
        told[f"accuracy of {name}"] = f"{one.recent:.1%} of late, {one.mean:.1%} in the mean"
    for name, quality in status.quality.items():
        known = {"measured": quality.measured, "target": quality.target}
        figures = [f"{what} {x:.1%}" for what, x in known.items() if x is not None]
        slack = ", ".join(str(value) for value in quality.slack.values())
        told[f"quality of {name}"] = ", ".join([*figures, f"slack {slack}"])
    if status.shed:
        told["windows shed"] = f"{status.shed['windows']:,}"
    return told


def _facts(told: Mapping[str, str]) -> str:
    lines = "".join(
        f'<tr><th style="{_CELL.format("left")}">{escape(name)}</th>'
        f'<td style="{_CELL.format("left")}">{escape(text)}</td></tr>'
        for name, text in told.items()
    )
    return f"<table><tbody>{lines}</tbody></table>"


def _table(rows: Iterable[Mapping[str, str]]) -> str:
    """Draw rows of texts as a table."""
    listed = list(rows)
    if not listed:
        return ""
    head = "".join(f'<th style="{_CELL.format("left")}">{escape(n)}</th>' for n in listed[0])
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{_CELL.format("left")}">{escape(str(t))}</td>' for t in row.values())
        + "</tr>"
        for row in listed
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
