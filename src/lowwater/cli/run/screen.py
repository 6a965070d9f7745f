"""What is shown while a query runs: figures and the newest rows in a terminal, else nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Column, Table
from rich.text import Text

import lowwater as lw
from lowwater.query import given_out
from lowwater.sinks.console import show

_BESIDE_ROWS = 10
"""Lines of the screen that are not rows of the table."""
_FEWEST, _MOST = 3, 20
HIDDEN = ("wid", "expected_accuracy", "low", "high")
"""Columns that are left out, or told with the values they belong to."""


class Screen:
    """Shows a run; `total` is how many rows there are to read, where that is known.

    `live_rows` says that the newest results are part of what is shown.
    """

    def __init__(self, console: Console, total: int | None, *, live_rows: bool) -> None:
        self.console, self.total = console, total
        self.live_rows = live_rows and console.is_terminal
        self.rows: deque[dict[str, Any]] = deque(maxlen=_MOST)
        self.columns: pa.Schema = pa.schema([])
        self.status: lw.Status | None = None
        self.results = 0
        self.said = ""
        self._live: Live | None = None

    def waiting(self, what: str) -> AbstractContextManager[object]:
        """Say what is waited for, while it is."""
        return self.console.status(what) if self.console.is_terminal else nullcontext()

    @contextmanager
    def live(self) -> Iterator[None]:
        """Begin to show; leave the last state of the table on the screen."""
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, auto_refresh=False, transient=True) as self._live:
            yield
        self._live = None
        if self.live_rows and self.rows:
            self.console.print(self._table())

    def take(self, epoch: int, rows: pa.Table) -> None:
        """Take the results of an epoch; called by the sink, in a thread of its own."""
        del epoch
        self.columns = rows.schema
        self.rows.extend(rows.slice(max(0, len(rows) - _MOST)).to_pylist())

    def say(self, what: str) -> None:
        """Say something below the figures."""
        self.said = what
        self._draw()

    def show(self, run: lw.Run) -> None:
        """Show where the run stands; called several times a second."""
        self.status = run.status()
        self.results = given_out(run.flow, self.status)
        self._draw()

    def _draw(self) -> None:
        if self._live is not None:
            self._live.update(self.picture(), refresh=True)

    def picture(self) -> RenderableType:
        """Draw the whole of it."""
        parts: list[RenderableType] = [self._progress()]
        if self.status is not None and self.status.epoch >= 0:
            parts += [Text(), figures(self.status, self.results)]
        if self.live_rows and self.rows:
            parts += [Text(), self._table()]
        if self.said:
            parts += [Text(), Text(self.said, "dim")]
        return Group(*parts)

    def _progress(self) -> RenderableType:
        rows = self.status["in"] if self.status else 0
        if self.total is None:
            return Spinner("dots", f" {rows:,} rows   (Ctrl-C stops)")
        grid = Table.grid(Column(ratio=1), Column(justify="right"), padding=(0, 2, 0, 0))
        grid.expand = True
        bar = ProgressBar(max(self.total, 1), rows, complete_style="cyan", finished_style="cyan")
        grid.add_row(bar, f"{rows:,} of {max(self.total, rows):,} rows")
        return grid

    def _table(self) -> Table:
        """Draw the newest rows, as many as fit."""
        count = max(_FEWEST, min(_MOST, self.console.height - _BESIDE_ROWS))
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        columns = [f for f in self.columns if f.name not in HIDDEN]
        for field in columns:
            number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
            table.add_column(field.name, justify="right" if number else "left", no_wrap=True)
        for row in list(self.rows)[-count:]:
            early = row.get("kind") == "early"
            cells = (_cell(row, field.name) for field in columns)
            table.add_row(*cells, style="yellow" if early else None)
        return table


def _cell(row: dict[str, Any], name: str) -> str:
    """Draw a value; of an early one, with the interval that it is believed to lie in."""
    value = row[name]
    if name == "completeness":
        return "" if value is None else f"{value:.0%}"
    if isinstance(value, dict) and set(value) == {"start", "end"}:
        return _window(value["start"], value["end"])
    low, high = (row.get(side) or {} for side in ("low", "high"))
    if low.get(name) is None or high.get(name) is None:
        return show(value)
    return f"{show(value)} ({low[name]:.4g} – {high[name]:.4g})"


def _window(start: Any, end: Any) -> str:
    """Draw a window; a day that both ends share is said once."""
    first, last = show(start), show(end)
    same_day = isinstance(start, datetime) and start.date() == end.date()
    return f"{first} – {last.partition(' ')[2] if same_day else last}"


def figures(status: lw.Status, results: int) -> Table:
    """Draw where a run stands."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    mark = "end of stream" if status.ended else show(status.lwm) if status.lwm else "–"
    cells = {
        "low-water mark": mark,
        "newest": "–" if status.newest is None else show(status.newest),
        "epoch": f"{status.epoch:,}",
        "rows/s": "–" if status.rows_per_second is None else f"{status.rows_per_second:,.0f}",
        "late": f"{status['late']:,}",
        "malformed": f"{status['malformed']:,}",
        "results": f"{results:,}",
    }
    if status.prods:
        cells["early"] = f"{status.prods['early']:,}"
    for name in cells:
        table.add_column(name, no_wrap=True)
    table.add_row(*cells.values())
    return table
