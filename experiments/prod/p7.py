"""P7: the worst case of early results over tumbling windows (PROD, figure 4.11).

As P6 with SD 400, over tumbling windows of 30 s: aggressiveness of 50 % asks for a window when half
of it is over. A stream of 2,000 s has 66 windows; the figures are those of the worst one of a
stream, on average over several streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.harness.contract import Check, Comparison, Experiment, Outcome
from experiments.harness.plot import canvas, label, legend
from experiments.harness.shares import spread
from experiments.prod.aggressiveness import (
    FEW_SHARES,
    FUNCTIONS,
    RATE,
    SHARES,
    Accuracies,
    aggregates,
    curves,
    measure,
    no_worse,
)
from experiments.prod.p6 import normal
from experiments.streams.prods import Ask
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE, DEVIATION, COLUMN = 30 * SECOND, 400, "sd400"
OTHERS = ("max", "sum", "count")
PAPER = {SHARES[0]: 87.13, SHARES[-1]: 65.96}
"""The worst case of avg in the paper."""
HALF = 50.0
FIRST, LAST = SHARES[0], SHARES[-1]


def check(found: Accuracies) -> list[Check]:
    """Return the shapes and whether they hold."""

    def worst(f: str, share: float, estimate: str = "raw") -> float:
        return found.cells[estimate, share, f"{f}_{COLUMN}"].worst  # type: ignore[index]

    lower = {f: worst("avg", LAST) - worst(f, LAST) for f in OTHERS}
    better = [worst(f, LAST, "complete") - worst(f, LAST) for f in ("sum", "count")]
    return [
        Check(
            "the worst case of each gets worse with aggressiveness",
            all(worst(f, FIRST) > worst(f, LAST) for f in FUNCTIONS),
            ", ".join(f"{f} {worst(f, FIRST):.1f} → {worst(f, LAST):.1f} %" for f in FUNCTIONS),
        ),
        Check(
            "at 50 % the others are lower than avg",
            min(lower.values()) > 0,
            ", ".join(f"{f} by {v:.1f} points" for f, v in lower.items()),
        ),
        Check(
            "raw sum and count fall well below 50 %",
            max(worst(f, LAST) for f in ("sum", "count")) < HALF,
            ", ".join(f"{f} {worst(f, LAST):.1f} %" for f in ("sum", "count")),
        ),
        Check(
            "complete sum and count are better than raw ones at 50 %",
            min(better) > 0,
            f"by {min(better):.1f} points or more",
        ),
        no_worse(found, [COLUMN]),
    ]


def draw(found: Accuracies) -> Figure:
    """Draw the worst case and the mean."""
    figure, axes = canvas("Aggressiveness, tumbling windows", 2, sharey=True)
    for ax, what, title in zip(axes, ("worst", "mean"), ("Worst case", "Mean"), strict=True):
        curves(ax, found, COLUMN, what)
        label(ax, title, "aggressiveness, % of the window", "accuracy, %")
        ax.set_ylim(0, 103)
    legend(axes[0], loc="lower left")
    return figure


class TumblingWindows(Experiment):
    """The worst case by aggressiveness, over tumbling windows."""

    id = "P7"
    paper = "PROD, figure 4.11"
    title = "Aggressiveness, tumbling windows"
    reports = (
        "tumbling windows of 30 s, normal values, SD 400, worst case: avg degrades from 87.13 to "
        "65.96 % as aggressiveness grows from 10 to 50 %; max, sum and count are fairly low."
    )
    here = (
        "The worst window of a stream, on average over streams. Raw answers are what has arrived; "
        "complete ones make up for what has not."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Ask for every window under each aggressiveness, raw and complete."""
        seeds, seconds = ((1,), 2_000) if quick else ((1, 2, 3, 4, 5), 2_000)
        shares = FEW_SHARES if quick else SHARES
        ask = Ask(SIZE, SIZE, aggregates([COLUMN]))
        values = {COLUMN: normal(DEVIATION)}
        found = measure(ask, values, seeds=seeds, seconds=seconds, shares=shares)
        compared = [
            Comparison(
                f"worst avg at {share:.0%}".replace("%", " %"),
                f"{paper} %",
                spread(found.cells["raw", share, f"avg_{COLUMN}"].worsts),
            )
            for share, paper in PAPER.items()
        ]
        compared += [
            Comparison(
                f"worst {f} at 50 %",
                "fairly low",
                f"raw {spread(found.cells['raw', LAST, f'{f}_{COLUMN}'].worsts)}, complete "
                f"{spread(found.cells['complete', LAST, f'{f}_{COLUMN}'].worsts)}",
            )
            for f in OTHERS
        ]
        rows = found.rows(COLUMN, "worst", figure="worst")
        return Outcome(
            rows=[*rows, *found.rows(COLUMN, "mean", figure="mean")],
            compared=compared,
            checks=check(found),
            figure=draw(found),
            settings={"streams": len(seeds), "seconds each": seconds, "rows per second": RATE},
        )


EXPERIMENT = TumblingWindows()
