"""D3: the drop rate does not depend on how long windows are (DROP, figure 12).

A stage, a count and a stage, a row costing as much in both; the stream is 25 % too fast. The paper
gives 0.39 for windows that slide by 1 from the costs it measured; with nothing but the two stages,
the same formula gives 0.40. Windows that slide by 1 and are longer than 10 cannot be dropped early:
of 10 in a row every row is in one that is kept.

On a simulated machine the load shedder has to find the rate by itself, from a bound on the age of
results alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter

import numpy as np

import lowwater as lw
from experiments.drop.drops import SHARES, around, between, drop_needed, model, percent
from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, GREY, ORANGE, canvas, label, legend
from experiments.streams.overload import Prices, live
from lowwater.ticks import TICKS_PER_SECOND as SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

SIZES = (20, 40, 60, 80, 100)
EXCESS = 0.25
SECONDS = 60
"""The stream of the load shedder: it takes 16 s until a backlog reaches the bound on age."""
NEAR = 0.05
"""How far measured drop rates may be off the model."""
Rates = dict[str, list[float]]


def measure(sizes: Sequence[int], ticks: int, shares: Sequence[float]) -> Rates:
    """Return the drop rate that each size needs, for both slides."""
    found: Rates = {"tumbling": [], "slide 1": []}
    for size in sizes:
        for name, slide in (("tumbling", size), ("slide 1", 1)):
            # A short stream has few tumbling windows, and each is dropped as a whole or not.
            length = ticks if slide == 1 else ticks * 4
            needed = drop_needed(around(slide), between(size, slide, length, shares), EXCESS)
            found[name].append(1.0 if needed is None else needed)
    return found


def shedder(size: int, slide: int, seconds: int) -> float:
    """Return the share of results that the load shedder drops; a tick is a millisecond."""
    feed = lw.feed("ts timestamp")
    stream = lw.stream(feed, time="ts", watermark=lw.ordered())
    query = stream.window(range=f"{size} milliseconds", slide=f"{slide} milliseconds").agg(
        n=lw.count()
    )
    each = 1_000 * (1 + EXCESS) / (1 + 1 / slide)
    prices = Prices(epoch=5_000, row=each, shed=1.0, result=each)
    with catch_warnings():
        simplefilter("ignore", lw.ShedWarning)
        lived = live(
            query,
            np.arange(seconds * 1_000) * 1_000,
            prices,
            lw.shed(latency="4 seconds", max_gap=10),
            until=seconds * SECOND,
        )
    ends = np.array(lived.ends)
    settled = ends[ends > ends.max() - seconds * SECOND // 2]
    span = int(settled.max() - settled.min()) + slide * 1_000
    return 1 - len(settled) * slide * 1_000 / span


def check(found: Rates, chosen: dict[str, float], sizes: Sequence[int]) -> list[Check]:
    """Return the shapes and whether they hold."""
    models = {"tumbling": model(sizes[0], sizes[0], EXCESS), "slide 1": model(sizes[0], 1, EXCESS)}
    flat = {name: max(rates) - min(rates) for name, rates in found.items()}
    off = {n: max(abs(p - (models[n] or 1)) for p in rates) for n, rates in found.items()}
    return [
        Check(
            "the drop rate is flat in the size of windows",
            max(flat.values()) <= NEAR,
            ", ".join(f"{n} within {100 * v:.1f} points" for n, v in flat.items()),
        ),
        Check(
            "it is within 5 points of the model",
            max(off.values()) <= NEAR,
            ", ".join(f"{n} off by {100 * v:.1f} points at most" for n, v in off.items()),
        ),
        Check(
            "the load shedder finds it, to 5 points",
            all(abs(p - (models[n] or 1)) <= NEAR for n, p in chosen.items()),
            ", ".join(f"{n} {percent(p)}" for n, p in chosen.items()),
        ),
        Check(
            "windows that tumble lose less",
            max(found["tumbling"]) < min(found["slide 1"]),
            f"{percent(max(found['tumbling']))} at most, {percent(min(found['slide 1']))} at least",
        ),
    ]


def draw(found: Rates, sizes: Sequence[int]) -> Figure:
    """Draw the drop rate over the size."""
    figure, (axes,) = canvas("Drop rate by window size, 25 % too fast")
    for (name, rates), colour in zip(found.items(), (BLUE, ORANGE), strict=True):
        axes.plot(sizes, [100 * p for p in rates], "o-", ms=4, color=colour, label=name)
    for slide in (sizes[0], 1):
        axes.axhline(100 * (model(sizes[0], slide, EXCESS) or 1), ls=":", color=GREY)
    axes.set_ylim(0, 60)
    label(axes, "Results missing; dotted: the model", "window size, ticks", "%")
    legend(axes)
    return figure


class WindowSize(Experiment):
    """The drop rate needed at 25 % excess, by window size."""

    id = "D3"
    paper = "DROP, figure 12"
    title = "Drop rate by window size"
    reports = (
        "25 % excess, batch size 10: drop rates stay almost fixed as windows grow, lower for "
        "tumbling windows; the analysis gives 0.20 (tumbling) and 0.39 (slide 1), measured "
        "tumbling rates lie above it."
    )
    here = (
        "How many results must be missing for all work to fit; costs are counted, not waited for."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Find the rate for each size."""
        sizes = (20, 100) if quick else SIZES
        ticks, shares = (1_500, (0.0, 0.5, 0.9)) if quick else (8_000, SHARES)
        found = measure(sizes, ticks, shares)
        chosen = {
            name: shedder(100, slide, SECONDS)
            for name, slide in (("tumbling", 100), ("slide 1", 1))
        }
        rows: list[dict[str, Value]] = [
            {"size": size, **{name: percent(rates[n]) for name, rates in found.items()}}
            for n, size in enumerate(sizes)
        ]
        return Outcome(
            rows=rows,
            compared=[
                Comparison("tumbling, model", "20 %", percent(model(100, 100, EXCESS))),
                Comparison("slide 1, model", "39 %", percent(model(100, 1, EXCESS))),
                Comparison("tumbling, measured", "above the model", percent(found["tumbling"][-1])),
                Comparison("slide 1, measured", "as the model", percent(found["slide 1"][-1])),
                *(
                    Comparison(f"{n}, by the load shedder", "–", percent(p))
                    for n, p in chosen.items()
                ),
            ],
            checks=check(found, chosen, sizes),
            figure=draw(found, sizes),
            settings={"ticks": ticks, "max_gap": 10, "excess %": 25},
        )


EXPERIMENT = WindowSize()
