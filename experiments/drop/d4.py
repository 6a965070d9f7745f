"""D4: the drop rate by how much windows overlap (DROP, figure 13).

The plan of D3 with windows of 100. As the slide grows there are fewer results, so that less is
spared behind the windows, until rows can be dropped before them: from ⌊ω/δ⌋ ≤ B on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drop.drops import LIMIT, SHARES, around, between, drop_needed, model, percent
from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, GREEN, GREY, ORANGE, canvas, label, legend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

SIZE = 100
SLIDES = (1, 2, 10, 20, 50, 100)
EXCESSES = (0.25, 0.5, 0.75)
NEAR = 0.05
Rates = dict[float, list[float | None]]


def measure(slides: Sequence[int], ticks: int, shares: Sequence[float]) -> Rates:
    """Return the drop rate that each slide needs at each excess."""
    found: Rates = {e: [] for e in EXCESSES}
    for slide in slides:
        left = between(SIZE, slide, ticks * max(1, min(4, slide // 10)), (*shares, LIMIT))
        for excess in EXCESSES:
            found[excess].append(drop_needed(around(slide), left, excess))
    return found


def check(found: Rates, slides: Sequence[int]) -> list[Check]:
    """Return the shapes and whether they hold."""
    off, apart = [], []
    for excess, rates in found.items():
        for slide, p in zip(slides, rates, strict=True):
            analysed = model(SIZE, slide, excess)
            if p is not None and analysed is not None:
                off.append(abs(p - analysed))
            elif min(x for x in (p, analysed, LIMIT) if x is not None) < LIMIT - NEAR:
                apart.append((slide, excess))
    first = [LIMIT if p is None else p for p in found[EXCESSES[0]]]
    peak = first.index(max(first))
    humped = first[0] < first[peak] > first[-1] and SIZE // slides[-1] <= 10  # noqa: PLR2004
    return [
        Check(
            "the drop rate rises with the slide, then falls once rows can be dropped early",
            humped and first[-1] < first[0],
            ", ".join(f"slide {s}: {percent(p)}" for s, p in zip(slides, first, strict=True)),
        ),
        Check(
            "measured rates follow the model, to 5 points",
            max(off) <= NEAR and not apart,
            f"off by {100 * max(off):.1f} points at most",
        ),
    ]


def draw(found: Rates, slides: Sequence[int]) -> Figure:
    """Draw the drop rate over the slide, measured and as the model has it."""
    figure, (axes,) = canvas("Drop rate by slide, windows of 100")
    for (excess, rates), colour in zip(found.items(), (BLUE, GREEN, ORANGE), strict=True):
        shown = [100 * (LIMIT if p is None else p) for p in rates]
        axes.plot(slides, shown, "o-", ms=4, color=colour, label=f"{excess:.0%} too fast")
        analysed = [100 * (model(SIZE, s, excess) or LIMIT) for s in slides]
        axes.plot(slides, analysed, ":", color=GREY)
    axes.set_xscale("log")
    axes.set_ylim(0, 100)
    label(axes, "Results missing (at most 10 of 11); dotted: the model", "slide, ticks", "%")
    legend(axes)
    return figure


class WindowSlide(Experiment):
    """The drop rate needed, by slide and excess."""

    id = "D4"
    paper = "DROP, figure 13"
    title = "Drop rate by slide"
    reports = (
        "windows of 100, slide 1, 10, 50, 100, batch size 10: the required drop first increases, "
        "then decreases when early drops begin, at a slide above 10; the analysis captures it."
    )
    here = "As D3. The table has 'not enough' where even 10 of 11 results missing do not suffice."

    def run(self, *, quick: bool) -> Outcome:
        """Find the rate for each slide and excess."""
        slides = (1, 10, 100) if quick else SLIDES
        ticks, shares = (5_000, (0.0, 0.4)) if quick else (8_000, SHARES)
        found = measure(slides, ticks, shares)
        rows: list[dict[str, Value]] = [
            {"slide": s, **{f"{e:.0%} excess": percent(found[e][n]) for e in EXCESSES}}
            for n, s in enumerate(slides)
        ]
        return Outcome(
            rows=rows,
            compared=[
                Comparison(
                    f"slide {s}, 25 % excess",
                    "–",
                    f"{percent(found[0.25][n])}; model {percent(model(SIZE, s, 0.25))}",
                )
                for n, s in enumerate(slides)
            ],
            checks=check(found, slides),
            figure=draw(found, slides),
            settings={"ticks": ticks, "max_gap": 10, "size": SIZE},
        )


EXPERIMENT = WindowSlide()
