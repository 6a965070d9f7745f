"""D5: the cost of a drop that drops no window (DROP, table 4).

The plan is a filter, a tumbling count and nothing else, over one row per tick, on the local host.
Processor time is measured, with and without the drop side by side (see `side_by_side`).
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import lowwater as lw
from experiments.harness.contract import Check, Comparison, Experiment, Outcome
from experiments.harness.plot import BLUE, ORANGE, canvas, label, legend
from experiments.harness.side_by_side import in_step, least
from lowwater.planner.shedding import shedding

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

SIZES = (25, 50, 75, 100)
SELECTED = (1.0, 0.5)
TARGET = 0.97
PAPER: Mapping[tuple[int, float], float] = {
    (25, 1.0): 0.99, (50, 1.0): 0.99, (75, 1.0): 1.0, (100, 1.0): 1.0,
    (25, 0.5): 0.96, (50, 0.5): 0.98, (75, 0.5): 0.98, (100, 0.5): 1.0,
}  # fmt: skip
Ratios = dict[tuple[int, float], float]


def ratio(size: int, selected: float, *, ticks: int, epochs: int, rounds: int) -> float:
    """Return the throughput with a drop that drops nothing over that without one."""
    feed = lw.feed("t bigint, x double")
    stream = lw.stream(feed, time="t", watermark=lw.ordered())
    query = stream.where(f"x < {selected}").window(range=size).agg(n=lw.count())
    at, x = np.arange(ticks), np.random.default_rng(1).random(ticks)
    cut = np.array_split(np.arange(ticks), epochs)
    tables = [pa.table({"t": at[part], "x": x[part]}) for part in cut]
    ways = [query.assembly, shedding(query.assembly, lw.shed(share=0.0))]
    plain, dropping = least(in_step(ways, [tables], rounds, shards=1)[1])
    return float(plain / dropping)


def check(found: Ratios, *, quick: bool = False) -> list[Check]:
    """Return the shapes and whether they hold."""
    typical = median(found.values())
    return [
        Check(
            f"throughput with a drop that drops nothing is {TARGET} of that without, or more",
            typical >= TARGET,
            f"median {typical:.3f}, least {min(found.values()):.3f}",
            not quick,
        )
    ]


def draw(found: Ratios, sizes: Sequence[int]) -> Figure:
    """Draw the ratios over the size."""
    figure, (axes,) = canvas("Throughput with a drop that drops nothing")
    for selected, colour in zip(SELECTED, (BLUE, ORANGE), strict=True):
        shown = [found[size, selected] for size in sizes]
        axes.plot(sizes, shown, "o-", ms=4, color=colour, label=f"filter keeps {selected:.0%}")
    axes.axhline(TARGET, ls=":", color="grey")
    axes.set_ylim(0.8, 1.1)
    label(axes, "Over throughput without", "window size, ticks", "")
    legend(axes)
    return figure


class Overhead(Experiment):
    """Throughput with WinDrop(p = 0) over that without."""

    id = "D5"
    paper = "DROP, table 4"
    title = "What a drop costs that drops nothing"
    reports = "windows of 25 to 100, selectivity 1.0 and 0.5: 0.96 to 1.00 of that without."
    here = (
        "Processor time on the local host, without shed= over with lw.shed(share=0), epoch by "
        "epoch by turns, the least of all runs."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Measure every size and selectivity."""
        sizes = (25, 100) if quick else SIZES
        ticks, epochs, rounds = (10_000, 4, 3) if quick else (200_000, 20, 25)
        found: Ratios = {
            (size, selected): ratio(size, selected, ticks=ticks, epochs=epochs, rounds=rounds)
            for size in sizes
            for selected in SELECTED
        }
        rows = [
            {"size": size, **{f"filter keeps {s:.0%}": round(found[size, s], 3) for s in SELECTED}}
            for size in sizes
        ]
        return Outcome(
            rows=rows,
            compared=[
                Comparison(f"size {size}, filter keeps {s:.0%}", f"{PAPER[size, s]}", f"{v:.3f}")
                for (size, s), v in found.items()
            ],
            checks=check(found, quick=quick),
            figure=draw(found, sizes),
            settings={"ticks": ticks, "epochs": epochs, "rounds": rounds},
        )


EXPERIMENT = Overhead()
