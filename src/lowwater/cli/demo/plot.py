"""The picture of a run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow.compute as pc

from lowwater.cli.demo.checking import RANGE, SLIDE
from lowwater.cli.demo.flights import AIRPORTS
from lowwater.cli.demo.summary import Report
from lowwater.durations import ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = dict(zip(AIRPORTS, ("#0072B2", "#D55E00", "#009E73"), strict=True))
_INK, _FAINT = "#333333", "#9a9a9a"


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
        own = own.reindex(every)  # gaps stay gaps
        ends = own.index + RANGE
        axes.plot(ends, own["delay_exact"], color=colour, lw=0.9, ls=(0, (2, 2)), alpha=0.9)
        axes.plot(ends, own["delay"], color=colour, lw=1.8, label=airport)
    axes.plot([], [], color=_FAINT, lw=0.9, ls=(0, (2, 2)), label="exact answer")
    axes.set_ylabel("mean delay, minutes")
    axes.set_title("Mean over 3 hours, every 10 minutes, at the window's end", **_LEFT)
    axes.legend(frameon=False, ncols=4, loc="upper left")


def _disorder(axes: Axes, report: Report) -> None:
    flights, late = report.recording.flights, report.late
    axes.scatter(
        flights["scheduled"],
        flights["dep_delay"] / 60,
        s=5,
        color=_FAINT,
        lw=0,
        alpha=0.6,
        label="in time",
    )
    kinds = ((True, "partly late", "#E69F00"), (False, "late: missed all its windows", "#C1121F"))
    for admitted, label, colour in kinds:
        rows = late.filter(pc.equal(late["admitted"], admitted)).to_pandas()
        axes.scatter(
            rows["scheduled"], rows["dep_delay"] / 60, s=12, color=colour, lw=0, label=label
        )
    slack = ticks(report.slack) / 3.6e9
    axes.axhline(slack, color=_INK, lw=1, ls="--", label=f"slack, {report.slack}")
    axes.set_ylabel("hours after schedule")
    axes.set_title("How late each flight came into the stream", **_LEFT)
    axes.legend(frameon=False, ncols=4, loc="upper left")


_LEFT: dict[str, Any] = {"loc": "left", "fontsize": 11, "color": _INK}


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
    step = pd.Timedelta(hours=6 if days < 4 else 12 if days < 8 else 24 * math.ceil(days / 14))
    ticks = pd.date_range(first, first + pd.Timedelta(days=days), freq=step)
    names = [f"{t:%H:%M}" if t.hour else f"{t:%a} {t.day} {t:%b}" for t in ticks]
    axes.set_xticks(ticks, names)
    axes.set_xlabel("event time: scheduled departure, New York", color=_INK)
