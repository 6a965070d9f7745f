"""Displays runs and their results in a notebook: a table and a plot.

The HTML loads no files and runs no scripts. The kernel of the notebook sends new HTML after each
epoch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib import import_module
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from lowwater.engine.host import Outcome
from lowwater.engine.metrics import GONE
from lowwater.engine.outputs import finals_emitted
from lowwater.engine.run import Run
from lowwater.engine.status import Status
from lowwater.sinks.console import show as shown
from lowwater.sinks.sink import Outputs
from lowwater.ui.columns import APART, QueryColumns, is_number, position
from lowwater.ui.dashboard import tap
from lowwater.ui.history import History

ROWS = 10
"""The largest number of rows in a table."""
POLL_SECONDS = 0.3
_CELL = "padding:1px 12px 1px 0;text-align:left"


class View:
    """The display of a run in a notebook, with the rows emitted since its first display.

    A view has no reference to its run, so the run can be garbage collected.
    """

    def __init__(self, run: Run) -> None:
        sheds = "max_gap" in run.settings
        columns = QueryColumns(run.flow, run.prodded, controls=False, title="", sheds=sheds)
        self.history = History(columns)
        run.watch(Outputs(tap(self.history.take_results), tap(self.history.take_late)))

    def html(self, run: Run) -> str:
        """Return the status, a plot and the newest rows of `run` as HTML."""
        status, history = run.status(), self.history
        history.update(status, time.time())
        columns = history.columns
        with history.lock:
            rows = list(history.rows)[-ROWS:]
            groups = {g: dict(windows) for g, windows in sorted(history.windows.items())}
        plots = [plot(groups, value, timed=columns.timed) for value in columns.values[:1]]
        facts = _facts(_status_texts(status, finals_emitted(run.flow, status)))
        return "".join([facts, *plots, _table(rows)])

    def bundle(self, run: Run) -> dict[str, str]:
        """Return the display as HTML and as plain text; the notebook chooses one."""
        status = run.status()
        facts = _status_texts(status, finals_emitted(run.flow, status))
        plain = "; ".join(f"{name} {text}" for name, text in facts.items())
        return {"text/html": self.html(run), "text/plain": plain}


_VIEWS: WeakKeyDictionary[Run, View] = WeakKeyDictionary()


def view(run: Run) -> View:
    """Return the only view of `run`; create it at the first call."""
    if run not in _VIEWS:
        _VIEWS[run] = View(run)
    return _VIEWS[run]


def display(run: Run) -> None:
    """Display `run` with IPython; in a notebook, update the display after each epoch."""
    run_view = view(run)
    ipython = import_module("IPython.display")
    handle = ipython.display(run_view.bundle(run), raw=True, display_id=True)
    shell = import_module("IPython").get_ipython()
    if handle is not None and hasattr(shell, "kernel"):  # a terminal would append each update
        threading.Thread(target=_follow, args=(run, run_view, handle), daemon=True).start()


def _follow(run: Run, view: View, handle: Any) -> None:
    """Update the display after each epoch, until the run has ended."""
    displayed, over = -1, False
    while not over:
        try:
            over = run.wait(POLL_SECONDS)
        except Exception:  # noqa: BLE001  # run.wait() raises it for the user, too
            over = True
        epoch = run.status().epoch
        if epoch != displayed or over:
            displayed = epoch
            handle.update(view.bundle(run), raw=True)


def html_of(outcome: Outcome) -> str:
    """Return the outcome of a bounded run as HTML."""
    written = outcome.status["results"] if outcome.results is None else len(outcome.results)
    parts = [_facts(_status_texts(outcome.status, written))]
    if outcome.results is not None:
        parts.append(_results_plot(outcome.results, outcome.groups))
        parts.append(_listed(outcome.results, "results"))
    listed = {"late": "late rows", "malformed": "malformed rows", "dropped": "dropped windows"}
    for name, title in {**listed, "bad_files": "bad files"}.items():
        table = getattr(outcome, name)
        if table is not None and len(table):
            text = f"{len(table):,} {name.replace('_', ' ')}"
            inside = _listed(table, title)
            parts.append(f"<details><summary>{text}</summary>{inside}</details>")
    return "".join(parts)


def _results_plot(results: pa.Table, keys: Sequence[str]) -> str:
    """Return an SVG plot of the first numeric column by window end, or "" if it has no points."""
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
    return plot(dict(sorted(groups.items())), values[0], timed=timed)


def _listed(rows: pa.Table, what: str) -> str:
    """Return the first of `rows` as an HTML table, and the number of all rows."""
    table = _table([{n: shown(v) for n, v in r.items()} for r in rows.slice(0, ROWS).to_pylist()])
    more = f", of which these are the first {ROWS}" if len(rows) > ROWS else ""
    return f"{table}<div>{len(rows):,} {what}{more}</div>"


def _status_texts(status: Status, results: int) -> dict[str, str]:
    """Return the status of a run as {subject: text}; `results` is the number of finals."""
    parts = [f"{status[a]:,} {a}" for a in (*GONE, "sidelined") if status[a]]
    known = "–" if status.watermark is None else shown(status.watermark)
    texts = {
        "epoch": f"{status.epoch:,}" if status.epoch >= 0 else "none yet",
        "rows": f"{status['in']:,}" + (f": {', '.join(parts)}" if parts else ""),
        "watermark": "end of stream" if status.ended else known,
        "newest": "–" if status.newest is None else shown(status.newest),
        "results": f"{results:,}",
    }
    if status.prods:
        texts["early results"] = f"{status.prods['early']:,}"
    for name, one in status.accuracy.items():
        texts[f"accuracy of {name}"] = f"{one.recent:.1%} recently, {one.mean:.1%} on average"
    for name, quality in status.quality.items():
        shares = {"measured": quality.measured, "target": quality.target}
        parts = [f"{what} {x:.1%}" for what, x in shares.items() if x is not None]
        slack = ", ".join(str(value) for value in quality.slack.values())
        texts[f"quality of {name}"] = ", ".join([*parts, f"slack {slack}"])
    if status.dropped:
        texts["dropped windows"] = f"{status.dropped['windows']:,}"
    return texts


def _facts(texts: Mapping[str, str]) -> str:
    """Return `texts`, {subject: text}, as an HTML table."""
    lines = "".join(
        f'<tr><th style="{_CELL}">{escape(name)}</th><td style="{_CELL}">{escape(text)}</td></tr>'
        for name, text in texts.items()
    )
    return f"<table><tbody>{lines}</tbody></table>"


def _table(rows: Sequence[Mapping[str, str]]) -> str:
    """Return `rows` of texts as an HTML table."""
    if not rows:
        return ""
    head = "".join(f'<th style="{_CELL}">{escape(n)}</th>' for n in rows[0])
    lines = ([f'<td style="{_CELL}">{escape(str(t))}</td>' for t in r.values()] for r in rows)
    body = "".join(f"<tr>{''.join(line)}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


WIDTH, HEIGHT = 640, 170
LEFT, RIGHT, TOP, BOTTOM = 64, 8, 8, 22
COLOURS = ("#2f86c6", "#d07a1f", "#2f9e77", "#a75fc0")
"""The colours of the first groups, readable on light and on dark; other groups are not drawn."""
Windows = Mapping[float, Mapping[str, Any]]
"""The results of a group as {end of the window: {kind: result}}."""


@dataclass(frozen=True)
class _Frame:
    """A mapping from values to places in the plot; `x` and `y` are the (least, greatest) values."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1)
        up = (y - self.y[0]) / ((self.y[1] - self.y[0]) or 1)
        wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return round(LEFT + across * wide, 1), round(TOP + (1 - up) * high, 1)


def plot(groups: Mapping[str, Windows], value: str, *, timed: bool) -> str:
    """Return an SVG plot of the column `value`, one line per group, or "" if it has no points."""
    first = dict(list(groups.items())[: len(COLOURS)])
    by_group = {group: list(_points(windows, value)) for group, windows in first.items()}
    places = [(x, y) for points in by_group.values() for x, y, _ in points]
    if not places:
        return ""
    xs, ys = zip(*places, strict=True)
    frame = _Frame((min(xs), max(xs)), (min(ys), max(ys)))
    finals = sum(kind == "final" for points in by_group.values() for *_, kind in points)
    label = f"{value} of {finals} finals, from {min(ys):.6g} to {max(ys):.6g}"
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    style = 'style="max-width:100%;font:11px sans-serif"'
    parts = [f'<svg {size} role="img" aria-label="{escape(label)}" {style}>']
    parts += _axes(frame, timed=timed)
    for colour, points in zip(COLOURS, by_group.values(), strict=False):
        parts += _group(frame, points, colour)
    return "".join([*parts, "</svg>", _legend(value, list(groups))])


def _points(windows: Windows, value: str) -> Iterator[tuple[float, float, str]]:
    for end in sorted(windows):
        at = windows[end]
        for kind in ("final", "early"):
            number = at[kind]["values"].get(value) if kind in at else None
            if number is not None:
                yield end, number, kind


def _group(frame: _Frame, points: Sequence[tuple[float, float, str]], colour: str) -> Iterator[str]:
    finals = [(x, y) for x, y, kind in points if kind == "final"]
    step = min((b[0] - a[0] for a, b in pairwise(finals)), default=0.0)
    path, last = [], None
    for x, y in finals:
        # Interrupt the line if a window is missing.
        joined = last is not None and x - last <= 1.5 * step
        path.append("{}{} {}".format("L" if joined else "M", *frame.at(x, y)))
        last = x
    yield f'<path d="{" ".join(path)}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    for x, y, kind in points:
        if kind == "early":
            left, top = frame.at(x, y)
            yield f'<circle cx="{left}" cy="{top}" r="3" fill="none" stroke="{colour}"/>'


def _axes(frame: _Frame, *, timed: bool) -> Iterator[str]:
    for y in dict.fromkeys(frame.y):
        _, top = frame.at(frame.x[0], y)
        yield (
            f'<path d="M{LEFT} {top}H{WIDTH - RIGHT}" stroke="currentColor" opacity=".2"/>'
            f'<text x="{LEFT - 6}" y="{top + 4}" text-anchor="end" fill="currentColor">{y:.6g}'
            f"</text>"
        )
    for x, anchor in zip(dict.fromkeys(frame.x), ("start", "end"), strict=False):
        left, _ = frame.at(x, frame.y[0])
        text = f"{datetime.fromtimestamp(x, UTC):%Y-%m-%d %H:%M:%S}" if timed else f"{x:.6g}"
        yield (
            f'<text x="{left}" y="{HEIGHT - 6}" text-anchor="{anchor}" fill="currentColor">{text}'
            f"</text>"
        )


def _legend(value: str, groups: Sequence[str]) -> str:
    named = [
        f'<span style="color:{colour}">● {escape(group)}</span>'
        for colour, group in zip(COLOURS, groups, strict=False)
        if group
    ]
    more = len(groups) - len(COLOURS)
    of = f" for {' '.join(named)}" if named else ""
    of += f" and {more} more" if more > 0 else ""
    return f"<div>{escape(value)}{of}, by the end of the window</div>"
