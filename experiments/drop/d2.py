"""D2: one drop for two queries (DROP, figures 9 and 11).

The plan is reconstructed: one stage for both queries, then for each query a stage, a count and a
stage, all of equal cost. The counts are of windows of 10 and of 20 that slide by 10. The paper
compares one drop where the stream enters, one drop for each query behind the split, and a random
drop behind each count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lowwater as lw
from experiments.drop.drops import (
    LIMIT,
    SHARES,
    RemainingWork,
    Stage,
    between,
    counted,
    drop_needed,
    percent,
)
from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, GREEN, ORANGE, canvas, label, legend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

WINDOWS = {"a": (10, 10), "b": (20, 10)}
EXCESSES = (0.1, 0.25, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0)
WAYS = ("one drop for both", "a drop for each", "random, after the counts")
Curves = dict[str, list[float | None]]


def both(stream: lw.Stream) -> lw.Together:
    """Return two counts over one stream."""
    return lw.together(
        **{
            name: stream.window(range=size, slide=slide).agg(n=lw.count())
            for name, (size, slide) in WINDOWS.items()
        }
    )


def together_needed(measured: Sequence[RemainingWork], excess: float) -> float | None:
    """Return the drop rate of one drop for both: it saves rows at all stages behind the stream."""
    rows = Stage(3.0, lambda left: left.rows)
    first = Stage(1.0, lambda left: left.results["window"])
    second = Stage(1.0, lambda left: left.results["window 2"])
    return drop_needed([rows, first, second], measured, excess)


def apart_needed(measured: Sequence[Sequence[RemainingWork]], excess: float) -> float | None:
    """Return the drop rate of a drop for each query: the stage before the split saves nothing.

    Each query sheds half of the excess; the drop rate is the mean of both.
    """
    found = []
    for of_one in measured:
        stages = [
            Stage(0.5, lambda _: 1.0),
            Stage(1.0, lambda left: left.rows),
            Stage(1.0, lambda left: left.results["window"]),
        ]
        found.append(drop_needed(stages, of_one, excess))
    known = [p for p in found if p is not None]
    return sum(known) / len(known) if len(known) == len(found) else None


def random_needed(excess: float) -> float | None:
    """Return the drop rate of a drop behind the counts: only the last stages save work."""
    p = excess / (1 + excess) * 5 / 2
    return p if p <= LIMIT else None


def check(found: Curves, excesses: Sequence[float]) -> list[Check]:
    """Return the shapes and whether they hold."""
    shared, split, random = (found[w] for w in WAYS)
    worse = [
        e
        for e, a, b, c in zip(excesses, shared, split, random, strict=True)
        if (b is not None and (a is None or a > b + 0.01))
        or (c is not None and (b is None or b > c + 0.01))
    ]
    at = list(excesses).index(0.25)
    one, each = shared[at], split[at]
    return [
        Check("one drop for both never loses more", not worse, f"it does at {len(worse)} loads"),
        Check(
            "one drop for both goes on where the others cannot",
            shared[-1] is not None and random[-1] is None,
            f"at {excesses[-1]:.0%}: {', '.join(percent(found[w][-1]) for w in WAYS)}",
        ),
        Check(
            "at 25 % excess it loses least",
            one is not None and each is not None and one < each,
            ", ".join(f"{w} {percent(found[w][at])}" for w in WAYS),
        ),
    ]


def draw(found: Curves, excesses: Sequence[float]) -> Figure:
    """Draw the drop rate over the excess."""
    figure, (axes,) = canvas("Two queries: one drop or two")
    for way, colour in zip(WAYS, (BLUE, GREEN, ORANGE), strict=True):
        known = [(100 * e, 100 * p) for e, p in zip(excesses, found[way], strict=True) if p]
        axes.plot(*zip(*known, strict=True), "o-", ms=4, color=colour, label=way)
    axes.set_ylim(0, 100)
    label(axes, "Results of both queries missing", "excess load, %", "%")
    legend(axes)
    return figure


class SharedDrop(Experiment):
    """The drop rate by excess load, for one drop, one for each query, and random drops."""

    id = "D2"
    paper = "DROP, figure 11"
    title = "Two queries: one drop or two"
    reports = (
        "two aggregates over one stream: shedding at the earliest point, before the split, gives "
        "the smallest drop rate, then a window drop for each query, then random drops after them."
    )
    here = (
        "How many results of both must be missing for all work to fit. One drop for both is what "
        "Lowwater does for queries that run together."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Count the work that is left, and find the share that is needed."""
        ticks = 6_000 if quick else 24_000
        shares = (0.0, 0.4, 0.9) if quick else SHARES
        excesses = (0.25, 2.0) if quick else EXCESSES
        shared = counted(both, ticks, shares)
        split = [between(size, slide, ticks, shares) for size, slide in WINDOWS.values()]
        found: Curves = {
            WAYS[0]: [together_needed(shared, e) for e in excesses],
            WAYS[1]: [apart_needed(split, e) for e in excesses],
            WAYS[2]: [random_needed(e) for e in excesses],
        }
        rows: list[dict[str, Value]] = [
            {"excess %": 100 * e, **{w: percent(found[w][n]) for w in WAYS}}
            for n, e in enumerate(excesses)
        ]
        at = list(excesses).index(0.25)
        return Outcome(
            rows=rows,
            compared=[
                Comparison(
                    "missing at 25 % excess: one drop, one each, random",
                    "in this order, rising",
                    ", ".join(percent(found[w][at]) for w in WAYS),
                )
            ],
            checks=check(found, excesses),
            figure=draw(found, excesses),
            settings={"ticks": ticks, "max_gap": 10, "windows": str(WINDOWS)},
        )


EXPERIMENT = SharedDrop()
