"""The picture of a run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from examples.flights.check import RANGE, SLIDE
from examples.flights.flights import AIRPORTS
from examples.flights.summary import Report
from lowwater.ticks import ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = dict(zip(AIRPORTS, ("#0072B2", "#D55E00", "#009E73"), strict=True))
_INK, _FAINT = "#333333", "#a8a8a8"
_DOTS = (0, (1.5, 1.5))
_LEFT: dict[str, Any] = {"loc": "left", "fontsize": 11, "color": _INK}
_MOST_TICKS = 14


def plot(report: Report, path: Path) -> None:
    """Save the mean delays, and below them how late each flight came, on one axis of time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7.5), layout="constrained", dpi=150)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=[3, 2])
    _delays(upper, report)
    _disorder(lower, report)
    for axes in (upper, lower):
        _plain(axes)
    _days(lower, report)
    title = f"Departure delays in New York, {report.recording.spoken_dates}"
    figure.suptitle(title, fontsize=15, fontweight="bold", color=_INK, x=0.01, ha="left")
    figure.savefig(path)


def _delays(axes: Axes, report: Report) -> None:
    lines = report.check.lines
    for airport, colour in _COLOURS.items():
        own = lines.xs(airport, level="origin")
        every = pd.date_range(own.index.min(), own.index.max(), freq=SLIDE)
        own = own.reindex(every)  # windows without flights are gaps
        ends = own.index + RANGE
        axes.plot(ends, own["delay_exact"], color=colour, lw=1, ls=_DOTS)
        axes.plot(ends, own["delay"], color=colour, lw=1.8, label=airport)
    axes.plot([], [], color=_INK, lw=1, ls=_DOTS, label="exact answer, with the late flights")
    axes.set_ylabel("mean delay, minutes")
    axes.set_title("Mean over 3 hours, every 10 minutes, at the end of the window", **_LEFT)
    _legend(axes)


def _disorder(axes: Axes, report: Report) -> None:
    flights, late = report.recording.flights, report.late.to_pandas()
    kinds = (
        (flights, "in time", _FAINT, 5),
        (late[late["admitted"]], "partly late: missed some of its windows", "#E69F00", 12),
        (late[~late["admitted"]], "late: missed all of them", "#C1121F", 12),
    )
    for rows, label, colour, size in kinds:
        hours = rows["dep_delay"] / 60
        axes.scatter(rows["scheduled"], hours, s=size, color=colour, lw=0, label=label)
    slack = ticks(report.slack) / ticks("1 hour")
    axes.axhline(slack, color=_INK, lw=1, ls="--", label=f"slack: {report.slack}")
    axes.set_ylabel("delay, hours")
    axes.set_title("How much later than scheduled each flight came into the stream", **_LEFT)
    _legend(axes)


def _legend(axes: Axes) -> None:
    """Put the legend on top, in space of its own."""
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top + 0.12 * (top - bottom))
    axes.legend(frameon=False, ncols=4, loc="upper left", labelcolor=_INK, borderaxespad=0)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_FAINT)
    axes.tick_params(colors=_INK, length=3)
    axes.yaxis.label.set_color(_INK)
    axes.grid(axis="y", color="#e6e6e6", lw=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0.01)


def _days(axes: Axes, report: Report) -> None:
    days = report.recording.days
    first = pd.Timestamp(report.recording.first, tz="UTC")
    steps = (6, 12, 24 * math.ceil(days / _MOST_TICKS))
    hours = next(h for h in steps if days * 24 / h <= _MOST_TICKS)
    at = pd.date_range(first, first + pd.Timedelta(days=days), freq=pd.Timedelta(hours=hours))
    axes.set_xticks(at, [f"{t:%H:%M}" if t.hour else f"{t:%a} {t.day} {t:%b}" for t in at])
    axes.set_xlabel("event time: scheduled departure, New York", color=_INK)
