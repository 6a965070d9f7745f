"""D1: where a drop stands in nested windows (DROP, figures 7 and 10).

The plan is reconstructed: a stage, a tumbling count of 10, a stage, a tumbling count of 100 of its
results, a stage, all of equal cost. A stage has a price instead of a delay (see `drops`). The drop
between the counts and the drop after them drop the same windows, computed from the same runs: the
stages before a drop save nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lowwater as lw
from experiments.drop.drops import SHARES, RemainingWork, Stage, counted, drop_needed, percent
from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, GREEN, ORANGE, canvas, label, legend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

INNER, OUTER = 10, 100
EXCESSES = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.8, 1.0, 1.5, 2.0)
PLACES = ("after both", "between", "at the stream")
STAGES = (
    Stage(1.0, lambda left: left.rows),
    Stage(1.0, lambda left: left.results["window"]),
    Stage(1.0, lambda left: left.results["window 2"]),
)
Curves = dict[str, list[float | None]]


def nested(stream: lw.Stream) -> lw.Together:
    """Return the count of counts."""
    inner = stream.window(range=INNER).agg(n=lw.count())
    return lw.together(out=inner.window(range=OUTER).agg(n=lw.sum("n")))


def placed(place: str) -> list[Stage]:
    """Return the stages with a drop at a place."""
    first = 2 - PLACES.index(place)
    return [stage.spared(dropped=n >= first) for n, stage in enumerate(STAGES)]


def curves(measured: Sequence[RemainingWork], excesses: Sequence[float]) -> Curves:
    """Return the drop rate that each place needs at each excess."""
    return {p: [drop_needed(placed(p), measured, e) for e in excesses] for p in PLACES}


def analysed(excess: float) -> float:
    """Return the drop rate of a drop at the stream: a dropped window saves all its work."""
    return excess / (1 + excess)


def check(found: Curves, excesses: Sequence[float]) -> list[Check]:
    """Return the shapes and whether they hold."""
    last, middle, early = (found[p] for p in PLACES)
    worse = [
        (e, b)
        for later, sooner in ((last, middle), (middle, early))
        for e, a, b in zip(excesses, later, sooner, strict=True)
        if a is not None and (b is None or b > a + 0.01)
    ]
    stops = next((e for e, p in zip(excesses, last, strict=True) if p is None), None)
    off = max(abs(p - analysed(e)) for e, p in zip(excesses, early, strict=True) if p is not None)
    return [
        Check("an earlier drop never loses more", not worse, f"{len(worse)} of them do"),
        Check(
            "a drop after both stops delivering while one at the stream goes on",
            stops is not None and early[-1] is not None,
            f"after both: none left from {stops:.0%} excess; at the stream {percent(early[-1])} "
            f"missing at {excesses[-1]:.0%}",
        ),
        Check(
            "a drop at the stream loses what the analysis says, to 5 points",
            off <= 0.05,  # noqa: PLR2004
            f"off by {100 * off:.1f} points at most",
        ),
    ]


def draw(found: Curves, excesses: Sequence[float]) -> Figure:
    """Draw the drop rate over the excess."""
    figure, (axes,) = canvas("Nested windows: where the drop stands")
    for place, colour in zip(PLACES, (ORANGE, GREEN, BLUE), strict=True):
        known = [(100 * e, 100 * p) for e, p in zip(excesses, found[place], strict=True) if p]
        axes.plot(*zip(*known, strict=True), "o-", ms=4, color=colour, label=place)
    axes.set_ylim(0, 100)
    label(axes, "Results missing", "excess load, %", "%")
    legend(axes)
    return figure


class Placement(Experiment):
    """The drop rate by excess load, for three places of the drop."""

    id = "D1"
    paper = "DROP, figure 10"
    title = "Nested windows: where the drop stands"
    reports = (
        "nested tumbling counts of 10 and 100, batch size 10, parts of equal cost: a window drop "
        "scales far better than a random drop after both, which delivers nothing beyond 65 % "
        "excess; at the input it never loses more than in the middle."
    )
    here = (
        "How many results must be missing for all work to fit, with the drop after both counts, "
        "between them, and at the stream, where Lowwater puts it."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Count the work that is left for each share, and find the share that is needed."""
        ticks = 12_000 if quick else 40_000
        excesses = EXCESSES[2::4] if quick else EXCESSES
        measured = counted(nested, ticks, (0.0, 0.3, 0.6, 0.9) if quick else SHARES)
        found = curves(measured, excesses)
        rows: list[dict[str, Value]] = [
            {"excess %": 100 * e, **{p: percent(found[p][n]) for p in PLACES}}
            for n, e in enumerate(excesses)
        ]
        at = excesses.index(0.25)
        stops = next((e for e, p in zip(excesses, found[PLACES[0]], strict=True) if p is None), 0)
        return Outcome(
            rows=rows,
            compared=[
                Comparison(
                    "no results with a drop after both", "beyond 65 % excess", f"at {stops:.0%}"
                ),
                Comparison(
                    "missing at 25 % excess: after both, between, at the stream",
                    "in this order, falling",
                    ", ".join(percent(found[p][at]) for p in PLACES),
                ),
            ],
            checks=check(found, excesses),
            figure=draw(found, excesses),
            settings={"ticks": ticks, "max_gap": 10},
        )


EXPERIMENT = Placement()
