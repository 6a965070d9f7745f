"""The picture of a run: memory, checkpoint and latency over time, with the faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from bench.soak.report import MEMORY, Samples, latencies, series
from experiments.harness.plot import BLUE, FAINT, GREEN, GREY, INK, ORANGE, canvas, label, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MB = 1e6
_DPI = 90
"""A picture of less than 100 kB."""
_COLOURS = (BLUE, ORANGE, GREEN, GREY, INK)
_COUNTS = {"rows": "rows", "results": "finals", "early_results": "early results"}
_PARTS = ("state", "log", "pending", "spool", "Spark")


def draw(
    samples: Samples,
    epochs: np.ndarray,
    began: float,
    events: Sequence[Mapping[str, Any]],
    path: Path,
) -> None:
    """Write the picture to `path`."""
    figure, axes = canvas(
        "Soak: a worker is killed at each dotted line, the query restarted at each dashed line",
        columns=3,
        rows=2,
        sharex=True,
    )
    memory, sizes, counts, latency, load, state = axes
    for colour, (name, column) in zip(_COLOURS, MEMORY.items(), strict=False):
        _line(memory, samples, column, colour=colour, text=name, scale=_MB)
    for colour, part in zip(_COLOURS, _PARTS, strict=False):
        _line(sizes, samples, f"{part} bytes", colour=colour, text=part, scale=_MB)
        _line(counts, samples, f"{part} files", colour=colour, text=part)
    for colour, (name, (hours, values)) in zip(
        _COLOURS, latencies(epochs, began).items(), strict=False
    ):
        latency.plot(_minutes(hours), values, color=colour, lw=1.2, label=f"{name} of a minute")
    for colour, (name, text) in zip(_COLOURS, _COUNTS.items(), strict=False):
        hours, values = series(samples, name)
        rate = np.diff(values) / np.maximum(np.diff(hours) * 3_600, 1e-9)
        load.plot(_minutes(hours[1:]), rate, color=colour, lw=1, label=text)
    _line(state, samples, "state_cells", colour=BLUE, text="cells and stored rows", scale=1e3)
    titles = (
        (memory, "Memory", "MB"),
        (sizes, "Bytes of the checkpoint", "MB"),
        (counts, "Files of the checkpoint", "files"),
        (latency, "Duration of an epoch", "ms"),
        (load, "Rows, finals and early results", "per second"),
        (state, "State", "thousands"),
    )
    for at, title, unit in titles:
        _faults(at, events)
        label(at, title, "minutes" if at in (latency, load, state) else "", unit)
        at.set_ylim(bottom=0)
        at.set_ylim(top=at.get_ylim()[1] * 1.25)
        legend(at, loc="upper left", ncols=2)
    figure.set_size_inches(13.5, 7.2)
    picture = BytesIO()
    figure.savefig(picture, dpi=_DPI)
    Image.open(picture).convert("RGB").quantize(128).save(path, optimize=True)


def _line(
    axes: Axes, samples: Samples, name: str, *, colour: str, text: str, scale: float = 1.0
) -> None:
    hours, values = series(samples, name)
    axes.plot(_minutes(hours), np.asarray(values) / scale, color=colour, lw=1.2, label=text)


def _faults(axes: Axes, events: Sequence[Mapping[str, Any]]) -> None:
    """Mark the faults: a killed worker with dots, a restart with dashes."""
    for event in events:
        style = ":" if event["kind"] == "kill" else "--"
        axes.axvline(event["hours"] * 60, color=FAINT, lw=0.9, ls=style, zorder=0)


def _minutes(hours: Sequence[float]) -> np.ndarray:
    return 60 * np.asarray(hours)
