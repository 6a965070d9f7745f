"""Pictures of the arena: waits and completeness by stream, and slacks over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.arena.constants import Constants
from experiments.arena.families import FAMILIES
from experiments.arena.rules import LibraryRule
from experiments.arena.simulate import Simulation
from experiments.arena.verdict import ANY, KEPT, TARGETS, Verdict, mean_ratio
from experiments.harness.plot import BLUE, FAINT, GREEN, INK, ORANGE, canvas, label, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = dict(zip(TARGETS, (BLUE, GREEN, ORANGE), strict=True))
SHOWN = ("storms", "daily", "partial-outages", "long-batches", "drift", "uploads")
"""The streams whose slacks are drawn over time."""
TARGET = 0.95
"""The target of the slacks that are drawn over time."""


def draw(verdicts: Sequence[Verdict], rule: str, seed: int, folder: Path) -> list[Path]:
    """Write the pictures of a rule's verdicts, and of its slacks for a seed; return their paths."""
    mine = [one for one in verdicts if one.rule == rule]
    return [
        _by_stream(mine, "Wait ÷ wait of the best constant", _waits, folder / "arena-wait.png"),
        _by_stream(
            mine,
            "Completeness ÷ target; without a point, a stream is too short",
            _completeness,
            folder / "arena-kept.png",
        ),
        _over_time(seed, folder / "arena-slack.png"),
    ]


def _waits(axes: Axes, places: dict[str, int], mine: Iterable[Verdict]) -> None:
    _points(axes, places, mine, mean_ratio)
    axes.set_xscale("log")
    ticks = (0.25, 0.5, 0.8, 1, ANY)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.xaxis.minorticks_off()
    axes.axvline(1.0, color=INK, lw=0.9)
    axes.axvline(ANY, color=FAINT, lw=0.9, ls="--")


def _completeness(axes: Axes, places: dict[str, int], mine: Iterable[Verdict]) -> None:
    # A stream that is too short for a target is not judged.
    judged = [one for one in mine if one.judged]
    _points(axes, places, judged, lambda same: min(one.kept for one in same))
    axes.axvline(1.0, color=INK, lw=0.9)
    axes.axvline(KEPT, color=FAINT, lw=0.9, ls="--")


def _points(
    axes: Axes,
    places: dict[str, int],
    mine: Iterable[Verdict],
    value: Callable[[list[Verdict]], float],
) -> None:
    """Draw a point for each stream and target."""
    found = list(mine)
    for above, target in zip((0.2, 0.0, -0.2), TARGETS, strict=True):
        by_stream: dict[str, list[Verdict]] = {}
        for one in found:
            if one.target == target and one.stream in places:
                by_stream.setdefault(one.stream, []).append(one)
        x = [value(same) for same in by_stream.values()]
        y = [places[name] + above for name in by_stream]
        axes.scatter(x, y, s=26, color=COLOURS[target], label=f"target {target:g}", zorder=3)


def _by_stream(
    mine: Sequence[Verdict],
    title: str,
    fill: Callable[[Axes, dict[str, int], Iterable[Verdict]], None],
    path: Path,
) -> Path:
    """Draw a line for each stream, steady and changing ones apart."""
    figure, axes = canvas(title, columns=2)
    figure.set_size_inches(11.5, 7.2)
    for at, change in zip(axes, ("steady", "changing"), strict=True):
        names = sorted({one.stream for one in mine if one.change == change}, reverse=True)
        places = {name: place for place, name in enumerate(names)}
        label(at, f"{change} streams", "", "")
        fill(at, places, mine)
        at.set_yticks(range(len(names)), names, fontsize=8.5)
        at.set_ylim(-0.7, len(names) - 0.3)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper right", ncols=3, frameon=False, labelcolor=INK)
    figure.savefig(path)
    return path


def _over_time(seed: int, path: Path) -> Path:
    """Draw the slack of some streams beside the best constant of the same completeness."""
    figure, axes = canvas(f"Slack over time, target {TARGET:g}, in ranges", columns=2, rows=3)
    figure.set_size_inches(11.5, 9.0)
    for at, name in zip(axes, SHOWN, strict=True):
        _slacks(at, name, seed)
    legend(axes[-1], loc="lower right")
    figure.savefig(path)
    return path


def _slacks(axes: Axes, name: str, seed: int) -> None:
    stream = FAMILIES[name].stream(seed)
    sim = Simulation(stream)
    course, found = sim.run(LibraryRule(TARGET, stream)), sim.incidences
    kept = 1 - found.count[course.late].sum() / found.count.sum()
    best = Constants.of(stream, found, np.ones(len(found.ends), bool)).least(float(kept))
    windows = (stream.newest - stream.newest[0]) / stream.slide
    axes.plot(windows, course.slack / stream.range, color=BLUE, lw=0.9, label="the rule")
    axes.axhline(best / stream.range, color=ORANGE, lw=1.4, label="best constant")
    label(axes, f"{name}: {100 * kept:.1f} % in time", "windows", "")
    axes.set_ylim(bottom=0)
