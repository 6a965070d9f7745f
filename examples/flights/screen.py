"""The screen of the demo: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from examples.flights.flights import AIRPORTS
from examples.flights.journal import Journal, Line
from examples.flights.times import when

_LINE_SECONDS = 5.0
_FULL_BAR = 120.0  # minutes
_LONG, _VERY_LONG = 30.0, 60.0  # minutes, where a delay changes its colour
_LEAST_BAR, _MOST_BAR = 4, 24  # characters
_FIGURES = 9  # characters of a mean and a count, with the spaces around a bar
_BESIDE_BAR = 18  # the same, and a third of all that is not a column of an airport
_EIGHTHS = " ▏▎▍▌▋▊▉"


class Screen(ABC):
    """Shows a run of `total` rows as it goes on."""

    def __init__(self, console: Console, total: int) -> None:
        self.console, self.total = console, total

    @abstractmethod
    def waiting(self, what: str) -> AbstractContextManager[object]:
        """Show what the demo is waiting for."""

    @abstractmethod
    def live(self) -> AbstractContextManager[object]:
        """Begin to show a run; leave its last state on the screen."""

    @abstractmethod
    def show(self, journal: Journal) -> None:
        """Show the status of the run; called several times a second."""


def screen_on(console: Console, total: int) -> Screen:
    """Return the screen that fits where the output goes."""
    return LiveTable(console, total) if console.is_terminal else Lines(console, total)


class Lines(Screen):
    """A line every few seconds."""

    shown = 0.0

    def waiting(self, what: str) -> AbstractContextManager[object]:  # noqa: D102
        self.console.print(what)
        return nullcontext()

    def live(self) -> AbstractContextManager[object]:  # noqa: D102
        return nullcontext()

    def show(self, journal: Journal) -> None:  # noqa: D102
        now = time.monotonic()
        if journal.status is None or (now < self.shown + _LINE_SECONDS and not journal.ended):
            return
        self.shown = now
        percent = 100 * journal.count("in") // self.total
        mark = "end of stream" if journal.ended else when(journal.mark)
        self.console.print(
            f"{percent:3d}%  watermark {mark}  newest {when(journal.newest)}  "
            f"rows {journal.count('in'):,}  late {journal.count('late'):,}  "
            f"partly late {journal.count('partly_late'):,}  results {journal.count('results'):,}",
            soft_wrap=True,
        )


class LiveTable(Screen):
    """A table that changes in place."""

    _live: Live | None = None

    def waiting(self, what: str) -> AbstractContextManager[object]:  # noqa: D102
        return self.console.status(what)

    @contextmanager
    def live(self) -> Iterator[object]:  # noqa: D102
        with Live(console=self.console, auto_refresh=False) as self._live:
            yield self._live

    def show(self, journal: Journal) -> None:  # noqa: D102
        if self._live is not None:
            self._live.update(self.picture(journal), refresh=True)

    def picture(self, journal: Journal) -> RenderableType:
        """Draw the whole of it."""
        parts = (self._progress(journal), _figures(journal), self._windows(journal))
        # The last line is empty, for the cursor and for what the terminal makes of Ctrl-C.
        return Group(*(line for part in parts for line in (part, Text())))

    def _progress(self, journal: Journal) -> RenderableType:
        rows = journal.count("in")
        grid = Table.grid(Column(), Column(ratio=1), Column(justify="right"), padding=(0, 2, 0, 0))
        grid.expand = True
        text = f"{rows:,} of {self.total:,} flights"
        bar = ProgressBar(self.total, rows, complete_style="cyan", finished_style="cyan")
        grid.add_row("replay", bar, text)
        return grid

    def _windows(self, journal: Journal) -> RenderableType:
        """Draw the newest windows, the newest on top."""
        wide = max(_LEAST_BAR, min(_MOST_BAR, self.console.width // len(AIRPORTS) - _BESIDE_BAR))
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column("3 hours from", no_wrap=True, header_style="bold")
        for airport in AIRPORTS:
            flights = f"{'flights':>{wide + _FIGURES - len('EWR min')}}"
            head = Text.assemble((airport, "bold"), (f" min{flights}", "dim"))
            table.add_column(head, no_wrap=True)
        count = max(3, min(12, self.console.height - 10))
        newest = sorted(journal.recent, reverse=True)[:count]
        for start in newest:
            cells = (_cell(journal.recent[start], airport, wide) for airport in AIRPORTS)
            table.add_row(when(start), *cells)
        for _ in range(count - len(newest)):
            table.add_row("")
        return table


def _figures(journal: Journal) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim")
    figures = {
        "watermark": "end of stream" if journal.ended else when(journal.mark),
        "newest event": when(journal.newest),
        "rows/s": f"{journal.rate:,.0f}",
        "late": f"{journal.count('late'):,}",
        "partly late": f"{journal.count('partly_late'):,}",
        "results": f"{journal.count('results'):,}",
    }
    for name, figure in figures.items():
        number = figure.replace(",", "").isdigit()
        table.add_column(name, justify="right" if number else "left", min_width=len(figure))
    table.add_row(*figures.values())
    return table


def _cell(line: Line, airport: str, wide: int) -> Text:
    if airport not in line:
        return Text("")
    flights, delay = line[airport]
    colour = "red" if delay >= _VERY_LONG else "yellow" if delay >= _LONG else "green"
    return Text.assemble(
        f"{round(delay):4d} ", (bar(delay / _FULL_BAR, wide), colour), (f" {flights:3d}", "dim")
    )


def bar(share: float, wide: int) -> str:
    """Draw a share of `wide` characters, to an eighth of one."""
    eighths = round(max(0.0, min(1.0, share)) * wide * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + _EIGHTHS[rest] * (rest > 0)).ljust(wide)
