"""Prints the figures of all trials as one table, or returns them in the types of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from lowwater.cli.replay.length import percent, short
from lowwater.cli.trial.trial import Figures, Trials
from lowwater.ticks import TICKS_PER_SECOND

WIDTH = 80
"""The largest width of the table."""
COLUMNS = (
    "complete",
    "mean\nwait",
    "95 %\nwait",
    "first\nanswer",
    "early\nerror",
    "dropped",
    "late",
)


def print_figures(trials: Trials, figures: Mapping[str, Figures]) -> None:
    """Print the figures of each setting."""
    console = Console(highlight=False)
    console.print(f"{' '.join(trials.query.text.split())}\n{trials.query.played}\n")
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        header_style="bold",
        padding=(0, 1, 0, 0),
        width=min(console.width, WIDTH),
    )
    table.add_column("setting", ratio=1)
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for text, one in figures.items():
        table.add_row(text, *_cells(one, timed=trials.timed))
    console.print(table)
    console.print(
        f"\nWaits count from the moment at which the newest time reached {trials.counted}."
    )


def _cells(one: Figures, *, timed: bool) -> list[str]:
    lengths = (short(one.mean_wait, timed=timed), short(one.wait_95, timed=timed))
    return [
        "–" if one.completeness is None else percent(one.completeness),
        *lengths,
        short(one.first, timed=timed),
        "–" if one.early_error is None else f"{one.early_error:.3f}",
        f"{one.dropped:,}" if one.dropped else "–",
        f"{one.late:,}",
    ]


def figures_record(trials: Trials, figures: Mapping[str, Figures]) -> dict[str, Any]:
    """Return the figures in the types of JSON; lengths are in seconds, or numbers."""
    scale = TICKS_PER_SECOND if trials.timed else 1
    return {
        "query": trials.query.text,
        "epochs": len(trials.query.cuts),
        "epoch": trials.query.epochs.length / scale,
        "settings": [
            {
                "setting": text,
                "completeness": one.completeness,
                "mean_wait": _scaled(one.mean_wait, scale),
                "wait_95": _scaled(one.wait_95, scale),
                "first": _scaled(one.first, scale),
                "early_error": one.early_error,
                "dropped": one.dropped,
                "late": one.late,
            }
            for text, one in figures.items()
        ],
    }


def _scaled(length: float | None, scale: int) -> float | None:
    return None if length is None else length / scale
