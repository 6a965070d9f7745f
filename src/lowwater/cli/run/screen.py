"""Shows metrics and the newest results of a run on a terminal."""

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
from lowwater.engine.outputs import finals_emitted
from lowwater.sinks.console import HIDDEN, show, show_in_row

_BESIDE_ROWS = 10
"""Lines of the screen that the table of results must leave free."""
_FEWEST, _MOST = 3, 20


class Screen:
    """The display of a run on a terminal; without a terminal, nothing is drawn.

    `total` is the number of rows to read, None if unknown. With `live_rows`, results are drawn.
    """

    def __init__(self, console: Console, total: int | None, *, live_rows: bool) -> None:
        self.console, self.total = console, total
        self.live_rows = live_rows and console.is_terminal
        self.rows: deque[dict[str, Any]] = deque(maxlen=_MOST)
        self.columns: pa.Schema = pa.schema([])
        self.status: lw.Status | None = None
        self.results = 0
        self.text = ""
        self._live: Live | None = None

    def waiting(self, activity: str) -> AbstractContextManager[object]:
        """Return a context during which the screen shows `activity`."""
        return self.console.status(activity) if self.console.is_terminal else nullcontext()

    @contextmanager
    def live(self) -> Iterator[None]:
        """Draw during the `with` block; at its end, print the newest results."""
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, auto_refresh=False, transient=True) as self._live:
            yield
        self._live = None
        if self.live_rows and self.rows:
            self.console.print(self._table())

    def take(self, epoch: int, rows: pa.Table) -> None:
        """Store the results of an epoch. The sink calls this method in the thread of the run."""
        del epoch
        self.columns = rows.schema
        self.rows.extend(rows.slice(max(0, len(rows) - _MOST)).to_pylist())

    def message(self, text: str) -> None:
        """Show a line of text below the metrics."""
        self.text = text
        self._draw()

    def show(self, run: lw.Run) -> None:
        """Show the status of `run`; `execute` calls this method several times a second."""
        self.status = run.status()
        self.results = finals_emitted(run.flow, self.status)
        self._draw()

    def _draw(self) -> None:
        if self._live is not None:
            self._live.update(self.picture(), refresh=True)

    def picture(self) -> RenderableType:
        """Return progress, metrics, newest results and message as one renderable."""
        parts: list[RenderableType] = [self._progress()]
        if self.status is not None and self.status.epoch >= 0:
            parts += [Text(), metrics_table(self.status, self.results)]
        if self.live_rows and self.rows:
            parts += [Text(), self._table()]
        if self.text:
            parts += [Text(), Text(self.text, "dim")]
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
        """Return a table of the newest results, with as many rows as fit on the screen."""
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
    """Return the value `row[name]` as text; a window within one day shows the day only once."""
    value = row[name]
    if not isinstance(value, dict) or set(value) != {"start", "end"}:
        return show_in_row(row, name)
    start, end = value["start"], value["end"]
    same_day = isinstance(start, datetime) and start.date() == end.date()
    return f"{show(start)} – {show(end).partition(' ')[2] if same_day else show(end)}"


def metrics_table(status: lw.Status, results: int) -> Table:
    """Return the metrics of a run as a table of one row."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    known = "–" if status.watermark is None else show(status.watermark)
    cells = {
        "watermark": "end of stream" if status.ended else known,
        "newest": "–" if status.newest is None else show(status.newest),
        "epoch": f"{status.epoch:,}",
        "rows/s": "–" if status.rows_per_second is None else f"{status.rows_per_second:,.0f}",
        "late": f"{status['late']:,}",
        "malformed": f"{status['malformed']:,}",
        "results": f"{results:,}",
    }
    if status.bad_files:
        cells["bad files"] = f"{status.bad_files:,}"
    if status.restarts:
        cells["restarts"] = f"{status.restarts:,}"
    if status.prods:
        cells["early"] = f"{status.prods['early']:,}"
    for name in cells:
        table.add_column(name, no_wrap=True)
    table.add_row(*cells.values())
    return table
