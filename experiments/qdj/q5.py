"""Q5: the quality model, its worked example and how far it is off (QDJ 5.3).

Both streams of the example have the shares 0.6, 0.2, 0.1 and 0.1 of rows that are late by 0 to 3
units; A keeps 3 units, B 2. The outer sums of (5.11) and (5.12) run to W - 1: only then do they
give the numbers of the example. Beyond it, late degrees, windows, slack and lag are drawn at random
and the join of `qdj` is run on rows that have them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.harness.contract import Check, Comparison, Experiment, Outcome, Value
from experiments.harness.plot import BLUE, GREY, canvas, label
from experiments.reference.qdj import Floats, Ints, Join, Pair, Windows
from experiments.reference.quality import quality
from lowwater.watermarks.adaptive.lateness import LatenessHistogram, late_degrees

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLE = LatenessHistogram(1, np.array([0.6, 0.2, 0.1, 0.1]))
SAID = 0.465
TINY = 1e-12
POINT = 1.0
TICKS, BLOCK = 400, 10
EDGE = 60
"""The units at both ends that are not counted: there windows fill, or late rows are missing."""


@dataclass(frozen=True)
class RandomCase:
    """The random settings of one comparison."""

    shares: tuple[Floats, Floats]
    windows: tuple[int, int]
    slack: int
    lag: int

    @classmethod
    def one(cls, random: np.random.Generator) -> RandomCase:
        """Draw it."""
        sizes = random.integers(1, 14, 2)
        a, b = (np.concatenate(([1.0], random.uniform(size=n))) for n in sizes)
        windows = random.integers(2, 41, 2)
        slack, lag = random.integers(0, 9), random.integers(-6, 7)
        return cls((a, b), (int(windows[0]), int(windows[1])), int(slack), int(lag))


def dealt(random: np.random.Generator, shares: Floats, each: int) -> tuple[Ints, Ints]:
    """Return times and late degrees with these shares; every unit has a row that is on time."""
    places = (np.arange(BLOCK * each) + random.uniform(size=(TICKS // BLOCK, 1))) / (BLOCK * each)
    places = random.permuted(places, axis=1).ravel()
    degree = np.searchsorted(np.cumsum(shares) / shares.sum(), places)
    degree[::each] = 0
    return np.repeat(np.arange(TICKS), each) + 1, degree


def measured(drawn: RandomCase, random: np.random.Generator, each: int) -> tuple[float, float]:
    """Return the estimated quality and that of the join."""
    sides = [dealt(random, shares, each) for shares in drawn.shares]
    ts, degree = (np.concatenate(both) for both in zip(*sides, strict=True))
    whose = np.repeat(np.array([0, 1], np.int8), TICKS * each)
    order = np.lexsort((degree > 0, ts + degree - drawn.lag * (whose == 0)))
    stream = Pair(ts[order], whose[order])
    join = Join(Windows(drawn.windows, 1), TICKS)
    join.feed(stream, (drawn.slack, drawn.slack))
    join.settle()
    since, until = EDGE, TICKS - EDGE
    found = join.given[since:until].sum() / join.wanted(since, until).sum()
    a, b = (_late(stream.ts[stream.side == s]) for s in (0, 1))
    return quality(a, b, *drawn.windows, drawn.slack, lag=drawn.lag), float(found)


def _late(ts: Ints) -> LatenessHistogram:
    """Count late degrees, but not of rows that would have come after the last unit."""
    before = ts < TICKS - EDGE
    return LatenessHistogram.of(late_degrees(ts, None)[before], 1)


def draw(pairs: Floats) -> Figure:
    """Draw estimated against measured quality."""
    figure, (axes,) = canvas("The quality model")
    axes.plot([0, 100], [0, 100], color=GREY, lw=0.8)
    axes.plot(100 * pairs[:, 1], 100 * pairs[:, 0], ".", color=BLUE)
    label(axes, "Random late degrees, windows, slack and lag", "measured, %", "estimated, %")
    return figure


class WorkedExample(Experiment):
    """The quality model."""

    id = "Q5"
    paper = "QDJ, section 5.3"
    title = "The quality model"
    reports = "Of the example's results 46.5 % are produced."
    here = (
        "The example by the model; then the model against the join itself, on rows with random "
        "late degrees, windows, slack and lag."
    )

    def run(self, *, quick: bool) -> Outcome:
        """Compare the model with its example and with joins."""
        random = np.random.default_rng(1)
        many, each = (40, 20) if quick else (1_000, 40)
        cases = [RandomCase.one(random) for _ in range(many)]
        pairs = np.array([measured(case, random, each) for case in cases])
        off = 100 * np.abs(pairs[:, 0] - pairs[:, 1])
        example = quality(EXAMPLE, EXAMPLE, 3, 2, 0)
        rows: list[dict[str, Value]] = [
            {
                "measured %": f"{low} to {low + 20}",
                "cases": int(here.sum()),
                "mean error, points": float(off[here].mean()) if here.any() else None,
                "largest error, points": float(off[here].max()) if here.any() else None,
            }
            for low in range(0, 100, 20)
            for here in [(100 * pairs[:, 1] >= low) & (100 * pairs[:, 1] <= low + 20)]
        ]
        return Outcome(
            rows=rows,
            compared=[Comparison("worked example", "46.5 %", f"{100 * example:.10g} %")],
            checks=[
                Check("the worked example is exact", abs(example - SAID) < TINY, f"{example:.12f}"),
                Check(
                    "the estimate is within one point of the join",
                    bool(off.max() <= POINT),
                    f"{many} cases: mean {off.mean():.3f}, largest {off.max():.3f} points",
                ),
            ],
            figure=draw(pairs),
            settings={"units": TICKS, "rows per unit and stream": each},
        )


EXPERIMENT = WorkedExample()
