"""The outcome of other slacks: the same query over the same epochs, on the local host."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd
from rich import box
from rich.table import Table

import lowwater as lw
from examples.flights.check import SLIDE, check
from examples.flights.flights import SCHEMA, Recording, late_degrees
from examples.flights.journal import Journal, waits
from examples.flights.query import delays
from examples.flights.times import span
from lowwater.ticks import ticks


@dataclass(frozen=True)
class Choice:
    """A slack and its outcome."""

    slack: pd.Timedelta
    late: int
    partly_late: int
    right: float
    wait: pd.Timedelta | None


def choices(recording: Recording, journal: Journal, slack: str) -> list[Choice]:
    """Try a quarter of the slack, the slack itself, and one that covers every flight."""
    own = ticks(slack, name="slack")
    covering = late_degrees(recording.flights).max()
    slides = max(1, math.ceil(covering / SLIDE))
    spans = {own // 4, own, slides * ticks(SLIDE.to_pytimedelta())}
    return [_try(recording, journal, pd.Timedelta(length, unit="us")) for length in sorted(spans)]


def _try(recording: Recording, journal: Journal, slack: pd.Timedelta) -> Choice:
    flights, feed = recording.table(), lw.feed(SCHEMA)
    cuts = [0, *journal.cuts().values()]
    epochs = [flights.slice(start, end - start) for start, end in pairwise(cuts)]
    results = lw.to_memory()
    done = delays(feed, slack=slack.to_pytimedelta()).run(epochs={feed: epochs}, sink=results)
    assert done.results is not None  # noqa: S101
    assert done.late is not None  # noqa: S101
    checked = check(done.results, done.late, recording.flights)
    read = dict(enumerate(cuts[1:]))
    found = waits(results.epochs, read, recording.flights["took_off"])
    return Choice(
        slack,
        done.status["late"],
        done.status["partly_late"],
        checked.right / checked.windows,
        None if found.empty else found.median(),
    )


def as_table(tried: list[Choice]) -> Table:
    """Lay the choices out for the screen."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("slack")
    for name in ("late", "partly late", "exact finals", "median wait"):
        table.add_column(name, justify="right")
    for choice in tried:
        wait = "–" if choice.wait is None else span(choice.wait)
        counts = (f"{choice.late:,}", f"{choice.partly_late:,}")
        table.add_row(span(choice.slack), *counts, f"{choice.right:.1%}", wait)
    return table
