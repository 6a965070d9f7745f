"""P6: early results of normal values, on average and at worst (PROD, figures 4.7 to 4.10).

As P5, with values that are normal with mean 500 and standard deviation 100, 400 or 1,000: three
columns of one stream. The worst case is that of a stream of 2,000 s, as in the paper; here it is
the mean of the worst cases of several streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.harness.contract import Check, Comparison, Experiment, Outcome
from experiments.harness.plot import canvas, label, legend
from experiments.harness.shares import spread
from experiments.prod.aggressiveness import (
    FEW_SHARES,
    RATE,
    SHARES,
    Accuracies,
    Values,
    aggregates,
    curves,
    linear,
    measure,
    no_worse,
)
from experiments.streams.prods import Ask
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANGE, SLIDE = 30 * SECOND, 10 * SECOND
MEAN, DEVIATIONS = 500.0, (100, 400, 1_000)
COLUMNS = {f"sd{d}": d for d in DEVIATIONS}
WORST = "sd400"
"""The column whose worst case the paper shows."""
LOW, HIGH = 50.0, 75.0
"""Worst cases of raw sum and count, "varying between low-70's and mid-50's"."""
GOOD = 93.0
"""The worst case of avg, "in the mid-90's"."""
LINE = 1.0
FIRST, LAST = SHARES[0], SHARES[-1]


def normal(deviation: float) -> Values:
    """Return a function that draws normal values of a standard deviation."""
    return lambda random, n: random.normal(MEAN, deviation, n)


def check(found: Accuracies) -> list[Check]:
    """Return the shapes and whether they hold."""
    drop = {
        f: found.mean("raw", FIRST, f"{f}_sd1000") - found.mean("raw", LAST, f"{f}_sd1000")
        for f in ("avg", "max")
    }
    narrow = [found.mean("raw", LAST, f"{f}_sd100") for f in ("avg", "max")]
    worst = {f: found.worst("raw", LAST, f"{f}_{WORST}") for f in ("avg", "max", "sum", "count")}
    better = [found.worst("complete", LAST, f"{f}_{WORST}") - worst[f] for f in ("sum", "count")]
    return [
        Check(
            "SD 100: avg and max look alike and stay above 98 %",
            min(narrow) > 98,  # noqa: PLR2004
            ", ".join(f"{v:.2f} %" for v in narrow),
        ),
        Check(
            "SD 1,000: avg degrades more than max",
            drop["avg"] > drop["max"],
            ", ".join(f"{f} by {v:.2f} points" for f, v in drop.items()),
        ),
        linear(found, WORST, LINE),
        Check(
            "SD 400, worst case at 50 %: avg stays in the mid-90s, max is lower",
            worst["avg"] >= GOOD and worst["max"] < worst["avg"],
            f"avg {worst['avg']:.1f} %, max {worst['max']:.1f} %",
        ),
        Check(
            "SD 400, worst case at 50 %: raw sum and count are lower yet, in the 50s to 70s",
            all(LOW <= worst[f] <= HIGH and worst[f] < worst["max"] for f in ("sum", "count")),
            f"sum {worst['sum']:.1f} %, count {worst['count']:.1f} %",
        ),
        Check(
            "SD 400, worst case at 50 %: complete sum and count are better than raw ones",
            min(better) > 0,
            f"by {min(better):.1f} points or more",
        ),
        no_worse(found, list(COLUMNS)),
    ]


def draw(found: Accuracies) -> Figure:
    """Draw mean accuracy for each deviation, and the worst case."""
    figure, axes = canvas("Aggressiveness, normal values", 2, 2)
    for ax, (column, deviation) in zip(axes, COLUMNS.items(), strict=False):
        curves(ax, found, column, "mean")
        label(ax, f"SD {deviation:,}: on average", "aggressiveness, % of the slide", "accuracy, %")
    curves(axes[3], found, WORST, "worst")
    label(axes[3], "SD 400: worst case", "aggressiveness, % of the slide", "accuracy, %")
    low = min(ax.get_ylim()[0] for ax in axes[:3])
    for ax in axes[:3]:
        ax.set_ylim(low, 101)
    legend(axes[0], loc="lower left")
    return figure


def compare(found: Accuracies) -> list[Comparison]:
    """Put the paper's words beside our figures."""

    def worst(name: str, share: float) -> str:
        cells = [found.cells[e, share, name] for e in ("raw", "complete")]
        told = f"raw {spread(cells[0].worsts)}"
        if cells[0].worsts != cells[1].worsts:
            told += f", complete {spread(cells[1].worsts)}"
        return f"{told}; with cut windows {np.mean(cells[0].worsts_of_all):.1f} % raw"

    return [
        Comparison("SD 400, worst avg at 50 %", "mid-90s", worst(f"avg_{WORST}", LAST)),
        Comparison("SD 400, worst count at 10 %", "low 70s", worst(f"count_{WORST}", FIRST)),
        Comparison("SD 400, worst count at 50 %", "mid-50s", worst(f"count_{WORST}", LAST)),
        Comparison("SD 400, worst sum at 50 %", "mid-50s", worst(f"sum_{WORST}", LAST)),
        Comparison(
            "SD 1,000, avg and max at 50 %",
            "avg below max",
            ", ".join(
                spread(found.cells["raw", LAST, f"{f}_sd1000"].means) for f in ("avg", "max")
            ),
        ),
    ]


class NormalValues(Experiment):
    """Accuracy by aggressiveness, values normal, on average and at worst."""

    id = "P6"
    paper = "PROD, figures 4.7 to 4.10"
    title = "Aggressiveness, normal values"
    reports = (
        "as figure 4.6 with normal values, mean 500, SD 100, 400, 1,000: at SD 1,000 avg degrades "
        "slightly more quickly than max; sum and count degrade linearly. Worst case at SD 400: avg "
        "in the mid-90s, max significantly lower than on average, count and sum between the low "
        "70s and the mid-50s."
    )
    here = (
        "Means over full windows. The worst case is that of a stream, on average over streams; "
        "cut windows are the first two, which begin before the stream."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Ask for every window under each aggressiveness, raw and complete."""
        seeds, seconds = ((1,), 300) if quick else ((1, 2, 3), 2_000)
        shares = FEW_SHARES if quick else SHARES
        values = {column: normal(d) for column, d in COLUMNS.items()}
        ask = Ask(RANGE, SLIDE, aggregates(list(COLUMNS)))
        found = measure(ask, values, seeds=seeds, seconds=seconds, shares=shares)
        rows = [
            row
            for column, d in COLUMNS.items()
            for row in found.rows(column, "mean", SD=f"{d:,}, mean")
        ]
        return Outcome(
            rows=[*rows, *found.rows(WORST, "worst", SD="400, worst")],
            compared=compare(found),
            checks=check(found),
            figure=draw(found),
            settings={"streams": len(seeds), "seconds each": seconds, "rows per second": RATE},
        )


EXPERIMENT = NormalValues()
