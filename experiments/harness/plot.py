"""The style of all pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT = "#333333", "#a8a8a8"
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"
"""Colours that people with colour blindness can tell apart."""


def canvas(
    title: str, columns: int = 1, rows: int = 1, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a title, and its axes, row by row."""
    # Loaded here: listing the experiments needs no plots.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.4 * columns + 0.6, 4.6 * rows), layout="constrained", dpi=150)
    axes = figure.subplots(rows, columns, squeeze=False, **options).flatten()
    figure.suptitle(title, fontsize=13, fontweight="bold", color=INK, x=0.01, ha="left")
    for each in axes:
        _plain(each)
    return figure, list(axes)


def label(axes: Axes, title: str, x: str, y: str) -> None:
    """Set the title and the names of both axes."""
    axes.set_title(title, loc="left", fontsize=10.5, color=INK)
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)


def legend(axes: Axes, **options: Any) -> None:
    """Add a legend without a frame."""
    axes.legend(frameon=False, labelcolor=INK, fontsize=9.5, **options)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=INK, length=3)
    axes.grid(color="#e9e9e9", lw=0.8)
    axes.set_axisbelow(True)
